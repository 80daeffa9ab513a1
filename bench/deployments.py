# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Many deployments side by side: wall time of one restart of all against one alone, and what the controller needs.

    .venv/bin/python bench/deployments.py --counts 1 5 15 30 [--waves 10 30] [--load-s 20] [--keep]

Engines are simulated and sleep while they load, so that what is measured is the controller, and not the engines. On one host
the modules that run "on the machines" take its cores too; over ssh they would not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent


def lab(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words, "--dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {folder.name}: {done.stdout}{done.stderr}")


def resident_mb(pid: int) -> tuple[float, int]:
    """Memory of a process and all below it that no other process shares (Pss), and how many these are."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    total = 0
    for one in found:
        try:
            rows = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1024, len(found)


def play(inventories: list[Path], forks: int, wave: int, load_timeout_s: int) -> dict[str, float]:
    """One restart of all of them."""
    command = [
        str(BIN / "ansible-playbook"),
        "restart.yml",
        "-f",
        str(forks),
        "-e",
        f"pd_load_timeout_s={load_timeout_s}",
    ]
    command += ["-e", f"change_wave={wave}", "-e", "pd_report=false"]
    command += [word for path in inventories for word in ("-i", str(path))]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        peak, most, done = [0.0], [0], threading.Event()

        def watch() -> None:
            while not done.wait(1.0):
                memory, count = resident_mb(process.pid)
                peak[0], most[0] = max(peak[0], memory), max(most[0], count)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        code = process.wait()
        done.set()
        watcher.join()
        output.seek(0)
        if code != 0:
            text = output.read()
            raise SystemExit(f"bench: rc {code}\n{text[-4000:]}")

    wall = time.monotonic() - begin
    return {
        "wall_s": wall,
        "peak_mb": peak[0],
        "processes": most[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 5, 15, 30])
    parser.add_argument(
        "--waves", type=int, nargs="+", default=[0], help="deployments and forks at once (default: all)"
    )
    parser.add_argument("--load-s", type=float, default=10.0, help="how long an engine loads (default: 10)")
    parser.add_argument("--keep", action="store_true", help="leave the labs up")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="pdops-bench-"))
    made: list[Path] = []
    rows = []

    def start(number: int) -> Path:
        folder = home / f"d{number + 1:02}"
        made.append(folder)
        lab(
            folder, "up", "--name", folder.name, "--light", "--load-time-s", str(given.load_s), "--health-time-s", "0.2"
        )
        return folder

    try:
        with ThreadPoolExecutor(4) as starters:
            folders = list(starters.map(start, range(max(given.counts))))
        for count, wave in sorted(
            {(count, min(wave or count, count)) for count in given.counts for wave in given.waves}
        ):
            before = os.times()
            row = play([folder / "inventory.json" for folder in folders[:count]], wave, wave, 600)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            rows.append({"deployments": count, "wave": wave, **row, "cpu_s": cpu})
            first = rows[0]["wall_s"]
            print(
                f"{count:>3} deployments, {wave} at once: {row['wall_s']:6.1f} s wall ({row['wall_s'] / first:.2f} x one), "
                f"{cpu / count:5.1f} s of CPU each, controller at most {row['peak_mb']:.0f} MB in {row['processes']:.0f} processes",
                flush=True,
            )
    finally:
        if not given.keep:
            for folder in made:
                lab(folder, "down")
            # In a finally: an error here would hide why the measurement ended. A lab that is going down may still write.
            shutil.rmtree(home, ignore_errors=True)
    print(json.dumps({"rows": rows}))
    print(
        f"bench: {max(given.counts)} simulated deployments, {os.cpu_count()} cores for all of them and the controller"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

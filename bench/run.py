# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Measures, in one run, on one lab: machines are noisy, so ratios count and not seconds.

1. Nothing to do: restore_knob.yml against the same steps in builtin tasks, interleaved.
2. A whole restore: from a gate passed to the next step, and the whole without the engines' load time.
3. The transaction: restart.yml against the same stops, starts and gates alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
LOAD_S = 2.0


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PDOPS_LAB_DIR": str(folder),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_INVENTORY": str(ROOT / "inventory" / "lab"),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def timed(folder: Path, playbook: str, *arguments: str) -> float:
    begin = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", playbook, *arguments],
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {playbook} failed:\n{done.stdout}{done.stderr}")
    return time.monotonic() - begin


def side_by_side(folder: Path, rounds: int, one: str, other: str) -> tuple[float, float]:
    """Median seconds of two playbooks, interleaved so that noise hits both."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        pair = [(ours, one), (theirs, other)]
        for times, playbook in pair if number % 2 else reversed(pair):
            times.append(timed(folder, playbook))
    return statistics.median(ours), statistics.median(theirs)


def steps_of(folder: Path) -> list[str]:
    """What the newest change's record says has begun; its end counts as a step too."""
    found = sorted((folder / "state" / "changes").glob("[!.]*.json"))
    record = json.loads(found[-1].read_text()) if found else {"steps": [], "state": ""}
    steps = [f"{step['step']} {step['instance']}".strip() for step in record["steps"]]
    return [*steps, "confirm"] if record["state"] == "confirmed" else steps


def whole_restore(folder: Path, playbook: str, *arguments: str) -> tuple[float, list[float]]:
    """Wall seconds, and for each instance the seconds from its last gate's line to the next step in the record."""
    passed: list[tuple[float, str]] = []
    begun: list[tuple[float, str]] = []
    over = threading.Event()
    before = len(list((folder / "state").glob("changes/[!.]*.json")))

    def watch() -> None:
        while not over.is_set():
            try:
                now = steps_of(folder) if len(list((folder / "state").glob("changes/[!.]*.json"))) > before else []
            except (ValueError, OSError):
                now = []
            for step in now[len(begun) :]:
                begun.append((time.monotonic(), step))
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.monotonic()
    process = subprocess.Popen(
        ["ansible-playbook", playbook, *arguments], cwd=ROOT, env=environment(folder), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        match = re.match(r"  (lab-\w+)  (\w+) +(passed|not-observable) in", line)
        if match:
            passed.append((time.monotonic(), match[1]))
    rc = process.wait()
    wall = time.monotonic() - begin
    time.sleep(0.1)
    over.set()
    watcher.join()
    if rc != 0:
        raise SystemExit(f"bench: {playbook} failed; see it with ansible-playbook {playbook}")
    gaps = []
    for name in ("lab-prefill", "lab-decode", "lab-router"):
        last = max(at for at, who in passed if who == name)
        gaps.append(min(at for at, _step in begun if at > last) - last)
    return wall, gaps


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=str(ROOT / ".lab-bench"))
    given = parser.parse_args()
    folder = Path(given.dir)
    lab = [sys.executable, "-m", "lab"]
    subprocess.run([*lab, "up", "--story", "--load-time-s", str(LOAD_S), "--dir", str(folder)], cwd=ROOT, check=True)
    try:
        walls, gaps = [], []
        for number in range(max(2, given.rounds // 2)):
            playbook = ("restore_knob.yml", "revert_knob.yml")[number % 2]
            wall, found = whole_restore(folder, playbook, "-e", f"knob={KNOB}", "-e", "reason=suspicion")
            walls.append(wall)
            gaps += found
        if len(walls) % 2 == 0:
            whole_restore(folder, "restore_knob.yml", "-e", f"knob={KNOB}")
        ours, theirs = side_by_side(folder, given.rounds, "restore_knob.yml", "bench/nothing_to_do.yml")
        whole, bare = side_by_side(folder, max(2, given.rounds // 2), "restart.yml", "bench/bare_restart.yml")
    finally:
        subprocess.run([*lab, "down", "--dir", str(folder)], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    rest = statistics.median(walls) - 2 * LOAD_S
    rows = {
        "nothing to do, restore_knob.yml (median s)": round(ours, 2),
        "nothing to do, builtin tasks (median s)": round(theirs, 2),
        "ratio (at most 0.33 wanted)": round(ours / theirs, 2),
        "gate passed to next step (median s, under 1.5 wanted)": round(statistics.median(gaps), 2),
        "whole restore without load time (median s, under 25 wanted)": round(rest, 1),
        "restart.yml, a transaction (median s)": round(whole, 1),
        "the same stops, starts and gates alone (median s)": round(bare, 1),
        "the transaction costs (s, under 3 wanted)": round(whole - bare, 1),
        "load average": os.getloadavg()[0],
    }
    for name, value in rows.items():
        print(f"  {name:<60} {value}")
    holds = ours / theirs <= 1 / 3 and statistics.median(gaps) < 1.5 and rest < 25 and whole - bare < 3
    print(f"bench: {'all four hold' if holds else 'NOT all hold'} in this run")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())

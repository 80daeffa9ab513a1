# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""From the end of a dead controller's lease to the old state serving, on a lab of its own.

The controller is killed with -9 between two starts, so that the guard has to stop, restore, and start all three. Taken off are the load
times of the two engines; the stops and the router's start are in the figure.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from run import KNOB, ROOT, environment

LOAD_S = 2.0
QUICK = ["change_step_budget_s=6", "change_lease_slack_s=2", "pd_load_timeout_s=20", "pd_drain_s=3"]


def newest(folder: Path) -> dict:
    found = sorted((folder / "state" / "changes").glob("[!.]*.json"))
    return json.loads(found[-1].read_text()) if found else {"id": "", "state": "", "steps": []}


def wait(for_what: str, holds, timeout_s: float = 120) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"lease_end: {for_what} did not come within {timeout_s:.0f} s")
        time.sleep(0.05)


def serves(folder: Path) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "lab", "ask", "--dir", str(folder)], cwd=ROOT, capture_output=True, check=False
    )
    return done.returncode == 0


def once(folder: Path) -> float:
    """Seconds from the lease's end to a request that is answered, by the clock that the guard uses."""
    known = newest(folder)["id"]
    process = subprocess.Popen(
        [
            "ansible-playbook",
            "restore_knob.yml",
            *(word for given in (f"knob={KNOB}", *QUICK) for word in ("-e", given)),
        ],
        cwd=ROOT,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def begun() -> bool:
        record = newest(folder)
        return record["id"] != known and ("start", "lab-decode") in [
            (step["step"], step["instance"]) for step in record["steps"]
        ]

    wait("the start of decode", begun)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait("the guard", lambda: "restored" in [step["step"] for step in newest(folder)["steps"]])
    deadline = newest(folder)["lease"]["deadline_s"]
    wait("the stop of prefill", lambda: newest(folder)["steps"][-1]["step"] in ("start", "serving"))
    wait("the old state", lambda: serves(folder))
    return time.clock_gettime(time.CLOCK_BOOTTIME) - deadline


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".lab-bench-lease")
    lab = [sys.executable, "-m", "lab"]
    subprocess.run([*lab, "up", "--story", "--load-time-s", str(LOAD_S), "--dir", str(folder)], cwd=ROOT, check=True)
    try:
        took = [once(folder) for _ in range(3)]
    finally:
        subprocess.run([*lab, "down", "--dir", str(folder)], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    rest = statistics.median(took) - 2 * LOAD_S
    print(f"  {'lease end to old state serving (median s, all)':<60} {statistics.median(took):.1f}")
    print(f"  {'without the load of both engines (s, under 10 wanted)':<60} {rest:.1f}")
    print(f"bench: a dead controller's change is back {'in time' if rest < 10 else 'NOT in time'}")
    return 0 if rest < 10 else 1


if __name__ == "__main__":
    sys.exit(main())

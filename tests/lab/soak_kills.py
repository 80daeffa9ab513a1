# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Whole playbooks killed at random moments; `make soak` runs it (not collected by `make test`).

Every other time the guard is waited for, and else the next run comes at once, while guard and lease still hold.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import KNOB, QUICK, Lab, leases

pytestmark = pytest.mark.lab

#: Of the runs that are killed: short enough to wait for a guard 13 times.
LEASES = leases(10)
KILLS = int(os.environ.get("PDOPS_SOAK_KILLS", "25"))
SEED = int(os.environ.get("PDOPS_SOAK_SEED", "0"))


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.story()
    return module_lab


class Contents:
    """The two contents of the script, and how long a whole change takes here."""

    def __init__(self, lab: Lab) -> None:
        self.old = lab.script.read_bytes()
        begin = time.monotonic()
        ran = lab.play("restore_knob.yml", *QUICK)
        assert ran.rc == 0, ran.text
        self.whole_s = time.monotonic() - begin
        self.new = lab.script.read_bytes()


@pytest.fixture(scope="module")
def contents(lab: Lab) -> Contents:
    return Contents(lab)


def serves_what_its_scripts_say(lab: Lab, contents: Contents) -> None:
    assert lab.script.read_bytes() in (contents.old, contents.new), "torn"
    assert lab.running_knob() == ("512" if lab.script.read_bytes() == contents.new else None)
    assert lab.serves()


def descendants(pid: int) -> set[int]:
    """The children of a process, theirs, and so on."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while new := {child for child, parent in parents.items() if parent in found | {pid}} - found:
        found |= new
    return found


def works(pid: int) -> bool:
    """Whether it still does what Ansible told it; a guard (``….pyz guard …``) is not of Ansible's."""
    try:
        return b".pyz" not in Path("/proc", str(pid), "cmdline").read_bytes() and (
            Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def kill(lab: Lab, process: subprocess.Popen[str]) -> None:
    """Kill the controller, and wait for its workers: each has a session of its own and carries through the task that it has."""
    left = descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()

    def gone() -> bool:
        left.update(*(descendants(pid) for pid in left))
        return not any(works(pid) for pid in left)

    lab.wait("the end of the killed controller's workers", gone)


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_playbook_leaves_old_or_new_and_the_next_run_ends_clean(
    lab: Lab, contents: Contents, number: int
) -> None:
    chance = random.Random(SEED * 1000 + number)
    forward = lab.script.read_bytes() == contents.old
    verb = ["restore_knob.yml"] if forward else ["revert_knob.yml", "-e", f"knob={KNOB}", "-e", "reason=suspicion"]
    process = lab.start(*verb, *LEASES)
    try:
        process.communicate(timeout=chance.uniform(0.1, contents.whole_s))
    except subprocess.TimeoutExpired:
        kill(lab, process)
    assert lab.script.read_bytes() in (contents.old, contents.new), "torn"
    if number % 2:
        lab.wait(
            "the guard's end", lambda: all(item["state"] not in ("open", "rolling-back") for item in lab.changes()), 120
        )
        serves_what_its_scripts_say(lab, contents)
        seen = lab.play("recover.yml")
        assert seen.rc == 0 and "no change waits to be ended" in seen.words, seen.text
    else:
        finish = (
            lab.play("recover.yml", "-e", "finish=back", *QUICK) if chance.random() < 0.5 else lab.play(*verb, *QUICK)
        )
        # The guard came first: before this run looked, or between its look and its begin.
        if any(
            words in finish.words for words in ("being rolled back now", "nothing was touched; run the same command")
        ):
            lab.wait("the guard's end", lambda: lab.changes()[-1]["state"] == "rolled-back", 120)
            finish = lab.play(*verb, *QUICK)
        assert finish.rc == 0, finish.text
        serves_what_its_scripts_say(lab, contents)
    assert all(item["state"] not in ("open", "rolling-back", "rollback-failed") for item in lab.changes())

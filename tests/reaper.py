# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Ends what a test run had started when the run itself is killed from outside, which runs no fixture's end.

A playbook would wait for ever else: stopped by a test that holds it, or for a lock or a fault that nobody takes away any more. One
process beside each process of pytest reads from a pipe what there is to end, and begins when the pipe closes, whatever closed it.
As long as the tests live it does nothing.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, TypeVar

from lab.processes import Identity, alive, identity

from .process_tree import signal_tree

ROOT = Path(__file__).resolve().parents[1]
Started = TypeVar("Started", bound="subprocess.Popen[Any]")


@functools.cache
def _pipe() -> IO[bytes]:
    beside = subprocess.Popen(
        [sys.executable, "-m", "tests.reaper"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends a whole group does not end it
    )
    assert beside.stdin is not None
    return beside.stdin


def _tell(*words: object) -> None:
    _pipe().write(" ".join(map(str, words)).encode() + b"\n")
    _pipe().flush()


def bound(process: Started) -> Started:
    """With all below it, it outlives the tests by no more than a moment."""
    there = identity(process.pid)
    if there is not None:
        _tell("process", *there)
    return process


def bound_lab(folder: Path) -> None:
    _tell("lab", folder)


def lab_ended(folder: Path) -> None:
    _tell("ended", folder)


def _main() -> None:
    processes: list[Identity] = []
    labs: dict[str, None] = {}
    for line in sys.stdin:
        kind, _, rest = line.rstrip("\n").partition(" ")
        if kind == "process":
            pid, ticks = rest.split()
            processes = [*filter(alive, processes), Identity(int(pid), int(ticks))]
        elif kind == "lab":
            labs[rest] = None
        else:
            labs.pop(rest, None)
    for process in filter(alive, processes):
        for number in (signal.SIGSTOP, signal.SIGKILL):  # nobody must see another one's death and act on it
            signal_tree(process.pid, number)
    for folder in labs:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-m", "lab", "down", "--dir", folder], cwd=ROOT, timeout=120, check=False)


if __name__ == "__main__":
    _main()

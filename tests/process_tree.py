# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""All processes of a playbook, so that a test can kill a whole controller, or hold it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def tree(pid: int) -> list[int]:
    """A process with all below it but guards; workers of ansible-playbook have sessions of their own.

    A guard (``….pyz guard …``) is meant to outlive its controller, and is below it only until the module that started it has ended.
    """
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b".pyz\0" not in (entry / "cmdline").read_bytes():
                parents[int(entry.name)] = parent
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def signal_tree(root: int, number: int) -> list[int]:
    found = tree(root)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return found


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill_tree(process: subprocess.Popen[Any]) -> str:
    """What it had printed. None of it lives any more."""
    signal_tree(process.pid, signal.SIGSTOP)  # nobody must see another one's death and act on it
    killed = signal_tree(process.pid, signal.SIGKILL)
    text = str(process.communicate()[0])
    while any(map(_lives, killed)):
        time.sleep(0.01)
    return text


@contextlib.contextmanager
def standing(process: subprocess.Popen[Any]) -> Iterator[None]:
    """It lives, and goes on afterwards where it was: nothing that it does can come between what is done within."""
    signal_tree(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_tree(process.pid, signal.SIGCONT)

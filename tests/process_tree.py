# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""All processes of a playbook, so that a test can kill a whole controller."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any


def tree(pid: int) -> list[int]:
    """A process with all below it; workers of ansible-playbook have sessions of their own."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def kill_tree(process: subprocess.Popen[Any]) -> None:
    for pid in tree(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()

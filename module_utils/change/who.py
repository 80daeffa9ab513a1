# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Who leads a change, and whether that controller process still lives."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

Leader = dict[str, Any]


def boot_id() -> str:
    """Identity of this boot of the kernel; empty when it cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read().strip()
    except OSError:
        return ""


def this_boot() -> str:
    """Identity of this start of the machine: of the kernel, and of the first process, since a container has no kernel of its own."""
    return f"{boot_id()}/{_started_ticks(1) or ''}"


def boot_clock_s() -> float:
    """Seconds since boot, suspended time included; the wall clock may jump, this one does not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started_ticks(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as source:
            # The command name may hold blanks and parentheses, so count from behind it.
            fields = source.read().rpartition(b")")[2].split()
            # A zombie has ended; only its parent has not asked for its exit status yet.
            return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def this_process(user: str, pid: int | None = None) -> Leader:
    """Describe the process ``pid`` (default: the caller) as the leader of a change."""
    number = os.getpid() if pid is None else pid
    return {
        "user": user,
        "host": socket.gethostname(),
        "pid": number,
        "started_ticks": _started_ticks(number),
        "boot_id": boot_id(),
        "pid_namespace": _pid_namespace(),
    }


def is_gone(leader: Leader) -> bool | None:
    """Whether the leading controller is dead: True, False, or None when this machine cannot see it.

    Only a controller on the same kernel and in the same pid namespace can be seen.
    """
    if not leader.get("boot_id") or leader["boot_id"] != boot_id():
        return None
    if leader.get("pid_namespace") != _pid_namespace() or not leader.get("pid"):
        return None
    ticks = _started_ticks(int(leader["pid"]))
    return ticks is None or ticks != leader.get("started_ticks")


def user_here() -> str:
    """Who runs this process, by name where it has one."""
    # On the controller only; the machines have no need of what it imports.
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def operator() -> str:
    """Who runs this process, and on which host, as journals and records name people."""
    return told({"user": user_here(), "host": socket.gethostname()})


def told(leader: Leader) -> str:
    """`alice on ops1`, for sentences."""
    return f"{leader.get('user') or 'somebody'} on {leader.get('host') or 'an unknown host'}"

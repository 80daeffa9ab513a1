# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which processes belong to a lab, and their end.

SGLang's children write over their environment and their command line, and one that outlives its parent
belongs to nobody. What none of them changes is the working directory: every program of the lab runs in a folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import NamedTuple


class Identity(NamedTuple):
    """A pid can be given to somebody else; the pid and the clock tick of its start (field 22 of stat) cannot."""

    pid: int
    ticks: int


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read()
    except OSError:
        return None
    return data[data.rindex(b")") + 1 :].decode().split()


def identity(pid: int) -> Identity | None:
    fields = _stat(pid)
    return None if fields is None else Identity(pid, int(fields[19]))


def alive(process: Identity) -> bool:
    fields = _stat(process.pid)
    if fields is None or int(fields[19]) != process.ticks:
        return False
    # A zombie holds nothing, but one whose other threads still run does.
    return fields[0] not in "ZX" or int(fields[17]) > 1


def own(folders: list[str], words: list[str]) -> list[Identity]:
    """Living processes of this user that work in one of the folders, or have one of the words in an argument.

    A person's shell that stands in the folder is none: it has a terminal.
    """
    places = {os.path.realpath(folder) for folder in folders}
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        fields = _stat(int(name))
        if fields is None or int(fields[4]) != 0:
            continue
        try:
            inside = os.readlink(f"/proc/{name}/cwd") in places
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = os.fsdecode(file.read()).split("\0")
        except OSError:
            continue
        if inside or any(word in arguments for word in words):
            process = Identity(int(name), int(fields[19]))
            if alive(process):
                found.append(process)
    return found


def listens(pid: int, port: int) -> bool:
    """Whether this process has a socket that listens on the port, on 127.0.0.1 or on all addresses."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    try:
        return bool(inodes) and any(
            os.readlink(f"/proc/{pid}/fd/{fd}") in inodes for fd in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False


def listener(port: int) -> int | None:
    """The process of this user that listens on a port."""
    return next((int(name) for name in os.listdir("/proc") if name.isdigit() and listens(int(name), port)), None)


def send(process: Identity, number: int) -> None:
    """Signal exactly this process."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def wait_gone(processes: list[Identity], timeout_s: float) -> list[Identity]:
    """Those that are left after at most timeout_s."""
    deadline = time.monotonic() + timeout_s
    left = [process for process in processes if alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [process for process in left if alive(process)]
    return left


def end(processes: list[Identity], patience_s: float) -> list[Identity]:
    """SIGTERM, then SIGKILL; returns what even that did not end."""
    for number, timeout_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 10.0)):
        for process in processes:
            send(process, number)
        processes = wait_gone(processes, timeout_s)
    return processes

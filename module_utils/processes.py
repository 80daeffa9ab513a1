# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Processes as /proc shows them: who they are, whose children, and whether they are gone.

A process is named by its pid and the clock tick at which it started (field 22
of /proc/PID/stat, proc(5)): a pid alone can be given to somebody else, the pair cannot.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

from .pdops_error import PdopsError

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})


class ProcessId(NamedTuple):
    """The identity of one process: pid, and start time in clock ticks since boot."""

    pid: int
    started_ticks: int


@dataclass(frozen=True)
class Process:
    """One line of /proc/PID/stat."""

    pid: int
    command: str  # at most 15 bytes, set by the process itself
    state: str
    ppid: int
    group: int
    session: int
    threads: int
    started_ticks: int

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.pid, self.started_ticks)

    @property
    def dead(self) -> bool:
        """A zombie holds nothing; one whose other threads still run does."""
        return self.state in "ZXx" and self.threads <= 1


def parse_stat(line: bytes) -> Process:
    """Parse /proc/PID/stat. The command is in parentheses and may itself hold blanks and parentheses."""
    opened, closed = line.index(b"("), line.rindex(b")")
    rest = line[closed + 1 :].split()
    return Process(
        pid=int(line[:opened]),
        command=line[opened + 1 : closed].decode("utf-8", "replace"),
        state=rest[0].decode(),
        ppid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        threads=int(rest[17]),
        started_ticks=int(rest[19]),
    )


def read_process(pid: int) -> Optional[Process]:
    """The process with this pid, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return parse_stat(file.read())
    except (OSError, ValueError, IndexError):
        return None


def process_table() -> Dict[int, Process]:
    """All processes of this machine (of this pid namespace) by pid."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = read_process(int(name))
            if found is not None:
                table[found.pid] = found
    return table


def descendants(roots: Iterable[int], table: Dict[int, Process]) -> Set[int]:
    """The roots that exist, and all their children's children."""
    children: Dict[int, List[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: Set[int] = set()
    waiting = [pid for pid in roots if pid in table]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, []))
    return found


def is_alive(process: ProcessId) -> bool:
    found = read_process(process.pid)
    return found is not None and found.started_ticks == process.started_ticks and not found.dead


def age_s(started_ticks: int) -> float:
    """Seconds since a process started; independent of the wall clock."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / TICKS_PER_SECOND)


def arguments(pid: int) -> List[str]:
    """The command line; empty when it is gone or not ours to see. A process may have overwritten it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            data = file.read()
    except OSError:
        return []
    return [os.fsdecode(part) for part in data.rstrip(b"\0").split(b"\0")] if data.strip(b"\0") else []


def executable(pid: int) -> str:
    """The base name of the running program, or of its command name where the link cannot be read."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe").replace(" (deleted)", ""))
    except OSError:
        found = read_process(pid)
        return found.command if found else ""


def is_shell(pid: int) -> bool:
    return executable(pid) in SHELLS


@dataclass(frozen=True)
class Environ:
    """What /proc/PID/environ holds: the environment at exec, unless the process wrote over it.

    ``whole`` is False when it cannot prove that a name is not set; ``why`` then
    says what is wrong with it: "not permitted", "gone", "empty" or "overwritten".
    """

    values: Dict[str, str]
    whole: bool
    why: str = ""


# Blanks, colons and the like do not occur in names, but do in the titles of setproctitle
# ("sglang::scheduler_TP0"). bash exports functions as BASH_FUNC_name%%.
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.%()\-]*\Z")


def parse_environ(data: bytes) -> Environ:
    """Parse the bytes of /proc/PID/environ.

    SGLang's processes call setproctitle, which writes the title over this memory
    and fills the rest with NUL, or, with a long title, all of it with text (seen on
    SGLang 0.5.23, cases/recorded/README.md, and on setproctitle 1.3). So the bytes count as whole
    only if every entry is NAME=VALUE; and nothing is taken out of damaged bytes.
    """
    if not data:
        return Environ({}, False, "empty")
    values: Dict[str, str] = {}
    body = data[:-1] if data.endswith(b"\0") else data
    for entry in body.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if not equals or not _NAME.match(name):
            return Environ({}, False, "overwritten")
        # getenv() gives the first of two equal names.
        values.setdefault(name.decode(), os.fsdecode(value))
    return Environ(values, True)


def read_environ(pid: int) -> Environ:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return parse_environ(file.read())
    except PermissionError:
        return Environ({}, False, "not permitted")
    except OSError:
        return Environ({}, False, "gone")


def send_signal(process: ProcessId, number: int) -> bool:
    """Signal exactly this process; False when it is already gone.

    Uses a pid file descriptor where the kernel has it (5.3), so that a pid that was
    given to somebody else between the look and the signal is never hit.
    """
    handle = -1
    try:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        except (AttributeError, OSError):
            handle = -1
        if not is_alive(process):
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        raise PdopsError(
            f"process {process.pid} may not be signalled by this user: run with become, as the user of the unit or root"
        ) from None
    finally:
        if handle >= 0:
            os.close(handle)


def alive(processes: Iterable[ProcessId]) -> List[ProcessId]:
    return [process for process in processes if is_alive(process)]


def wait_gone(processes: Iterable[ProcessId], timeout_s: float, poll_s: float = 0.05) -> List[ProcessId]:
    """Wait until all are gone, at most timeout_s; returns those that are not."""
    deadline = time.monotonic() + timeout_s
    left = alive(processes)
    while left and time.monotonic() < deadline:
        time.sleep(poll_s)
        left = alive(left)
    return left


def kill_all(processes: Iterable[ProcessId], timeout_s: float = 10.0) -> List[ProcessId]:
    """SIGKILL them and wait; returns those that even so did not go (uninterruptible sleep)."""
    named = [process for process in processes if send_signal(process, signal.SIGKILL)]
    return wait_gone(named, timeout_s)

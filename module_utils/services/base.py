# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What pdops asks of a service manager."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import List, Optional, Protocol, Sequence, Tuple

from ..pdops_error import PdopsError
from ..plain_text import plain
from ..processes import ProcessId, is_alive, kill_all

POLL_S = 0.05
SETTLE_S = 1.0  # a process that dies sooner after its start is a failed start
PROCESS_S = 30.0  # from a start to a main process, where nothing is to be done before it
REAP_S = 2.0
KILL_S = 15.0  # SIGKILL to gone: a process with 100 GB of pinned memory takes seconds to be taken down


@dataclass(frozen=True)
class UnitStatus:
    """One look at a unit.

    ``state``: active, activating, deactivating, inactive or failed.
    ``pid`` and ``started_ticks``: the main process, None when there is none.
    ``exit_code``: of the last main process that ended; minus the signal's number when a signal ended it.
    ``retrying``: the last process died and the manager is about to start the next one.
    ``restarts``: how often the manager itself started it again, where it counts that.
    """

    unit: str
    state: str
    pid: Optional[int]
    started_ticks: Optional[int]
    since_s: Optional[float]
    result: str
    exit_code: Optional[int]
    detail: str
    retrying: bool = False
    restarts: Optional[int] = None

    @property
    def main(self) -> Optional[ProcessId]:
        if self.pid is None or self.started_ticks is None:
            return None
        return ProcessId(self.pid, self.started_ticks)

    @property
    def running(self) -> bool:
        """There is a main process and nobody is stopping it."""
        return self.main is not None and self.state in ("active", "activating")


@dataclass(frozen=True)
class Stopped:
    """How a stop went: ``killed`` when the main process did not end by itself in time,
    ``leftovers`` are the other processes of the unit that had to be killed after it."""

    killed: bool
    seconds: float
    leftovers: Tuple[int, ...]


class ServiceManager(Protocol):
    """systemd or supervisor. Every method raises PdopsError for a unit that does not exist."""

    name: str

    def status(self, unit: str) -> UnitStatus: ...

    def start(self, unit: str) -> UnitStatus:
        """Start and watch it for SETTLE_S; PdopsError (details: log_tail) when it did not live. Not for load."""

    def stop(self, unit: str, timeout_s: float) -> Stopped:
        """SIGTERM by the manager, at most timeout_s, then SIGKILL, until no process of the unit is left."""

    def last_exit(self, unit: str) -> Optional[int]:
        """Exit code of the last main process that ended, even if the next one runs already; None if unknown."""

    def log_tail(self, unit: str, lines: int, all_runs: bool = False) -> List[str]:
        """The last lines of the last run, or of whatever run (after a death with an automatic restart)."""

    def processes(self, unit: str) -> List[int]: ...

    def leftovers(self, unit: str) -> List[ProcessId]:
        """Processes that belong to the unit although its main process is gone."""


LONGEST_LINE = 400


def tidy_lines(text: str, lines: int) -> List[str]:
    """The last lines of a log for people: no colors, no control characters, no endless lines, no blank ones."""
    tidy = []
    for line in text.replace("\r", "\n").split("\n"):
        line = plain(line).rstrip()  # sglang-router writes colors to a file too
        if line:
            tidy.append(line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…")
    return tidy[-lines:] if lines > 0 else []


def exit_words(code: Optional[int]) -> str:
    """An exit code as UnitStatus holds it, in words."""
    if code is None:
        return "an unknown exit code"
    return f"signal {signal_name(-code)}" if code < 0 else f"exit code {code}"


def signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def settle(
    manager: ServiceManager, unit: str, settle_s: Optional[float] = None, process_s: float = PROCESS_S
) -> UnitStatus:
    """Wait until the unit has a main process, then watch for settle_s (default SETTLE_S) that it lives.

    Raises PdopsError with details ``exit_code`` and ``log_tail`` when it died, and
    when no process came up within process_s.
    """
    deadline = time.monotonic() + process_s
    status = manager.status(unit)
    while not status.running:
        if status.state in ("failed", "inactive") or status.retrying:
            raise died(manager, status)
        if time.monotonic() > deadline:
            raise PdopsError(
                f"{unit} has no main process {process_s:g} s after its start ({manager.name} says {status.detail}): "
                "look at its log",
                log_tail=manager.log_tail(unit, 20),
            )
        time.sleep(POLL_S)
        status = manager.status(unit)
    first = status.main
    watched = time.monotonic() + (SETTLE_S if settle_s is None else settle_s)
    while first is not None and time.monotonic() < watched:
        time.sleep(POLL_S)
        if not is_alive(first):
            raise died(manager, after_death(manager, unit, first))
    status = manager.status(unit)
    if status.main != first:
        raise died(manager, status)
    return status


def after_death(manager: ServiceManager, unit: str, process: ProcessId) -> UnitStatus:
    """The status once the manager has learned that this process is dead: only then it knows the exit code."""
    deadline = time.monotonic() + REAP_S
    while True:
        status = manager.status(unit)
        unaware = status.main == process or (
            status.main is None and status.state in ("active", "activating") and not status.retrying
        )
        if not unaware or time.monotonic() >= deadline:
            return status
        time.sleep(POLL_S)


def died(manager: ServiceManager, status: UnitStatus) -> PdopsError:
    tail = manager.log_tail(status.unit, 20)
    said = f"{status.unit} died at once after its start: {status.detail}"
    return PdopsError(said, exit_code=status.exit_code, log_tail=tail)


def take_down(processes: Sequence[ProcessId], unit: str) -> Tuple[int, ...]:
    """SIGKILL what is left of a unit; PdopsError when something survives even that."""
    left = kill_all(processes, KILL_S)
    if left:
        pids = ", ".join(str(process.pid) for process in left)
        raise PdopsError(
            f"{unit}: process {pids} is still there {KILL_S:g} s after SIGKILL (it hangs in the kernel): "
            "look at dmesg for the driver that holds it"
        )
    return tuple(sorted(process.pid for process in processes))

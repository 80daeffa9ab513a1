# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""supervisord (from PyPI), for machines without systemd: rented GPU containers, the lab.

supervisor has no cgroup. Which processes belong to a program is taken together from:
the children's children of its main process, its process group (supervisord gives each
program one of its own: supervisor 4.3 process.py _spawn_as_child), its session if it made one,
all that was seen before it was stopped, and SUPERVISOR_PROCESS_NAME in the environment,
by which even a child of a program that is long gone is found.
"""

from __future__ import annotations

import os
import re
import time
import xml.parsers.expat
import xmlrpc.client
from typing import Any, Dict, List, Optional, Set, Tuple

from ..pdops_error import PdopsError
from ..processes import (
    Process,
    ProcessId,
    age_s,
    alive,
    descendants,
    process_table,
    read_environ,
    read_process,
    wait_gone,
)
from . import supervisor_rpc as rpc
from .base import KILL_S, POLL_S, Stopped, UnitStatus, exit_words, settle, take_down, tidy_lines
from .supervisor_rpc import Rpc, Settings, read_settings

__all__ = ["Supervisor", "read_settings"]

_STATES = {
    "STOPPED": "inactive",
    "STARTING": "activating",
    "RUNNING": "active",
    "BACKOFF": "activating",
    "STOPPING": "deactivating",
    "EXITED": "inactive",
    "FATAL": "failed",
    "UNKNOWN": "failed",
}
_DOWN = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")
_GRACE_S = 1.0  # children that end with their parent get this long before they are killed
_TAIL_BYTES = 64 * 1024


class Supervisor:
    """Programs of one supervisord; a unit is NAME, or GROUP:NAME."""

    name = "supervisor"

    def __init__(self, settings: Settings) -> None:
        self._rpc = Rpc(settings)
        self._settings = settings
        self._log_starts: Dict[str, Tuple[int, int]] = {}

    def _info(self, unit: str) -> Dict[str, Any]:
        try:
            found: Dict[str, Any] = self._rpc.call("getProcessInfo", unit)
            return found
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != rpc.BAD_NAME:
                raise PdopsError(f"supervisord cannot tell about {unit}: {fault.faultString}") from None
            known = ", ".join(sorted(self._rpc.names())) or "none"
            raise PdopsError(
                f"supervisord has no program {unit} (it has: {known}): check pd_unit; "
                f"after a change of {self._settings.config} run supervisorctl update"
            ) from None

    def status(self, unit: str) -> UnitStatus:
        return self._status(unit, self._info(unit))

    def _status(self, unit: str, info: Dict[str, Any]) -> UnitStatus:
        word = str(info["statename"])
        process = read_process(int(info["pid"])) if info["pid"] else None
        if process is not None and process.dead:
            process = None
        state, exit_code, words = _STATES.get(word, "failed"), None, word
        ended = process is None and bool(info["start"])
        if ended:
            exit_code = self._logged_exit(str(info["name"]))
            if exit_code is None and word == "EXITED":
                exit_code = int(info["exitstatus"])
            words += f", {exit_words(exit_code)}"
            if word == "EXITED" and exit_code != 0:
                state = "failed"
        if info["spawnerr"] and word in ("BACKOFF", "FATAL"):
            words += f", {info['spawnerr']}"
        return UnitStatus(
            unit=unit,
            state=state,
            pid=process.pid if process else None,
            started_ticks=process.started_ticks if process else None,
            since_s=age_s(process.started_ticks) if process else None,
            result="success" if state != "failed" and word != "BACKOFF" else "failed",
            exit_code=exit_code,
            detail=words,
            # RUNNING or STARTING without a process: it died in this moment and supervisord has not looked yet.
            retrying=word == "BACKOFF",
        )

    def last_exit(self, unit: str) -> Optional[int]:
        return self._logged_exit(str(self._info(unit)["name"]))

    def _logged_exit(self, name: str) -> Optional[int]:
        """supervisord forgets the exit status of a program that died soon (process.py finish), but logs it."""
        said = re.compile(rf"(?:exited|stopped): {re.escape(name)} \((?:exit status (\d+)|terminated by (\w+))")
        for line in reversed(self._rpc.log_text("readLog", -16384, 0).splitlines()):
            match = said.search(line)
            if match and match.group(1):
                return int(match.group(1))
            if match:
                return -_signal_number(match.group(2))
        return None

    def start(self, unit: str, settle_s: Optional[float] = None) -> UnitStatus:
        info = self._info(unit)
        if info["statename"] == "STOPPING":
            info = self._until_down(unit, time.monotonic() + KILL_S, set())
        # The log is one file over all runs: a failed start shows what came after this moment.
        self._log_starts[unit] = (_size(info["stdout_logfile"]), _size(info["stderr_logfile"]))
        try:
            self._rpc.call("startProcess", unit, False)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == rpc.SPAWN_ERROR:
                raise PdopsError(
                    f"{unit} did not start: {self._info(unit)['spawnerr'] or fault.faultString}",
                    log_tail=self.log_tail(unit, 20),
                ) from None
            if fault.faultCode in (rpc.NO_FILE, rpc.NOT_EXECUTABLE):
                raise PdopsError(
                    f"{unit} did not start: its command is not there or not executable ({fault.faultString}); "
                    f"check the program in {self._settings.config}"
                ) from None
            if fault.faultCode != rpc.ALREADY_STARTED:
                raise PdopsError(f"supervisord did not start {unit}: {fault.faultString}") from None
        return settle(self, unit, settle_s)

    def stop(self, unit: str, timeout_s: float) -> Stopped:
        begin = time.monotonic()
        info = self._info(unit)
        main = self._status(unit, info).main
        known: Set[ProcessId] = set(self._members(unit, main))
        killed = False
        if info["statename"] not in _DOWN:
            try:
                self._rpc.call("stopProcess", unit, False)
            except xmlrpc.client.Fault as fault:
                if fault.faultCode != rpc.NOT_RUNNING:
                    raise PdopsError(f"supervisord did not stop {unit}: {fault.faultString}") from None
            info = self._until_down(unit, begin + timeout_s, known, main)
            if info["statename"] not in _DOWN:
                killed = True
                self._kill_tree(unit, known)
                info = self._until_down(unit, time.monotonic() + KILL_S, known, main)
                if info["statename"] not in _DOWN:
                    raise PdopsError(f"supervisord still calls {unit} {info['statename']} {KILL_S:g} s after SIGKILL")
            elif main is not None and self._was_killed(str(info["name"]), main.pid):
                killed = True  # stopwaitsecs of the program was shorter than our own patience
        known.update(self._members(unit, main))
        left = wait_gone(known, 0.0 if killed else _GRACE_S)
        leftovers = take_down(left, unit)
        return Stopped(killed, time.monotonic() - begin, () if killed else leftovers)

    def _kill_tree(self, unit: str, known: Set[ProcessId]) -> None:
        try:
            take_down(alive(known), unit)
        except PdopsError:
            # Not ours to signal: supervisord is asked to do it, for the main process at least.
            try:
                self._rpc.call("signalProcess", unit, "KILL")
            except xmlrpc.client.Fault:
                raise PdopsError(f"{unit} did not end and may not be killed by this user: run with become") from None

    def _was_killed(self, name: str, pid: int) -> bool:
        return f"killing '{name}' ({pid}) with SIGKILL" in self._rpc.log_text("readLog", -16384, 0)

    def _until_down(
        self, unit: str, deadline: float, known: Set[ProcessId], main: Optional[ProcessId] = None
    ) -> Dict[str, Any]:
        pause = POLL_S
        while True:
            info = self._info(unit)
            if info["statename"] in _DOWN or time.monotonic() >= deadline:
                return info
            known.update(self._members(unit, main, marked=False))
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.3, 0.5)

    def _members(self, unit: str, main: Optional[ProcessId], marked: bool = True) -> List[ProcessId]:
        table = process_table()
        own = os.getpid()
        roots: Set[int] = set()
        if main is not None:
            # The number of a process group is not given away while a member lives, so this holds after main is gone.
            roots = {pid for pid, process in table.items() if main.pid in (pid, process.group, process.session)}
            roots = {pid for pid in roots if table[pid].started_ticks >= main.started_ticks}
        if marked:
            roots.update(pid for pid in table if pid not in roots and self._is_marked(unit, table[pid]))
        members = descendants(roots, table) - {own}
        return [table[pid].id for pid in members if not table[pid].dead]

    def _is_marked(self, unit: str, process: Process) -> bool:
        group, _colon, name = unit.rpartition(":")
        values = read_environ(process.pid).values
        return (
            values.get("SUPERVISOR_PROCESS_NAME") == name
            and values.get("SUPERVISOR_GROUP_NAME") == (group or name)
            and values.get("SUPERVISOR_SERVER_URL") == self._settings.url
            and process.pid != os.getpid()
        )

    def processes(self, unit: str) -> List[int]:
        main = self.status(unit).main
        return sorted(process.pid for process in self._members(unit, main, marked=False)) if main else []

    def leftovers(self, unit: str) -> List[ProcessId]:
        if self._info(unit)["statename"] not in _DOWN:
            return []
        return self._members(unit, None)

    def log_tail(self, unit: str, lines: int, all_runs: bool = False) -> List[str]:
        """The end of stdout and of stderr; after a start by this object only what came since."""
        info = self._info(unit)
        starts = (0, 0) if all_runs else self._log_starts.get(unit, (0, 0))
        out = tidy_lines(self._text(unit, info["stdout_logfile"], starts[0], "tailProcessStdoutLog"), lines)
        error = tidy_lines(self._text(unit, info["stderr_logfile"], starts[1], "tailProcessStderrLog"), lines)
        room = max(lines - len(error), lines // 3)
        return (out[-room:] if room else []) + error[-(lines - min(room, len(out))) :]

    def _text(self, unit: str, path: str, start: int, method: str) -> str:
        # The file is read where possible: XML cannot carry the escape sequences that logs hold.
        try:
            if path and os.path.isfile(path):
                with open(path, "rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(max(start if start <= size else 0, size - _TAIL_BYTES))
                    return file.read().decode("utf-8", "replace")
        except OSError:
            pass
        try:
            found = self._rpc.call(method, unit, 0, _TAIL_BYTES) if path else [""]
            return str(found[0])
        except (xmlrpc.client.Fault, PdopsError, ValueError, xml.parsers.expat.ExpatError):
            return ""


def _size(path: str) -> int:
    try:
        return os.path.getsize(path) if path else 0
    except OSError:
        return 0


def _signal_number(name: str) -> int:
    import signal

    try:
        return int(signal.Signals[name])
    except KeyError:
        return int(name) if name.isdigit() else 0

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""systemd by systemctl and journalctl (written for versions 252 and 257)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from typing import Dict, List, Optional, Sequence, Set

from ..pdops_error import PdopsError
from ..processes import ProcessId, age_s, alive, read_process
from .base import KILL_S, POLL_S, PROCESS_S, Stopped, UnitStatus, exit_words, settle, take_down
from .journal import Journal

RUN_FOLDER = "/run/systemd/system"  # sd_booted(3): it is there exactly when systemd is the init of this machine
CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
_PROPERTIES = (
    "LoadState,LoadError,ActiveState,SubState,Result,MainPID,ExecMainPID,ExecMainCode,ExecMainStatus,InvocationID,"
    "ControlGroup,NRestarts,NeedDaemonReload,Job,FragmentPath,TimeoutStartUSec,TimeoutStopUSec"
)
_STATES = {
    "active": "active",
    "reloading": "active",
    "refreshing": "active",
    "activating": "activating",
    "deactivating": "deactivating",
    "inactive": "inactive",
    "failed": "failed",
    "maintenance": "failed",
}
_EXITED, _KILLED, _DUMPED = 1, 2, 3  # waitid(2): what ExecMainCode holds
_UNITS_S = {
    "y": 31557600,
    "month": 2629800,
    "w": 604800,
    "d": 86400,
    "h": 3600,
    "min": 60,
    "s": 1,
    "ms": 1e-3,
    "us": 1e-6,
}
LONGEST_WAIT_S = 3600.0  # where the unit file says infinity


def refuse_without_systemd() -> None:
    """PdopsError on a machine whose init is something else (a container, most often)."""
    if not os.path.isdir(RUN_FOLDER):
        raise PdopsError(
            f"this machine does not run systemd (there is no {RUN_FOLDER}): set pd_service_manager=supervisor "
            "and pd_supervisor_config to the supervisord.conf that runs the instance"
        )


class Systemd:
    """Units of the system manager."""

    name = "systemd"

    def __init__(self, cgroup_roots: Sequence[str] = CGROUP_ROOTS) -> None:
        self._roots = cgroup_roots
        self._journal = Journal(self._journalctl)
        self._env = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_URLIFY": "0"}
        if shutil.which("systemctl") is None:
            raise PdopsError("systemctl is not in PATH on this machine: install systemd or set pd_service_manager")

    def _run(self, *command: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PdopsError(
                f"{command[0]} {command[1]} did not answer within {timeout_s:g} s: systemd on this machine hangs"
            ) from None
        except FileNotFoundError:
            raise PdopsError(f"{command[0]} is not in PATH on this machine: install it") from None

    def _systemctl(self, verb: str, unit: str, *options: str) -> None:
        done = self._run("systemctl", verb, *options, unit)
        if done.returncode != 0:
            raise PdopsError(f"systemctl {verb} {unit} was refused: {_reason(done.stderr)}")

    def _show(self, unit: str) -> Dict[str, str]:
        _check_unit(unit)
        done = self._run("systemctl", "show", "--no-pager", "-p", _PROPERTIES, unit)
        found = dict(line.split("=", 1) for line in done.stdout.decode("utf-8", "replace").splitlines() if "=" in line)
        if done.returncode != 0 or "ActiveState" not in found:
            raise PdopsError(f"systemctl show {unit} failed: {_reason(done.stderr)}")
        load = found.get("LoadState", "")
        if load == "not-found":
            raise PdopsError(f"systemd has no unit {unit} on this machine: check pd_unit, or install the unit file")
        if load == "masked":
            raise PdopsError(f"unit {unit} is masked on this machine: systemctl unmask {unit}")
        if load in ("bad-setting", "error"):
            raise PdopsError(
                f"the unit file of {unit} ({found.get('FragmentPath') or 'unknown'}) cannot be loaded: "
                f"{found.get('LoadError') or load}; see systemd-analyze verify {unit}"
            )
        return found

    def status(self, unit: str) -> UnitStatus:
        return self._status(unit, self._show(unit))

    def _status(self, unit: str, found: Dict[str, str]) -> UnitStatus:
        sub = found.get("SubState", "")
        process = read_process(_number(found.get("MainPID"), 0))
        if process is not None and process.dead:
            process = None
        exit_code = _exit_code(found)
        retrying = sub.startswith("auto-restart")
        result = found.get("Result", "")
        words = f"{found['ActiveState']} ({sub})"
        if process is None and exit_code is not None:
            words += f", result {result}, {exit_words(exit_code)}"
        elif result not in ("", "success"):
            words += f", result {result}"
        return UnitStatus(
            unit=unit,
            state=_STATES.get(found["ActiveState"], "failed"),
            pid=process.pid if process else None,
            started_ticks=process.started_ticks if process else None,
            since_s=age_s(process.started_ticks) if process else None,
            result=result,
            exit_code=exit_code,
            detail=words,
            retrying=retrying,
            restarts=_number(found.get("NRestarts"), 0),
        )

    def start(self, unit: str, settle_s: Optional[float] = None) -> UnitStatus:
        found = self._wait_out_stop(unit, self._show(unit))
        # Starts by hand count too (systemd#10529), and nothing shows that they are used up before one is refused. A unit
        # that systemd has not loaded has nothing to reset and says so by an error.
        done = self._run("systemctl", "reset-failed", unit)
        if done.returncode != 0 and found["ActiveState"] == "failed":
            raise PdopsError(f"systemctl reset-failed {unit} was refused: {_reason(done.stderr)}")
        if found.get("NeedDaemonReload") == "yes":
            done = self._run("systemctl", "daemon-reload", timeout_s=120.0)
            if done.returncode != 0:
                raise PdopsError(f"systemctl daemon-reload was refused: {_reason(done.stderr)}")
        since = time.time()
        self._systemctl("start", unit, "--no-block")
        self._wait_for_job(unit, 30.0)
        found = self._show(unit)
        if found["ActiveState"] == "inactive":
            raise self._not_started(unit, found, since)
        try:
            return settle(self, unit, settle_s, max(PROCESS_S, _span_s(found.get("TimeoutStartUSec")) + KILL_S))
        except PdopsError as error:
            raise self._of_run(error, unit, found.get("InvocationID", "")) from None

    def _wait_out_stop(self, unit: str, found: Dict[str, str]) -> Dict[str, str]:
        """Until a stop that somebody else began is over: a start meanwhile would be judged by the old process."""
        allowed_s = _span_s(found.get("TimeoutStopUSec")) + KILL_S
        deadline = time.monotonic() + allowed_s
        while _STATES.get(found["ActiveState"]) == "deactivating":
            if time.monotonic() >= deadline:
                raise PdopsError(
                    f"{unit} was not started: it is still stopping ({found.get('SubState')}) after {allowed_s:.0f} s, "
                    f"longer than its TimeoutStopSec: see systemctl status {unit}"
                )
            time.sleep(POLL_S)
            found = self._show(unit)
        return found

    def _of_run(self, error: PdopsError, unit: str, run: str) -> PdopsError:
        """The error with exit code and journal of the run that died, when Restart= has begun the next one since."""
        if not run or self._show(unit).get("InvocationID") == run:
            return error
        code = self._journal.exit_of(run)
        said = f"{unit} died at once after its start: {exit_words(code)}; systemd has started it again since"
        return PdopsError(said, exit_code=code, log_tail=self._journal.of_run(unit, run, 20))

    def _not_started(self, unit: str, found: Dict[str, str], since: float) -> PdopsError:
        """Why a unit is inactive although systemctl returned 0 and Result is success.

        ConditionResult does not tell: systemd forgets an inactive unit at once, and then says "no" for every unit.
        The journal does ("was skipped because of an unmet condition check (...)" in 252,
        "skipped, unmet condition check ..." in 257; "asserts failed").
        """
        said = f"{unit} was not started: it is inactive, although systemd calls that a success"
        lines: List[str] = []
        for _look in range(10):  # journald is a moment behind
            lines = self._journal.of_unit(unit, 20, "--since", f"@{since:.3f}")
            if lines:
                break
            time.sleep(POLL_S)
        text = "\n".join(lines)
        unmet = re.search(r"unmet condition check \(?((?:!?\|?)?Condition\w+=.*?)\)?\.?$", text, re.MULTILINE)
        if unmet:
            said = f"{unit} was not started: a condition of its unit file is not met ({unmet.group(1)})"
        elif re.search(r"asserts? failed|[Aa]ssertion failed", text):
            said = f"{unit} was not started: an assertion of its unit file is not met; see the Assert lines of systemctl cat {unit}"
        elif lines:
            said = (
                f"{unit} ended at once after its start, with exit code 0; a serve script must end in exec of the engine"
            )
        return PdopsError(said, exit_code=_exit_code(found), log_tail=lines)

    def _wait_for_job(self, unit: str, timeout_s: float) -> None:
        """Until systemd has taken up the queued job (it may wait for other units)."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self._show(unit)
            if found.get("Job", "0") in ("", "0") or _number(found.get("MainPID"), 0) > 0:
                return
            time.sleep(POLL_S)

    def stop(self, unit: str, timeout_s: float) -> Stopped:
        begin = time.monotonic()
        found = self._show(unit)
        main = self._status(unit, found).main
        known: Set[ProcessId] = set(self._members(found))
        killed = False
        if _STATES.get(found["ActiveState"]) in ("active", "activating", "deactivating"):
            self._systemctl("stop", unit, "--no-block")
            found = self._until_down(unit, begin + timeout_s, known)
            if _STATES.get(found["ActiveState"]) not in ("inactive", "failed"):
                killed = True
                # It fails when the last process went in this very moment; what counts is what follows.
                self._run("systemctl", "kill", "-s", "KILL", unit)
                found = self._until_down(unit, time.monotonic() + KILL_S, known)
                if _STATES.get(found["ActiveState"]) not in ("inactive", "failed"):
                    raise PdopsError(
                        f"{unit} is still {found['ActiveState']} ({found.get('SubState')}) {KILL_S:g} s after SIGKILL: "
                        f"see systemctl status {unit}"
                    )
            elif found.get("Result") in ("timeout", "watchdog"):
                killed = True  # TimeoutStopSec of the unit was shorter than our own patience
        known.update(self._members(found))
        left = [process for process in alive(known) if process != main]
        leftovers = take_down(left, unit)
        if main is not None and alive([main]):
            take_down([main], unit)
            killed = True
        return Stopped(killed, time.monotonic() - begin, () if killed else leftovers)

    def _until_down(self, unit: str, deadline: float, known: Set[ProcessId]) -> Dict[str, str]:
        pause = POLL_S
        while True:
            found = self._show(unit)
            known.update(self._members(found))
            if _STATES.get(found["ActiveState"]) in ("inactive", "failed") or time.monotonic() >= deadline:
                return found
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.3, 0.5)

    def _members(self, found: Dict[str, str]) -> List[ProcessId]:
        """All processes in the unit's cgroup and below, and its main process."""
        pids = {_number(found.get("MainPID"), 0)} - {0}
        group = found.get("ControlGroup", "")
        if len(group) > 1:  # never the root
            for root in self._roots:
                for folder, _folders, files in os.walk(root + group):
                    if "cgroup.procs" in files:
                        pids.update(_read_numbers(os.path.join(folder, "cgroup.procs")))
        members = (read_process(pid) for pid in pids)
        return [process.id for process in members if process is not None and not process.dead]

    def processes(self, unit: str) -> List[int]:
        return sorted(process.pid for process in self._members(self._show(unit)))

    def leftovers(self, unit: str) -> List[ProcessId]:
        found = self._show(unit)
        if _STATES.get(found["ActiveState"]) not in ("inactive", "failed"):
            return []
        return self._members(found)

    def last_exit(self, unit: str) -> Optional[int]:
        """From the status, or when the next process runs already, from what systemd wrote into the journal."""
        code = _exit_code(self._show(unit))
        return code if code is not None else self._journal.last_death(unit)[1]

    def log_tail(self, unit: str, lines: int, all_runs: bool = False) -> List[str]:
        """The journal of the unit's last run: what its processes wrote and what systemd said about it.

        With ``all_runs`` that of the run that died last, even if the next one has filled the journal since.
        """
        run = self._journal.last_death(unit)[0] if all_runs else self._show(unit).get("InvocationID", "")
        return self._journal.of_run(unit, run, lines) if run else self._journal.of_unit(unit, lines)

    def _journalctl(self, words: Sequence[str]) -> bytes:
        try:
            return self._run("journalctl", *words).stdout
        except PdopsError:
            return b""


def _check_unit(unit: str) -> None:
    if not re.match(r"[A-Za-z0-9:_.@\\-]+\Z", unit) or unit.startswith("-"):
        raise PdopsError(f"{unit!r} is not the name of a unit: check pd_unit")


def _reason(stderr: bytes) -> str:
    text = " ".join(stderr.decode("utf-8", "replace").split()) or "no reason given"
    if re.search(r"(?i)authentication|access denied|not permitted|permission", text):
        text += " (run with become: true)"
    return text


def _span_s(text: Optional[str]) -> float:
    """A time span as systemctl shows it (``1min 30s``, ``infinity``; systemd.time(7)), at most LONGEST_WAIT_S."""
    words = re.findall(r"([\d.]+)([a-z]+)", text or "")
    if not words:
        return LONGEST_WAIT_S if text == "infinity" else 0.0
    return min(LONGEST_WAIT_S, sum(float(number) * _UNITS_S.get(unit, 0.0) for number, unit in words))


def _number(text: Optional[str], otherwise: int) -> int:
    return int(text) if text and text.isdigit() else otherwise


def _read_numbers(path: str) -> List[int]:
    try:
        with open(path, encoding="ascii") as file:
            return [int(line) for line in file.read().split() if line.isdigit()]
    except OSError:
        return []


def _exit_code(found: Dict[str, str]) -> Optional[int]:
    """Of the main process that ended last; None while none ended in this run."""
    code, status = _number(found.get("ExecMainCode"), 0), _number(found.get("ExecMainStatus"), 0)
    if code == _EXITED:
        return status
    if code in (_KILLED, _DUMPED):
        return -status
    return None

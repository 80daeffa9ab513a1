# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Brings one instance into a state: started, stopped, restarted, or just looked at."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..endpoint import parse_url
from ..knobs import mask_text
from ..listeners import Listener, listeners
from ..pdops_error import PdopsError
from ..processes import age_s, arguments, executable, read_process
from .base import ServiceManager, Stopped, UnitStatus, take_down
from .draining import Drain

LEAST_STOP_S = 5.0  # for an end that has nothing left to drain
PORT_S = 5.0  # from the last process gone to its sockets gone


@dataclass(frozen=True)
class Request:
    """What is wanted. ``url`` and ``ports`` name the ports that must be free before a start."""

    unit: str
    state: str  # started, stopped, restarted or status
    drain_s: float = 30.0
    url: Optional[str] = None
    ports: Tuple[int, ...] = ()
    metrics_url: Optional[str] = None  # of a router, where its running requests are seen
    api_key: Optional[str] = field(default=None, repr=False)
    idle_first: bool = False  # nothing new comes any more: let it end its requests before it is told to end

    def check(self) -> None:
        """PdopsError for a request that makes no sense, before anything is looked at."""
        if not self.unit.strip():
            raise PdopsError("unit is empty: name the systemd unit or the supervisor program of the instance")
        if not 0 <= self.drain_s <= 86400:
            raise PdopsError(f"drain_s is {self.drain_s:g}: it must be between 0 and 86400 seconds")
        for port in self.ports:
            if not 1 <= port <= 65535:
                raise PdopsError(f"{port} is not a port: it must be between 1 and 65535")
        self.port_hosts()

    def port_hosts(self) -> List[Tuple[int, Optional[str]]]:
        found: List[Tuple[int, Optional[str]]] = []
        if self.url:
            address = parse_url(self.url)
            found.append((address.port, address.host))
        return found + [(port, None) for port in self.ports if port not in [known for known, _host in found]]


def masked_command(pid: int) -> str:
    """The command line of a process for people: keys masked, at most 200 characters."""
    text = mask_text(shlex.join(arguments(pid))) or f"[{executable(pid)}]"
    return text if len(text) <= 200 else text[:199] + "…"


def status_dict(status: UnitStatus) -> Dict[str, Any]:
    """A status as modules return it."""
    return {
        "unit": status.unit,
        "state": status.state,
        "pid": status.pid,
        "started_ticks": status.started_ticks,
        "age_s": round(status.since_s, 2) if status.since_s is not None else None,
        "result": status.result,
        "exit_code": status.exit_code,
        "detail": status.detail,
    }


def process_dicts(pids: Sequence[int]) -> List[Dict[str, Any]]:
    """The processes of a unit as modules return them."""
    found = []
    for pid in pids:
        process = read_process(pid)
        if process is not None:
            found.append(
                {
                    "pid": pid,
                    "ppid": process.ppid,
                    "started_ticks": process.started_ticks,
                    "age_s": round(age_s(process.started_ticks), 2),
                    "command": masked_command(pid),
                }
            )
    return found


def holders(request: Request, members: Sequence[int]) -> List[Listener]:
    """Listening sockets on the instance's ports that none of these processes holds (owner unknown: not among them)."""
    found = []
    for port, host in request.port_hosts():
        for listener in listeners(port, members, host):
            if listener.pids and not set(listener.pids) & set(members):
                found.append(listener)
    return found


def told_holder(listener: Listener) -> str:
    pid = listener.pids[0]
    return f"port {listener.port} is held by process {pid} ({masked_command(pid)})"


def bring(manager: ServiceManager, request: Request, check: bool = False) -> Dict[str, Any]:
    """Do it, or with ``check`` say what it would do. Returns the module's result; PdopsError when it failed.

    A process of somebody else that holds a port of the instance is named, never killed.
    """
    begin = time.monotonic()
    before = manager.status(request.unit)
    result: Dict[str, Any] = {
        "changed": False,
        "before": status_dict(before),
        "after": status_dict(before),
        "killed": False,
        "leftovers": [],
        "requests": None,
        "lost": None,
        "seconds": 0.0,
        "log_tail": [],
    }
    if request.state == "status":
        result["processes"] = process_dicts(manager.processes(request.unit))
        return result
    strays = [] if before.running else manager.leftovers(request.unit)
    down = before.pid is None and before.state in ("inactive", "failed")
    # What a service manager tries again and again is started afresh: its script may have been put right meanwhile.
    stop = (request.state in ("stopped", "restarted") and not (down and not strays)) or (
        request.state == "started" and before.retrying
    )
    start = request.state == "restarted" or (request.state == "started" and not before.running)
    result["changed"] = stop or start
    if check or not result["changed"]:
        return result
    try:
        members = [*manager.processes(request.unit), *(stray.pid for stray in strays)]
        if start:
            _refuse_foreign(request, holders(request, members))
        if stop:
            with Drain(request.url, request.metrics_url, request.api_key) as drain:
                spent = drain.until_idle(request.drain_s) if request.idle_first else 0.0
                stopped = manager.stop(
                    request.unit, max(request.drain_s - spent, LEAST_STOP_S) if spent else request.drain_s
                )
            _note_stop(result, stopped, drain)
        elif strays:
            result["leftovers"] = list(take_down(strays, request.unit))
        if stop or strays:
            _wait_free(request, members, refuse=start, result=result)
        after = manager.start(request.unit) if start else manager.status(request.unit)
        result["after"] = status_dict(after)
    except PdopsError as error:
        error.details.update({key: result[key] for key in ("before", "killed", "leftovers", "requests", "lost")})
        error.details["log_tail"] = masked_lines(error.details.get("log_tail", []))
        error.details["seconds"] = round(time.monotonic() - begin, 2)
        try:
            error.details["after"] = status_dict(manager.status(request.unit))
        except PdopsError:
            error.details["after"] = None
        raise
    result["seconds"] = round(time.monotonic() - begin, 2)
    return result


def _note_stop(result: Dict[str, Any], stopped: Stopped, drain: Drain) -> None:
    result["killed"] = stopped.killed
    result["leftovers"] = list(stopped.leftovers)
    result["requests"] = drain.at_begin
    # What drained in time lost nothing; of what was killed all that was left is lost.
    result["lost"] = drain.at_end if stopped.killed else (0 if drain.at_begin is not None else None)


def masked_lines(lines: Sequence[str], serve_script: Optional[str] = None) -> List[str]:
    """Log lines with the values of keys masked; those that ``serve_script`` holds, also where they stand by themselves."""
    if not lines:
        return []
    text = mask_text("\n".join(lines))
    if serve_script is None:
        return text.split("\n")
    # Only a failure shows a log, and reading scripts is the larger half of what a module on a machine compiles.
    from ..script_views import masked_beside
    from ..store.atomic import read_regular
    from ..store.backups import MOST_BYTES

    try:
        beside = [read_regular(serve_script, MOST_BYTES)]
    except PdopsError:
        beside = []
    return masked_beside(beside, text).split("\n")


def _refuse_foreign(request: Request, found: Sequence[Listener]) -> None:
    if found:
        raise PdopsError(
            f"{request.unit} was not touched: {told_holder(found[0])}, which is not one of its processes; "
            "end that process first, then run this again",
            port=found[0].port,
            holder_pids=list(found[0].pids),
        )


def _wait_free(request: Request, members: Sequence[int], refuse: bool, result: Dict[str, Any]) -> None:
    """After a stop: nothing listens on the ports any more. Raises when the instance could not start on them."""
    deadline = time.monotonic() + PORT_S
    while True:
        busy = [one for port, host in request.port_hosts() for one in listeners(port, (), host)]
        if not busy:
            return
        # A stranger does not go because we wait; a socket of the unit may need a moment.
        if time.monotonic() >= deadline or all(one.pids and not set(one.pids) & set(members) for one in busy):
            break
        time.sleep(0.1)
    told = f"port {busy[0].port} is held by a process that this user may not see"
    if busy[0].pids:
        told = told_holder(busy[0])
    if refuse:
        raise PdopsError(
            f"{request.unit} is stopped and was not started again: {told}; end that process, then start {request.unit}",
            port=busy[0].port,
            holder_pids=list(busy[0].pids),
        )
    result["warnings"] = [f"{request.unit} is stopped, yet {told}"]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate unit: the unit is up, with a new and stable main process, and nobody else sits on its port.

An engine that lost its port to an orphan of an earlier run looks healthy, since the
orphan answers (sglang#40877); so the socket's owner is compared with the unit's processes.
"""

from __future__ import annotations

import time
from typing import List, Optional

from ..endpoint import parse_url
from ..listeners import Listener, is_local, listeners
from ..processes import age_s, is_alive
from ..services.base import ServiceManager, UnitStatus, exit_words
from ..services.instance import masked_command
from .base import Look, Target, Verdict, failed, passed, pending, uptime_s

STABLE_S = 0.3  # between the two looks at the main process


def check(target: Target, look: Look) -> Verdict:
    status = look.manager.status(target.unit)
    seen = {"state": status.state, "detail": status.detail, "pid": status.pid, "started_ticks": status.started_ticks}
    main = status.main
    died = look.main if look.main is not None and look.main != main else None
    if status.retrying or (main is not None and died is not None):
        code = look.manager.last_exit(target.unit)
        return failed(death(target.name, status, code), **seen, exit_code=code, died_pid=died.pid if died else None)
    if main is None:
        if status.state in ("activating", "deactivating"):
            return pending(f"{target.unit} is {status.detail}", **seen)
        return failed(f"{target.unit} does not run: {status.detail}", **seen)
    if status.state == "deactivating":
        return pending(f"{target.unit} is being stopped", **seen)
    if main == target.not_process:
        return failed(f"{target.unit} still runs in the old process {main.pid}: it was not restarted", **seen)
    if target.not_process is not None and is_alive(target.not_process):
        return pending(f"the old process {target.not_process.pid} is still there", **seen)
    if target.started_after is not None:
        late_s = target.started_after - (time.time() - age_s(main.started_ticks))
        if late_s > 0.05:  # a clock tick is 10 ms
            return failed(
                f"process {main.pid} of {target.unit} started {late_s:.1f} s too early: it was not restarted", **seen
            )
    foreign = _foreign(target, look.manager)
    if foreign is not None:
        return failed(
            f"port {foreign.port} is held by process {foreign.pids[0]} ({masked_command(foreign.pids[0])}), "
            f"which is not one of {target.unit}: end it, then restart {target.unit}",
            **seen,
            holder_pids=list(foreign.pids),
        )
    if look.main is None:
        look.main = main
        look.memory["first_look"] = uptime_s()
    if uptime_s() - float(look.memory.get("first_look", 0.0)) < STABLE_S:
        return pending(f"process {main.pid} has just started", **seen)
    return passed(f"process {main.pid}, {age_s(main.started_ticks):.1f} s old", **seen)


def sockets(target: Target, manager: ServiceManager) -> Optional[List[Listener]]:
    """The listeners on the instance's port; None when its URL does not point to this machine."""
    address = parse_url(target.url)
    if not is_local(address.host):
        return None
    return listeners(address.port, manager.processes(target.unit), address.host)


def _foreign(target: Target, manager: ServiceManager) -> Optional[Listener]:
    """A listener on the instance's port whose owner is known and is not the unit."""
    members = set(manager.processes(target.unit))
    for listener in sockets(target, manager) or ():
        if listener.pids and not members & set(listener.pids):
            return listener
    return None


def check_port(target: Target, look: Look) -> Verdict:
    """Gate port: it is open, and it is the unit that opened it."""
    from ..endpoint import port_open

    address = parse_url(target.url)
    failure = port_open(address.host, address.port, look.request_s(2.0))
    if failure is not None:
        verdict = failed if failure.kind == "dns" else pending
        return verdict(failure.said, kind=failure.kind)
    foreign = _foreign(target, look.manager)
    if foreign is not None:
        return failed(
            f"port {foreign.port} is open, but process {foreign.pids[0]} ({masked_command(foreign.pids[0])}) holds it, "
            f"which is not one of {target.unit}",
            holder_pids=list(foreign.pids),
        )
    found = sockets(target, look.manager)
    known = sorted({pid for listener in found or () for pid in listener.pids})
    owner = f"held by process {known[0]}" if known else "owner not to be seen from here"
    return passed(f"port {address.port} is open, {owner}", port=address.port, holder_pids=known)


def death(name: str, status: UnitStatus, exit_code: Optional[int]) -> str:
    """The sentence for an instance that died while its gates were waited for."""
    again = ", and its service manager starts it again" if status.retrying or status.running else ""
    return f"{name} died with {exit_words(exit_code)} (now {status.detail}{again})"

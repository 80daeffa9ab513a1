# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Climbs the gates in order, for one short slice of time, from where the last slice ended.

A slice knows nothing but its state, so the one who waits may lose the connection, or
be another process on another machine, and go on.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..pdops_error import PdopsError
from ..processes import ProcessId, is_alive
from ..services.base import ServiceManager, after_death
from ..services.choosing import manager_for
from ..services.instance import masked_lines
from . import unit
from .base import FAILED, GATES, PASSED, PENDING, UNSEEN, Look, Target, Verdict, Watched, failed, uptime_s

FIRST_POLL_S, LAST_POLL_S = 0.1, 0.25
SLOW_GATES = ("health", "rendezvous", "completion", "transfer")  # one look at these may take seconds
#: Their source may be off: the process title that overwrites the environ, --enable-metrics.
MAY_BE_UNSEEN = ("effective", "transfer")
WATCH_S = 0.2


@dataclass(frozen=True)
class GateResult:
    """``seconds`` is the time spent at this gate so far."""

    gate: str
    result: str  # passed, failed, not-observable or pending
    said: str
    evidence: Dict[str, Any]
    seconds: float

    def as_dict(self) -> Dict[str, Any]:
        return {
            "gate": self.gate,
            "result": self.result,
            "said": self.said,
            "evidence": self.evidence,
            "seconds": round(self.seconds, 2),
        }


@dataclass(frozen=True)
class LadderState:
    """``outcome``: passed (all gates decided well), failed (final) or pending (go on with this state)."""

    results: Tuple[GateResult, ...] = ()
    outcome: str = PENDING
    memory: Optional[Dict[str, Any]] = None
    log_tail: Tuple[str, ...] = ()

    @property
    def last(self) -> Optional[GateResult]:
        return self.results[-1] if self.results else None

    def as_dict(self) -> Dict[str, Any]:
        """JSON, to go on from with :func:`state_from_dict`."""
        return {
            "results": [result.as_dict() for result in self.results],
            "outcome": self.outcome,
            "memory": self.memory,
        }

    def summary(self) -> Dict[str, Any]:
        """What a module returns of it."""
        memory = self.memory or {}
        main, last = memory.get("main"), self.last
        return {
            "outcome": self.outcome,
            "gates": [result.as_dict() for result in self.results],
            "gate": last.gate if last else None,
            "evidence": last.evidence if last else {},
            "main": {"pid": main[0], "started_ticks": main[1]} if main else None,
            "seconds": round(uptime_s() - memory["began"], 2) if "began" in memory else 0.0,
        }


def state_from_dict(data: Optional[Mapping[str, Any]]) -> LadderState:
    if not data:
        return LadderState()
    try:
        results = tuple(GateResult(**result) for result in data["results"])
        return LadderState(results, str(data["outcome"]), dict(data["memory"] or {}))
    except (KeyError, TypeError, ValueError):
        raise PdopsError("resume is not a state that pd_gate returned: leave it out to begin anew") from None


def check_gates(target: Target, gates: Sequence[str], required: Sequence[str]) -> None:
    """PdopsError for a ladder that makes no sense for this instance, before anything is asked."""
    if not gates:
        raise PdopsError(f"{target.name}: gates is empty; name at least one of {', '.join(GATES)}")
    for gate in (*gates, *required):
        if gate not in GATES:
            raise PdopsError(f"there is no gate {gate!r}; there are {', '.join(GATES)}")
    if len(set(gates)) != len(gates):
        raise PdopsError(f"{target.name}: a gate is named twice in {', '.join(gates)}")
    if "bootstrap" in gates and (target.role != "prefill" or target.bootstrap_port is None):
        raise PdopsError(f"{target.name}: gate bootstrap is for a prefill and needs its bootstrap_port")
    if "rendezvous" in gates and target.role == "prefill" and target.bootstrap_port is None:
        raise PdopsError(f"{target.name}: gate rendezvous needs bootstrap_port")
    if "rendezvous" in gates and target.role == "router":
        raise PdopsError(f"{target.name} is a router: gate rendezvous is for a prefill or a decode")
    if "router" in gates and target.role != "router":
        raise PdopsError(f"{target.name} is a {target.role}: gate router is for a router")
    if "kernels" in gates and target.role == "router":
        raise PdopsError(f"{target.name} is a router: gate kernels is for a prefill or a decode")
    if "transfer" in gates and "completion" not in gates[: list(gates).index("transfer")]:
        raise PdopsError(
            f"{target.name}: gate transfer compares the counters before and after gate completion; name completion before it"
        )


def default_required(target: Target, gates: Sequence[str]) -> Set[str]:
    """Gates that must have passed when the caller does not say which.

    A decode whose prefill cannot be asked from its machine has nothing to be compared with.
    """
    unseen = set(MAY_BE_UNSEEN) | ({"rendezvous"} if target.role == "decode" else set())
    return set(gates) - unseen


def _check_of(gate: str) -> Callable[[Target, Look], Verdict]:
    """The check of one gate. Each is imported when it is reached: a machine compiles what is sent to it at every slice."""
    if gate == "unit":
        return unit.check
    if gate == "port":
        return unit.check_port
    if gate == "health":
        from . import http_gates

        return http_gates.check_health
    if gate in ("bootstrap", "rendezvous"):
        from . import rendezvous

        return rendezvous.check_bootstrap if gate == "bootstrap" else rendezvous.check
    if gate == "effective":
        from . import effective

        return effective.check
    if gate == "kernels":
        from . import kernels

        return kernels.check
    if gate == "router":
        from . import router

        return router.check
    if gate == "completion":
        from . import completion

        return completion.check
    if gate == "transfer":
        from . import transfer

        return transfer.check
    raise PdopsError(f"there is no gate {gate!r}; there are {', '.join(GATES)}")


def run_ladder(
    target: Target,
    gates: Sequence[str],
    expectations: Optional[Mapping[str, Optional[str]]],
    slice_s: float,
    state: Optional[LadderState] = None,
    remaining_s: float = 900.0,
    required: Optional[Sequence[str]] = None,
    manager: Optional[ServiceManager] = None,
    log_lines: int = 20,
) -> LadderState:
    """Run the gates in order until one is pending at the end of the slice, one failed, or all are decided.

    :arg expectations: knobs that gate effective must find: name to value, None for "must not be set";
        no mapping at all: what the serve script exports.
    :arg slice_s: seconds to work; one request that is under way may take longer, never longer than remaining_s.
    :arg remaining_s: what is left for the whole ladder; at its end the log tail comes with a pending state.
    :arg required: gates whose result must be passed (default: default_required); for the others
        not-observable is enough.
    """
    begin = time.monotonic()
    state = state or LadderState()
    needed = default_required(target, gates) if required is None else set(required)
    check_gates(target, gates, sorted(needed))
    manager = manager or manager_for(target.manager, target.supervisor_config)
    memory = dict(state.memory or {"began": uptime_s(), "gate_since": uptime_s()})
    look = Look(manager, memory, begin + remaining_s, dict(expectations) if expectations is not None else None)
    look.gates = tuple(gates)
    results = [result for result in state.results if result.result != PENDING]
    poll_s = FIRST_POLL_S
    while True:
        gate = gates[len(results)]
        look.done = tuple(result.gate for result in results if result.result == PASSED)
        verdict = _watched_check(gate, _check_of(gate), target, look)
        now = uptime_s()
        result = GateResult(gate, verdict.result, verdict.said, verdict.evidence, max(0.0, now - memory["gate_since"]))
        if verdict.result == PENDING:
            # A process that died while its answer was waited for is told at once, not with the next look.
            died = _watch(target, look) if look.main is not None else None
            if died is None and verdict.evidence.get("status") is not None:
                # The first answer may tell the cause, and later ones only that a breaker is open because of it.
                first = memory.setdefault("first_said", {}).setdefault(gate, verdict.said)
                if first != verdict.said:
                    result = replace(result, evidence={**verdict.evidence, "first_said": first})
            if died is not None:
                result = replace(result, result=died.result, said=died.said, evidence=died.evidence)
        if result.result == FAILED or (result.result == UNSEEN and gate in needed):
            return _ended(target, look, (*results, result), FAILED, log_lines)
        if result.result != PENDING:
            results.append(result)
            memory["gate_since"] = now
            poll_s = FIRST_POLL_S
            if len(results) == len(gates):
                return LadderState(tuple(results), PASSED, memory)
            if time.monotonic() - begin >= slice_s and len(results) < len(gates):
                waiting = GateResult(gates[len(results)], PENDING, "not looked at yet", {}, 0.0)
                return LadderState((*results, waiting), PENDING, memory)
            continue
        left = min(begin + slice_s, look.deadline) - time.monotonic()
        if left <= 0:
            if time.monotonic() >= look.deadline - 0.05:
                return _ended(target, look, (*results, result), PENDING, log_lines)
            return LadderState((*results, result), PENDING, memory)
        time.sleep(min(poll_s, left))
        poll_s = min(poll_s * 1.2, LAST_POLL_S)


def _watched_check(gate: str, check: Callable[[Target, Look], Verdict], target: Target, look: Look) -> Verdict:
    """One look at one gate; a request that is under way does not hide that a process died.

    A router waits for the prefill's answer, which waits for a dead decode (300 s by default, sglang-real-cpu.md 0.5 e).
    """
    if gate == "unit":
        return check(target, look)
    died = _watch(target, look)
    if died is not None or gate not in SLOW_GATES:
        return died or check(target, look)
    box: List[Any] = []

    def work() -> None:
        try:
            box.append(check(target, look))
        except BaseException as error:
            box.append(error)

    # A daemon: when it is left behind, its request ends with this process.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while True:
        thread.join(WATCH_S)
        if not thread.is_alive():
            break
        died = _watch(target, look)
        if died is not None:
            return died
    if isinstance(box[0], BaseException):
        raise box[0]
    verdict: Verdict = box[0]
    return verdict


def _watch(target: Target, look: Look) -> Optional[Verdict]:
    """A verdict when the instance, or one that is watched, died since the first look; cheap while all live."""
    if look.main is None:
        # Gate unit was not asked for: the process that runs now is the one that is judged.
        main = look.manager.status(target.unit).main
        if main is not None:
            look.main = main
        else:
            return _dead(target.name, target.unit, look.manager, None)
    if look.main is not None and not is_alive(look.main):
        return _dead(target.name, target.unit, look.manager, look.main)
    for peer in target.watched:
        process = peer.process or _remembered(peer, look)
        if process is None or not is_alive(process):
            manager = manager_for(peer.manager, peer.supervisor_config)
            verdict = _dead(peer.name, peer.unit, manager, process)
            verdict.evidence["log_tail"] = masked_lines(manager.log_tail(peer.unit, 20, all_runs=True))
            return verdict
    return None


def _remembered(peer: Watched, look: Look) -> Optional[ProcessId]:
    """The process of a watched instance at the first look at it."""
    seen = look.memory.setdefault("watched", {})
    if peer.name not in seen:
        main = manager_for(peer.manager, peer.supervisor_config).status(peer.unit).main
        if main is None:
            return None
        seen[peer.name] = [main.pid, main.started_ticks]
    return ProcessId(*seen[peer.name])


def _dead(name: str, unit_name: str, manager: ServiceManager, process: Optional[ProcessId]) -> Verdict:
    if process is None:
        status = manager.status(unit_name)
        return failed(f"{name} does not run: {status.detail}", exit_code=status.exit_code, detail=status.detail)
    status = after_death(manager, unit_name, process)
    code = manager.last_exit(unit_name)
    said = unit.death(name, status, code)
    return failed(said, exit_code=code, died_pid=process.pid, detail=status.detail)


def _ended(target: Target, look: Look, results: Sequence[GateResult], outcome: str, lines: int) -> LadderState:
    """The end of a ladder that did not pass: with the last lines of the log."""
    tail: List[str] = list(results[-1].evidence.pop("log_tail", []))
    if not tail:
        try:
            died = "died_pid" in results[-1].evidence
            tail = masked_lines(look.manager.log_tail(target.unit, lines, all_runs=died), target.serve_script)
        except PdopsError:
            tail = []
    return LadderState(tuple(results), outcome, look.memory, tuple(tail))

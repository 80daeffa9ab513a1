# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A story: what a run did, as the tasks collected it. Read tolerantly, since a report of half a run is worth more than none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from . import clean

ROLES = ("prefill", "decode", "router")
OUTCOMES = ("confirmed", "rolled-back", "rollback-failed", "failed", "refused", "nothing", "passed", "check")
_SIMULATION = re.compile(r"[0-9a-z]-simulation\b")
KINDS = ("begin", "apply", "drain", "stop", "start", "gates", "readd", "probe", "confirm", "rollback")


@dataclass(frozen=True)
class Gate:
    """One gate of a ladder, as ``pd_gate`` returns it; ``seconds`` is None when it was not measured."""

    gate: str
    result: str
    said: str
    evidence: Any
    seconds: Optional[float]


@dataclass(frozen=True)
class Step:
    """One step out of the record of a change (``steps`` of ``pd_change``); ``at`` in seconds since the epoch."""

    at: float
    step: str
    instance: str
    said: str


@dataclass(frozen=True)
class Event:
    """One thing that a run did; ``began`` and ``ended`` in seconds since the epoch, None when unknown."""

    kind: str
    instance: str
    machine: str
    began: Optional[float]
    ended: Optional[float]
    result: str  # ok, failed or unreachable
    said: str
    gates: tuple[Gate, ...]
    lost: Optional[int]
    versions: tuple[Mapping[str, Any], ...]
    answers: tuple[Mapping[str, Any], ...]
    conversation: Any
    log_tail: tuple[str, ...]
    steps: tuple[Step, ...]
    out_before: tuple[Step, ...] = ()  # of a begin: what the change that it took over had stopped
    files: int = 0  # of a begin: how many files the change has, with those of the one that it took over

    @property
    def seconds(self) -> Optional[float]:
        return None if self.began is None or self.ended is None else self.ended - self.began


@dataclass(frozen=True)
class Member:
    name: str
    role: str
    machine: str
    unit: str
    url: str


@dataclass(frozen=True)
class Story:
    """A whole run. ``plan`` is that of ``pd_plan``, masked; ``command`` is what the operator typed, when it is known.

    ``collection`` is whether playbooks go by the collection's names, as in an installed one.
    """

    deployment: str
    verb: str
    who: str
    change_id: str
    began: Optional[float]
    ended: Optional[float]
    outcome: str
    said: str
    command: str
    collection: bool
    simulation: bool
    plan: Mapping[str, Any]
    debt: tuple[str, ...]
    members: tuple[Member, ...]
    events: tuple[Event, ...]

    def failure(self) -> Optional[Event]:
        """The first event that failed, before any rollback: the cause."""
        return next((item for item in self.events if item.result != "ok" and item.kind != "rollback"), None)

    @property
    def lost(self) -> Optional[int]:
        """Requests lost in drains; None when nobody counted."""
        counted = [item.lost for item in self.events if item.lost is not None]
        return sum(counted) if counted else None


def read_story(given: Any) -> Story:
    """Make a :class:`Story` of the dictionary that the tasks collected.

    Missing and odd parts become empty ones; every text is masked and without control characters. Times
    that only events have give the story's own.
    """
    raw = clean.mapping(clean.without_secrets(given))
    plan = clean.mapping(clean.data(raw.get("plan")))
    # The two sides of a difference are longer than other texts, and are needed whole.
    edits = [_edit(item) for item in clean.sequence(clean.mapping(raw.get("plan")).get("edits"))]
    events = [_event(item) for item in clean.sequence(raw.get("events")) if isinstance(item, Mapping)]
    events.sort(key=lambda item: item.began if item.began is not None else float("inf"))
    known = [when for item in events for when in (item.began, item.ended) if when is not None]
    began = clean.moment(raw.get("began"))
    ended = clean.moment(raw.get("ended"))
    return Story(
        deployment=clean.text(raw.get("deployment") or plan.get("deployment"), 200),
        verb=clean.text(raw.get("verb") or plan.get("verb"), 60),
        who=clean.text(raw.get("who"), 200),
        change_id=clean.text(raw.get("change_id") or plan.get("change_id"), 120),
        began=began if began is not None else min(known, default=None),
        ended=ended if ended is not None else max(known, default=None),
        outcome=str(raw.get("outcome")) if raw.get("outcome") in OUTCOMES else "unknown",
        said=clean.text(raw.get("said") or plan.get("summary")),
        command=clean.text(raw.get("command"), 1000),
        collection=raw.get("collection") is True,
        simulation=bool(raw.get("simulation")) or _is_simulation(raw),
        plan={**plan, "edits": edits},
        debt=tuple(clean.text(item) for item in clean.sequence(raw.get("debt"))),
        members=_members(raw.get("instances"), events),
        events=tuple(events),
    )


def _edit(given: Any) -> Mapping[str, Any]:
    raw = clean.mapping(given)
    diff = clean.mapping(raw.get("diff"))
    sides = {side: clean.text(diff[side], 400_000) for side in ("before", "after") if isinstance(diff.get(side), str)}
    return {**clean.mapping(clean.data(raw)), "diff": sides}


def _gate(given: Any) -> Gate:
    raw = clean.mapping(given)
    return Gate(
        gate=clean.text(raw.get("gate"), 60) or "gate",
        result=clean.text(raw.get("result"), 30) or "pending",
        said=clean.text(raw.get("said")),
        evidence=clean.data(raw.get("evidence")),
        seconds=clean.number(raw.get("seconds")),
    )


def _steps(given: Any) -> tuple[Step, ...]:
    found = []
    for item in clean.sequence(given):
        raw = clean.mapping(item)
        at = clean.moment(raw.get("at"))
        if at is not None:
            name, step = clean.text(raw.get("instance"), 200), clean.text(raw.get("step"), 60)
            found.append(Step(at, step, name, clean.text(raw.get("said"))))
    return tuple(found)


def _event(raw: Mapping[str, Any]) -> Event:
    gates = tuple(_gate(item) for item in clean.sequence(raw.get("gates")) if isinstance(item, Mapping))
    began, ended = clean.moment(raw.get("began")), clean.moment(raw.get("ended"))
    spoiled = any(gate.result == "failed" for gate in gates)
    result = clean.text(raw.get("result"), 30) or ("failed" if spoiled else "ok")
    lost = clean.number(raw.get("lost"))
    answers = [clean.data(item) for item in clean.sequence(raw.get("answers"))[: clean.MOST_ITEMS]]
    return Event(
        kind=clean.text(raw.get("kind"), 30) or "step",
        instance=clean.text(raw.get("instance"), 200),
        machine=clean.text(raw.get("machine"), 200),
        began=began,
        ended=ended if ended is None or began is None else max(began, ended),
        result=result,
        said=clean.text(raw.get("said")),
        gates=gates,
        lost=None if lost is None else int(lost),
        versions=tuple(_versions(raw.get("versions"))),
        answers=tuple(item for item in answers if isinstance(item, Mapping)),
        conversation=clean.data(raw.get("conversation")),
        log_tail=tuple(clean.lines(raw.get("log_tail"))),
        steps=_steps(raw.get("steps")),
        out_before=_steps(raw.get("out_before")),
        files=int(clean.number(raw.get("files")) or 0),
    )


def _versions(given: Any) -> list[Mapping[str, Any]]:
    """Versions as a list of dictionaries, as one dictionary, or as a dictionary by instance."""
    if isinstance(given, Mapping):
        if any(str(key).startswith("sha256") for key in given):
            return [clean.mapping(clean.data(given))]
        named = [{"instance": str(name), **item} for name, item in given.items() if isinstance(item, Mapping)]
        return [clean.mapping(clean.data(item)) for item in named]
    return [clean.mapping(clean.data(item)) for item in clean.sequence(given) if isinstance(item, Mapping)]


def _members(given: Any, events: list[Event]) -> tuple[Member, ...]:
    """The instances in start order; those that only events name come last, with the role that their gates tell."""
    found: dict[str, Member] = {}
    for item in clean.sequence(given):
        raw = clean.mapping(item)
        name = clean.text(raw.get("name"), 200)
        if name:
            rest = [clean.text(raw.get(key), 300) for key in ("role", "machine", "unit", "url")]
            found[name] = Member(name, *rest)
    for event in events:
        if event.instance and event.instance not in found:
            found[event.instance] = Member(event.instance, "", event.machine, "", "")
    rank = {role: at for at, role in enumerate(ROLES)}
    return tuple(sorted(found.values(), key=lambda member: rank.get(member.role, len(ROLES))))


def _is_simulation(raw: Mapping[str, Any]) -> bool:
    """The lab's engines name their model and their version so, in scripts, logs and answers; what they measure must never pass for an engine's figures."""
    return _SIMULATION.search(json.dumps(raw, default=str)) is not None

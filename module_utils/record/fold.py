# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record folded: per knob what is deployed, what is known about it, what that costs, and what contradicts what.

Two axes that do not depend on one another: the deployed value, and the verdict about a value (a knob that is reverted on
suspicion is still the one that measured better). Pure; the order of the entries is that of :func:`.folder.in_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .fingerprints import difference, same
from .folder import Kept
from .reasons import is_bare

#: Kinds that put a value in place.
PLACING = ("apply", "revert", "restore")


@dataclass
class Debt:
    """A revert that somebody has to come back to; ``forgoing`` are the measured losses."""

    entry: Kept
    value: Optional[str]
    review_by: str
    forgoing: list[Mapping[str, Any]]


@dataclass
class Knob:
    """What the record says about one knob.

    ``deployed`` is by instance, and has only instances that an entry names; ``value`` is the one that ``verdict`` is about
    (None is "unset"); ``moves`` are the entries that moved either, oldest first: after one of them, prose about the knob has
    to be looked at again.
    """

    name: str
    deployed: dict[str, Optional[str]] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    value: Optional[str] = None
    verdict: str = "unknown"
    cause: str = ""
    measures: dict[Optional[str], dict[str, Kept]] = field(default_factory=dict)
    moves: list[Kept] = field(default_factory=list)
    entries: list[Kept] = field(default_factory=list)
    judgements: list[Kept] = field(default_factory=list)
    debt: Optional[Debt] = None
    unverified_since: str = ""
    unverified_why: str = ""

    def measured(self, value: Optional[str]) -> list[Kept]:
        """The newest measurement of a value for each load, in the order of the loads' first mention."""
        return list(self.measures.get(value, {}).values())

    @property
    def elsewhere(self) -> list[Kept]:
        """The newest measurements of the values that are not in question: they outlast the next value that is set."""
        return [kept for value in self.measures if value != self.value for kept in self.measured(value)]

    def is_forgone(self, kept: Kept) -> bool:
        """Whether a measured gain is had nowhere now, since another value is deployed."""
        gain = kept.data["effect_pct"] > 0 and measured_verdict(kept.data) != "rejected"
        return gain and bool(self.deployed) and kept.data["value"] not in self.deployed.values()

    @property
    def suspected(self) -> bool:
        """Whether a value runs of which somebody suspects something."""
        return self.in_place and self.verdict == "suspected"

    @property
    def verdict_told(self) -> str:
        """The verdict with its cause; of one that was cleared and then judged by its figures again, both."""
        if not self.cause:
            return self.verdict
        if self.verdict in ("suspected", "exonerated", "convicted"):
            return f"{self.verdict} ({self.cause})"
        return f"{self.verdict}, exonerated ({self.cause})" if self.judgements else self.verdict

    @property
    def in_place(self) -> bool:
        """Whether the value in question is deployed somewhere."""
        return self.value is not None and self.value in self.deployed.values()


@dataclass
class Folded:
    """``fingerprint`` is the newest that an entry carries, or that of the machines now."""

    knobs: dict[str, Knob] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    simulation: bool = False
    entries: list[Kept] = field(default_factory=list)
    corrected: dict[str, str] = field(default_factory=dict)

    @property
    def debts(self) -> list[tuple[Knob, Debt]]:
        return [(knob, knob.debt) for _name, knob in sorted(self.knobs.items()) if knob.debt is not None]


def shown(value: Optional[str], name: str = "") -> str:
    """``NAME=value`` or ``NAME unset``; of no name, ``=value`` or ``unset``."""
    return f"{name} unset".lstrip() if value is None else f"{name}={value}"


def verdict_of(measures: Iterable[Kept]) -> str:
    """What the measurements of one value say together; '' when none of them says anything.

    A figure without an interval and without a verdict says nothing: nobody knows its noise. One load that got worse is
    enough to reject (evidence: superior at one load and not inferior at the others).
    """
    said = {measured_verdict(kept.data) for kept in measures} - {""}
    for verdict in ("rejected", "adopted", "inconclusive"):
        if verdict in said:
            return verdict
    return ""


def measured_verdict(data: Mapping[str, Any]) -> str:
    if "verdict" in data:
        return str(data["verdict"])
    if "low_pct" in data:
        return "adopted" if data["low_pct"] > 0 else "rejected" if data["high_pct"] < 0 else "inconclusive"
    return ""


def fold(entries: Iterable[Kept], fingerprint: Optional[Mapping[str, str]] = None) -> Folded:
    """Fold entries in their order.

    :param fingerprint: of the machines now, when somebody has looked; otherwise that of the newest entry counts
    """
    folded = Folded(entries=list(entries))
    for kept in folded.entries:
        if kept.kind == "correct":
            for ref in kept.refs:
                folded.corrected[ref] = kept.id
    for kept in folded.entries:
        if kept.id in folded.corrected:
            continue
        if kept.data.get("fingerprint"):
            folded.fingerprint = kept.data["fingerprint"]
        folded.simulation = folded.simulation or bool(kept.data.get("simulation"))
        name = kept.data.get("knob")
        if name is None:
            continue
        knob = folded.knobs.get(name)
        if knob is None:
            knob = folded.knobs[name] = Knob(name)
        knob.entries.append(kept)
        step = _STEPS.get(kept.kind)
        if step is not None:
            before = (*knob.deployed.items(), knob.value, knob.verdict)
            step(folded, knob, kept)
            if before != (*knob.deployed.items(), knob.value, knob.verdict):
                knob.moves.append(kept)
    if fingerprint:
        folded.fingerprint = fingerprint
    for knob in folded.knobs.values():
        _verify(folded, knob)
    return folded


def _settled(knob: Knob) -> str:
    """The verdict of a value that stands under no suspicion."""
    return verdict_of(knob.measured(knob.value)) or "trial"


def _place(folded: Folded, knob: Knob, kept: Kept) -> None:
    instance, before, after = kept.data["instance"], kept.data["before"], kept.data["after"]
    if instance in knob.deployed and knob.deployed[instance] != before:
        folded.contradictions.append(
            f"{kept.kind} {kept.id} found {shown(before, knob.name)} on {instance}, and the record has "
            f"{shown(knob.deployed[instance])} there since {knob.changes[instance]}: something in between is not in the record."
        )
    knob.deployed[instance] = after
    knob.since[instance] = kept.at
    knob.changes[instance] = f"{kept.kind} {kept.id}"


def _put(folded: Folded, knob: Knob, kept: Kept) -> None:
    """apply and restore: a value comes in, or is taken off by set_knob."""
    _place(folded, knob, kept)
    before, after = kept.data["before"], kept.data["after"]
    asked = before if after is None else after
    if asked != knob.value or knob.verdict == "unknown":
        # Another value than that which was in question: nothing of what was found about that one holds for it.
        knob.value, knob.verdict, knob.cause = asked, "", ""
        knob.verdict = _settled(knob)
    elif knob.verdict == "convicted" and kept.kind == "restore":
        folded.contradictions.append(
            f"restore {kept.id} brought {shown(after, knob.name)} back, and it is convicted ({knob.cause}): exonerate it, or revert it."
        )
    elif knob.verdict in ("exonerated", "trial"):
        measured = verdict_of(knob.measured(knob.value))
        knob.verdict = measured or knob.verdict
    if knob.debt is not None and after == knob.debt.value:
        knob.debt = None


def _measure(folded: Folded, knob: Knob, kept: Kept) -> None:
    data = kept.data
    said = measured_verdict(data)
    for other in knob.measured(data["value"]):
        former = measured_verdict(other.data)
        fresh = other.id not in kept.refs and {said, former} == {"adopted", "rejected"}
        if (
            fresh
            and other.data["load"] == data["load"]
            and same(other.data.get("fingerprint"), data.get("fingerprint"))
        ):
            folded.contradictions.append(
                f"measure {other.id} says {former} and measure {kept.id} says {said} about {shown(data['value'], knob.name)} "
                f"at {data['load']}: correct one of them, or measure again."
            )
    knob.measures.setdefault(data["value"], {})[data["load"]] = kept
    if knob.verdict == "unknown":
        knob.value = data["value"]
    if data["value"] == knob.value and knob.verdict in ("unknown", "trial", "adopted", "rejected", "inconclusive"):
        knob.verdict = _settled(knob) if verdict_of(knob.measured(knob.value)) else knob.verdict
    if knob.debt is not None and knob.debt.value == data["value"] and said == "rejected":
        knob.debt = None  # it is no loss any more


def _propose(_folded: Folded, knob: Knob, kept: Kept) -> None:
    if knob.verdict == "unknown":
        knob.value = kept.data["value"]


def _suspect(_folded: Folded, knob: Knob, kept: Kept) -> None:
    if knob.verdict != "convicted" and knob.value is not None:
        knob.verdict, knob.cause = "suspected", kept.data["said"]


def _revert(folded: Folded, knob: Knob, kept: Kept) -> None:
    _place(folded, knob, kept)
    data = kept.data
    if data["before"] != knob.value:
        knob.value, knob.cause = data["before"], ""
        knob.verdict = _settled(knob)
    if data["suspicion"] and knob.verdict != "convicted":
        knob.verdict = "suspected"
        knob.cause = knob.cause if is_bare(data["reason"]) else data["reason"]
    if data.get("review_by") and knob.verdict not in ("convicted", "rejected"):
        knob.debt = Debt(kept, data["before"], data["review_by"], list(data.get("forgoing", [])))


def _judge(folded: Folded, knob: Knob, kept: Kept) -> None:
    """exonerate and convict; the later one holds, and that it knows of the other one is what its refs say."""
    for other in knob.judgements:
        if other.kind != kept.kind and other.id not in kept.refs:
            folded.contradictions.append(
                f"{other.kind} {other.id} by {other.data['by']} and {kept.kind} {kept.id} by {kept.data['by']} contradict each "
                f"other about {knob.name}: correct one of them with record.yml -e kind=correct -e entry=ID."
            )
    knob.judgements = [kept]
    knob.cause = kept.data["cause"]
    if kept.kind == "convict":
        knob.verdict, knob.debt = "convicted", None
        return
    knob.verdict = (verdict_of(knob.measured(knob.value)) or "exonerated") if knob.in_place else "exonerated"


def _rollback(folded: Folded, knob: Knob, kept: Kept) -> None:
    """Of a change that never held nothing moves; one that had been confirmed and was put back moves the deployed value."""
    if kept.data["outcome"] == "undone" and "after" in kept.data and "instance" in kept.data:
        _place(folded, knob, kept)
        if knob.debt is not None and kept.data["after"] == knob.debt.value:
            knob.debt = None
        if kept.data["after"] is not None and kept.data["after"] != knob.value:
            knob.value, knob.cause = kept.data["after"], ""
            knob.verdict = _settled(knob)


def _observe(folded: Folded, knob: Knob, kept: Kept) -> None:
    if "value" not in kept.data or "instance" not in kept.data:
        return
    instance, value = kept.data["instance"], kept.data["value"]
    if instance in knob.deployed and knob.deployed[instance] != value:
        folded.contradictions.append(
            f"observe {kept.id} found {shown(value, knob.name)} on {instance}, and the record had "
            f"{shown(knob.deployed[instance])} there since {knob.changes[instance]}: something in between is not in the record."
        )
    knob.deployed[instance], knob.since[instance] = value, kept.at
    knob.changes[instance] = f"observe {kept.id}"


_STEPS = {
    "propose": _propose,
    "apply": _put,
    "restore": _put,
    "measure": _measure,
    "suspect": _suspect,
    "revert": _revert,
    "exonerate": _judge,
    "convict": _judge,
    "rollback": _rollback,
    "observe": _observe,
}


def _verify(folded: Folded, knob: Knob) -> None:
    """What was measured under another fingerprint is not wrong, but nobody has verified it for what runs now."""
    for kept in knob.measured(knob.value):
        theirs = kept.data.get("fingerprint")
        if not theirs or not folded.fingerprint or same(theirs, folded.fingerprint):
            continue
        knob.unverified_why = difference(theirs, folded.fingerprint)
        knob.unverified_since = next(
            (
                later.at
                for later in folded.entries
                if later.at > kept.at
                and later.data.get("fingerprint")
                and later.id not in folded.corrected
                and not same(theirs, later.data["fingerprint"])
            ),
            "now",
        )
        return

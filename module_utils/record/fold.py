# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record folded: per knob what is deployed, what is known about its values, what that costs, and what contradicts what.

Pure; the order of the entries is that of :func:`.folder.in_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .fingerprints import difference, same
from .folder import Kept
from .outcomes import NOT_KNOWN, Finding, finding_key, proves, settles
from .reasons import is_bare
from .standing import Debt, Knob, Standing, measured_verdict, shown, verdict_of

#: Kinds that put a value in place.
PLACING = ("apply", "revert", "restore")
#: Verdicts that figures may change; the others are people's.
_OF_FIGURES = ("unknown", "trial", "adopted", "rejected", "inconclusive")


@dataclass
class Folded:
    """``fingerprint`` is the newest that an entry carries, or that of the machines now; ``findings`` are those that nothing has
    ended yet, ``not_known`` the changes of which nobody knows yet what became of them on a machine that did not answer."""

    knobs: dict[str, Knob] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    simulation: bool = False
    entries: list[Kept] = field(default_factory=list)
    corrected: dict[str, str] = field(default_factory=dict)
    findings: dict[Finding, Kept] = field(default_factory=dict)
    not_known: dict[str, Kept] = field(default_factory=dict)

    @property
    def debts(self) -> list[tuple[Knob, Debt]]:
        return [(knob, debt) for _name, knob in sorted(self.knobs.items()) for debt in knob.debts]


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
        _follow(folded, kept)
        name = kept.data.get("knob")
        if name is None:
            continue
        knob = folded.knobs.get(name)
        if knob is None:
            knob = folded.knobs[name] = Knob(name)
        knob.entries.append(kept)
        step = _STEPS.get(kept.kind)
        if step is not None:
            before = _state(knob)
            step(folded, knob, kept)
            if before != _state(knob):
                knob.moves.append(kept)
    if fingerprint:
        folded.fingerprint = fingerprint
    for knob in folded.knobs.values():
        _verify(folded, knob)
    return folded


def _state(knob: Knob) -> tuple[Any, ...]:
    return (*knob.deployed.items(), knob.value, *((value, one.verdict) for value, one in knob.standings.items()))


def _follow(folded: Folded, kept: Kept) -> None:
    """Keep what was found and has not ended, and the changes of which it is not known what became of them."""
    if folded.not_known:
        folded.not_known = {name: one for name, one in folded.not_known.items() if not settles(kept, one)}
    if kept.data.get("outcome") == NOT_KNOWN:
        folded.not_known[kept.id] = kept
    if folded.findings:
        folded.findings = {key: one for key, one in folded.findings.items() if not proves(kept, one)}
    key = finding_key(kept.data)
    if key is not None:
        folded.findings[key] = kept


def _of(knob: Knob, value: Optional[str]) -> Standing:
    return knob.standings.setdefault(value, Standing())


def _settle(knob: Knob, value: Optional[str], kept: Kept) -> Standing:
    """Give a value of which nobody suspects anything the verdict of its figures."""
    one = _of(knob, value)
    if one.verdict in (*_OF_FIGURES, "exonerated"):
        cleared = "exonerated" if one.verdict == "exonerated" else "trial"
        one.verdict, one.entry = verdict_of(knob.measured(value)) or cleared, kept
    return one


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
    # What somebody had to come back to is in place again.
    if after in knob.standings:
        knob.standings[after].debt = None


def _put(folded: Folded, knob: Knob, kept: Kept) -> None:
    """apply and restore: a value comes in, or is taken off by set_knob."""
    _place(folded, knob, kept)
    before, after = kept.data["before"], kept.data["after"]
    knob.value = before if after is None else after
    one = _settle(knob, knob.value, kept)
    if one.verdict == "convicted" and after is not None:
        folded.contradictions.append(
            f"{kept.kind} {kept.id} brought {shown(after, knob.name)} back, and it is convicted ({one.cause}): exonerate it, or "
            "revert it."
        )


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
    one = _of(knob, data["value"])
    if one.verdict in _OF_FIGURES:
        told = verdict_of(knob.measured(data["value"]))
        one.verdict, one.entry = told or one.verdict, kept if told else one.entry
    if said == "rejected":
        one.debt = None  # it is no loss any more


def _propose(_folded: Folded, knob: Knob, kept: Kept) -> None:
    if knob.verdict == "unknown":
        knob.value = kept.data["value"]


def _suspect(_folded: Folded, knob: Knob, kept: Kept) -> None:
    value = kept.data.get("value", knob.value)
    knob.about[kept.id] = value
    if value is None:
        return
    one = _of(knob, value)
    if one.verdict != "convicted":
        one.verdict, one.cause, one.entry = "suspected", kept.data["said"], kept


def _revert(folded: Folded, knob: Knob, kept: Kept) -> None:
    _place(folded, knob, kept)
    data = kept.data
    knob.value = knob.about[kept.id] = data["before"]
    one = _of(knob, data["before"])
    if one.verdict == "unknown":
        _settle(knob, data["before"], kept)
    if data["suspicion"] and one.verdict != "convicted":
        one.cause = (one.cause if one.verdict == "suspected" else "") if is_bare(data["reason"]) else data["reason"]
        one.verdict, one.entry = "suspected", kept
    if data.get("review_by") and one.verdict not in ("convicted", "rejected"):
        one.debt = Debt(kept, data["before"], data["review_by"], list(data.get("forgoing", [])))


def _judged(knob: Knob, kept: Kept) -> Optional[str]:
    """The value that a judgement is about: what it says, else what it refers to, else the only one that is suspected."""
    if "value" in kept.data:
        value: Optional[str] = kept.data["value"]
        return value
    named = [knob.about[ref] for ref in kept.refs if ref in knob.about]
    if named:
        return named[-1]
    return knob.suspected[0] if len(knob.suspected) == 1 else knob.value


def _judge(folded: Folded, knob: Knob, kept: Kept) -> None:
    """exonerate and convict; the later one holds, and that it knows of the other one is what its refs say."""
    value = _judged(knob, kept)
    one = _of(knob, value)
    for other in one.judgements:
        if other.kind != kept.kind and other.id not in kept.refs:
            folded.contradictions.append(
                f"{other.kind} {other.id} by {other.data['by']} and {kept.kind} {kept.id} by {kept.data['by']} contradict each "
                f"other about {shown(value, knob.name)}: correct one of them with ansible-playbook record.yml -e kind=correct -e entry=ID."
            )
    one.judgements, one.cause, one.entry = [kept], kept.data["cause"], kept
    if kept.kind == "convict":
        one.verdict, one.debt = "convicted", None
        return
    one.verdict = (verdict_of(knob.measured(value)) if knob.in_place(value) else "") or "exonerated"


def _rollback(folded: Folded, knob: Knob, kept: Kept) -> None:
    """Of a change that never held nothing moves; one that had been confirmed and was put back moves the deployed value."""
    if kept.data["outcome"] == "undone" and "after" in kept.data and "instance" in kept.data:
        _place(folded, knob, kept)
        if kept.data["after"] is not None:
            knob.value = kept.data["after"]
            _settle(knob, knob.value, kept)


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
    if value is not None:
        knob.value = value
        _settle(knob, value, kept)


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

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record in words for people: figures, debts, knobs, entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ..knobs import near_name
from .fold import Folded
from .folder import Kept
from .reasons import is_bare
from .standing import Debt, Knob, measured_verdict, shown


def figure(data: Mapping[str, Any]) -> str:
    """``+12.8 % [10.9, 14.7] at C64``; a simulated engine's is called so."""
    interval = f" [{data['low_pct']:+g}, {data['high_pct']:+g}]" if "low_pct" in data else ""
    simulated = " (simulation)" if data.get("simulation") else ""
    return f"{data['effect_pct']:+g} %{interval} at {data['load']}{simulated}"


def losses(measures: Iterable[Kept]) -> list[dict[str, Any]]:
    """What measurements of a value say that is lost without it, as a revert keeps it. Only gains are losses."""
    kept_fields = ("load", "effect_pct", "low_pct", "high_pct", "simulation")
    return [
        {name: kept.data[name] for name in kept_fields if name in kept.data}
        for kept in measures
        if kept.data["effect_pct"] > 0 and measured_verdict(kept.data) != "rejected"
    ]


def forgoing(rows: Iterable[Mapping[str, Any]]) -> str:
    """``forgoing +12.8 % at C64, +5.7 % at C96``; says so when nobody measured."""
    told = [figure(row) for row in rows]
    simulated = bool(told) and all(text.endswith(" (simulation)") for text in told)
    if simulated:
        told = [text[: -len(" (simulation)")] for text in told]
    return (
        f"forgoing {', '.join(told)}{' (simulation)' if simulated else ''}"
        if told
        else "what it costs was never measured"
    )


def elsewhere_lines(knob: Knob) -> list[tuple[str, str]]:
    """``512 measured +12.8 % at C64 (adopted), forgone now`` or ``512 is suspected (an agent hung)``, and the entry's id, for each
    value that is not in question."""
    judged = [
        (f"{_word(value)} is {one.told}", one.entry.id) for value, one in knob.judged_elsewhere if one.entry is not None
    ]
    judged += [
        (f"{_word(value)} was reverted by {left.data['by']} on {left.at[:10]}: {left.data['reason']}", left.id)
        for value in knob.standings
        for left in [None if value is None else knob.left_for(value)]
        if left is not None
    ]
    return judged + [
        (
            f"{_word(kept.data['value'])} measured {figure(kept.data)} ({measured_verdict(kept.data) or 'decides nothing'})"
            f"{', forgone now' if knob.is_forgone(kept) else ''}",
            kept.id,
        )
        for kept in knob.elsewhere
    ]


def _verdict(name: str, which: str) -> str:
    """What to type, as a line that can be copied, with the other choice behind it."""
    return f"ansible-playbook record.yml -e kind=exonerate -e knob={name}{which} -e cause=WHAT, or kind=convict"


def suspicion_lines(folded: Folded) -> list[str]:
    """One line per knob whose deployed value is under suspicion: what is said of it, and what resolves it."""
    return [
        f"{shown(value, name)} is {knob.standing(value).told} and deployed on "
        f"{', '.join(sorted(item for item, there in knob.deployed.items() if there == value))}; resolve: "
        f"{_verdict(name, _which(knob, value))}"
        for name, knob in sorted(folded.knobs.items())
        for value in knob.suspected
        if knob.in_place(value)
    ]


def _which(knob: Knob, value: Optional[str]) -> str:
    """The word that names the value, where a judgement could be about several."""
    return f" -e value={value}" if len(knob.suspected) > 1 and value is not None else ""


def open_lines(folded: Folded) -> list[str]:
    """One line per finding that nothing has ended, and per change of which it is not known what became of it somewhere."""
    found = [
        f"{kept.data['said']} ({kept.data['verb']} by {kept.data['by']} on {kept.at[:10]}) [{kept.id}]"
        for kept in folded.findings.values()
    ]
    return found + [
        f"change {kept.data.get('change_id', '')}: what became of it{f' on {instance}' if instance else ''} is not known since "
        f"{kept.at[:10]}; the next run that reaches the machine writes it down, verify.yml for instance [{kept.id}]"
        for kept in folded.not_known.values()
        for instance in [kept.data.get("instance")]
    ]


def debt_line(knob: Knob, debt: Debt, today: str) -> str:
    """One line per debt: what is forgone, why, until when, and what resolves it."""
    late = f"; review was due by {debt.review_by}" if debt.review_by < today else f"; review by {debt.review_by}"
    one = knob.standing(debt.value)
    if one.verdict == "exonerated":
        why = f"exonerated ({one.cause}), yet not restored"
        cure = f"ansible-playbook restore_knob.yml -e knob={knob.name}"
        cure += f" -e value={debt.value}" if debt.value is not None and len(set(knob.standings) - {None}) > 1 else ""
    else:
        reason = debt.entry.data["reason"]
        said = "" if is_bare(reason) else f" ({reason})"
        why = f"reverted on suspicion{said}" if debt.entry.data["suspicion"] else f"reverted{said}"
        cure = _verdict(knob.name, _which(knob, debt.value))
    return f"{shown(debt.value, knob.name)} {why} on {debt.entry.at[:10]}: {forgoing(debt.forgoing)}{late}; resolve: {cure}"


def debt_lines(folded: Folded, today: str, only: Optional[str] = None) -> list[str]:
    return [debt_line(knob, debt, today) for knob, debt in folded.debts if only in (None, "", knob.name)]


def nothing_of(folded: Folded, name: str) -> str:
    """That the record has no knob of that name, and which one may be meant."""
    meant = near_name(name, folded.knobs)
    return f"the record knows nothing of {name}{f'; did you mean {meant}?' if meant else ''}"


def deployed_text(knob: Knob) -> str:
    if not knob.deployed:
        return "not deployed by pdops"
    return ", ".join(
        f"{value if value is not None else 'unset'} on {name}" for name, value in sorted(knob.deployed.items())
    )


def knob_lines(knob: Knob, today: str) -> list[str]:
    """Few lines: deployed, verdict and what it is about, evidence, debt."""
    about = f" ({shown(knob.value)})" if knob.verdict != "unknown" or knob.value is not None else ""
    lines = [f"{knob.name}: {deployed_text(knob)}; verdict {knob.verdict_told}{about}"]
    for kept in knob.measured(knob.value):
        said = measured_verdict(kept.data) or "a figure without an interval decides nothing"
        lines.append(f"  measured {figure(kept.data)}: {said} [evidence:{kept.id}]")
    lines += [f"  {said} [evidence:{entry}]" for said, entry in elsewhere_lines(knob)]
    if knob.unverified_since:
        since = "now" if knob.unverified_since == "now" else knob.unverified_since[:10]
        lines.append(f"  unverified since {since}: {knob.unverified_why}")
    lines += [f"  debt: {debt_line(knob, debt, today)}" for debt in knob.debts]
    return lines


def fold_lines(folded: Folded, problems: Iterable[str], today: str, only: Optional[str] = None) -> list[str]:
    lines: list[str] = []
    for name, knob in sorted(folded.knobs.items()):
        if only in (None, "", name):
            lines += knob_lines(knob, today)
    if not lines:
        lines.append("the record knows no knob yet" if not only else nothing_of(folded, only))
    lines += [f"finding: {sentence}" for sentence in open_lines(folded)]
    lines += [f"contradiction: {sentence}" for sentence in folded.contradictions]
    lines += [f"problem: {sentence}" for sentence in problems]
    return lines


def entry_line(kept: Kept, corrected: Mapping[str, str]) -> str:
    """One entry on one line: time, kind, id, what it says, who."""
    void = f" (corrected by {corrected[kept.id]})" if kept.id in corrected else ""
    return f"{kept.at[:19]}Z {kept.kind:<9} {kept.id}  {told(kept.data)}, by {kept.data['by']}{void}"


def told(data: Mapping[str, Any]) -> str:
    """What an entry says, without time and author."""
    parts: list[str] = []
    knob = data.get("knob")
    if "before" in data and "after" in data:
        parts.append(f"{knob or 'script'}: {_word(data['before'])} -> {_word(data['after'])}")
    elif data["kind"] == "measure":
        parts.append(f"{shown(data['value'], knob or '')} {figure(data)}")
        verdict = measured_verdict(data)
        parts += [verdict] if verdict else []
    elif "value" in data:
        parts.append(f"{shown(data['value'], knob or '')}")
    elif knob:
        parts.append(str(knob))
    if data.get("instance"):
        parts[-1:] = [f"{parts[-1]} on {data['instance']}"] if parts else [f"on {data['instance']}"]
    for name in ("cause", "found", "outcome", "reason"):
        if data.get(name):
            parts.append(str(data[name]) if name in ("outcome", "found") else f"{name}: {data[name]}")
    if data.get("forgoing"):
        parts.append(forgoing(data["forgoing"]))
    if data.get("review_by"):
        parts.append(f"review by {data['review_by']}")
    if data.get("said") and data.get("said") not in parts:
        parts.append(str(data["said"]))
    return "; ".join(" ".join(part.split()) for part in parts)


def _word(value: Optional[str]) -> str:
    return "unset" if value is None else value

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The page of a deployment as plain data: knobs with value, verdict, evidence and debt; what happened, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from ..report import clean
from .fold import PLACING, Folded
from .folder import Kept
from .standing import Knob, measured_verdict, shown
from .text import debt_line, elsewhere_lines, figure, open_lines, suspicion_lines, told

#: Entries beyond these are counted, not shown; the whole is in git.
MOST_ENTRIES = 300
MOST_SEGMENTS = 40
_TONES = {
    "adopted": "good",
    "exonerated": "good",
    "suspected": "warn",
    "inconclusive": "warn",
    "rejected": "bad",
    "convicted": "bad",
}
_SIGNS = {"good": "✓", "bad": "✕", "warn": "?", "calm": "◦"}
_KIND_TONES = {
    "apply": "calm", "restore": "good", "revert": "warn", "rollback": "warn", "suspect": "warn", "convict": "bad", "exonerate": "good",
    "measure": "calm", "correct": "warn",
}  # fmt: skip


def page_view(
    deployment: str, folded: Folded, contradictions: Iterable[str], problems: Iterable[str], today: str, file: str
) -> dict[str, Any]:
    """Everything that the page shows, masked; ``file`` is the folder of the record, for people who look for it."""
    wrong = [clean.text(item) for item in problems]
    against = [clean.text(item) for item in contradictions]
    debts = [clean.text(debt_line(knob, debt, today)) for knob, debt in folded.debts]
    suspicions = [clean.text(line) for line in suspicion_lines(folded)]
    found = [clean.text(line) for line in open_lines(folded)]
    entries = folded.entries[::-1]
    return {
        "deployment": clean.text(deployment),
        "outcome": _outcome(len(wrong), len(against), len(found), len(debts), len(suspicions)),
        "headline": _headline(folded),
        "simulation": folded.simulation,
        "facts": _facts(folded, file),
        "wrong": wrong,
        "against": against,
        "open": found,
        "suspicions": suspicions,
        "debts": debts,
        "knobs": [_knob(knob, today) for _name, knob in sorted(folded.knobs.items())],
        "lanes": [lane for _name, knob in sorted(folded.knobs.items()) for lane in _lanes(knob, folded)],
        "entries": [_entry(kept, folded) for kept in entries[:MOST_ENTRIES]],
        "left_out": max(0, len(entries) - MOST_ENTRIES),
        "date": entries[0].at[:16].replace("T", " ") + " UTC" if entries else "",
    }


def _outcome(wrong: int, against: int, found: int, debts: int, suspicions: int) -> dict[str, str]:
    if wrong:
        return {"name": "Not to be trusted", "sign": "✕", "tone": "bad"}
    if against:
        return {"name": "Contradicts itself", "sign": "✕", "tone": "bad"}
    told = [
        f"{count} {word}{'s' if count > 1 else ''}"
        for count, word in ((found, "finding"), (suspicions, "suspicion"), (debts, "debt"))
        if count
    ]
    if told:
        return {
            "name": f"{' and '.join(told[-2:])} open" if len(told) < 3 else f"{told[0]}, {told[1]} and {told[2]} open",
            "sign": "?",
            "tone": "warn",
        }
    return {"name": "No debt", "sign": "✓", "tone": "good"}


def _headline(folded: Folded) -> str:
    count = len(folded.knobs)
    deployed = sum(1 for knob in folded.knobs.values() if any(value is not None for value in knob.deployed.values()))
    return f"{count} knob{'s' if count != 1 else ''} on record, {deployed} of them deployed"


def _facts(folded: Folded, file: str) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = [{"name": "Entries", "value": str(len(folded.entries)), "code": False}]
    people = sorted({str(kept.data["by"]) for kept in folded.entries})
    if people:
        more = f" and {len(people) - 3} more" if len(people) > 3 else ""
        facts.append({"name": "By", "value": clean.text(", ".join(people[:3]) + more), "code": False})
    facts.append({"name": "Record", "value": clean.text(file), "code": True})
    return facts


def _knob(knob: Knob, today: str) -> dict[str, Any]:
    tone = _TONES.get(knob.verdict, "calm")
    return {
        "name": knob.name,
        "deployed": [
            {
                "instance": clean.text(name),
                "value": clean.text(value) if value is not None else "unset",
                "since": knob.since[name][:10],
            }
            for name, value in sorted(knob.deployed.items())
        ],
        "verdict": {"result": knob.verdict, "sign": _SIGNS[tone], "tone": tone},
        "about": clean.text(shown(knob.value).lstrip("=")) if knob.verdict != "unknown" else "",
        "cause": clean.text(knob.cause),
        "measured": [
            {
                "said": clean.text(figure(kept.data)),
                "verdict": measured_verdict(kept.data) or "decides nothing",
                "id": kept.id,
            }
            for kept in knob.measured(knob.value)
        ],
        "elsewhere": [{"said": clean.text(said), "id": entry} for said, entry in elsewhere_lines(knob)],
        "unverified": clean.text(f"unverified since {knob.unverified_since[:10]}: {knob.unverified_why}")
        if knob.unverified_since
        else "",
        "debt": clean.text("; ".join(debt_line(knob, debt, today) for debt in knob.debts)),
    }


def _entry(kept: Kept, folded: Folded) -> dict[str, Any]:
    return {
        "at": kept.at[:16].replace("T", " "),
        "kind": kept.kind,
        "tone": _KIND_TONES.get(kept.kind, "calm"),
        "id": kept.id,
        "said": clean.text(told(kept.data)),
        "by": clean.text(kept.data["by"]),
        "corrected": folded.corrected.get(kept.id, ""),
    }


def _lanes(knob: Knob, folded: Folded) -> list[dict[str, Any]]:
    """One lane per instance: its values one after the other, in steps of one change (not of time, which would hide short ones)."""
    lanes = []
    for instance in sorted(knob.deployed):
        steps: list[tuple[Optional[str], str, str]] = []
        for kept in knob.entries:
            moves = kept.kind in PLACING or kept.kind == "observe" or kept.data.get("outcome") == "undone"
            if not moves or kept.id in folded.corrected or kept.data.get("instance") != instance:
                continue
            value = kept.data.get("value") if kept.kind == "observe" else kept.data.get("after")
            steps.append((value, kept.at[:10], kept.kind))
        steps = steps[-MOST_SEGMENTS:]
        width = 100 / max(1, len(steps))
        lanes.append(
            {
                "name": f"{knob.name} on {clean.text(instance)}",
                "segments": [
                    {
                        "x": round(at * width, 3),
                        "width": round(width, 3),
                        "label": clean.text(value, 40) if value is not None else "unset",
                        "unset": value is None,
                        "title": f"{day}, {kind}",
                        "day": day,
                    }
                    for at, (value, day, kind) in enumerate(steps)
                ],
            }
        )
    return [lane for lane in lanes if lane["segments"]]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What stands in a generated region of a document: a view of the record as Markdown lines.

Nothing in it depends on the day on which it is rendered, so that a document is red because of what happened, never because of time.
"""

from __future__ import annotations

import re

from ..pdops_error import PdopsError
from .fold import Folded
from .standing import Debt, Knob, measured_verdict, shown
from .text import deployed_text, elsewhere_lines, figure, forgoing, told

VIEWS = ("knobs", "knob", "debt", "history")


def render(words: str, folded: Folded) -> list[str]:
    """The lines of a region, without line ends; :class:`PdopsError` for a view that does not exist."""
    view, given = _read(words)
    known = folded.knobs.get(given.get("knob", ""))
    if given.get("knob") and known is None:
        return [f"The record has nothing about `{given['knob']}`."]
    if view == "knobs":
        return _table(folded)
    if view == "debt":
        return _debts(folded, given.get("knob"))
    if known is None:
        raise PdopsError(f"the view {view} needs knob=NAME, as in <!-- pdops:begin {view} knob=NAME -->")
    return _knob(known) if view == "knob" else _history(known, folded)


def _read(words: str) -> tuple[str, dict[str, str]]:
    parts = words.split()
    view = parts[0] if parts else ""
    given = {name: value for name, equals, value in (part.partition("=") for part in parts[1:]) if equals}
    if view not in VIEWS:
        raise PdopsError(f"the view {view!r} is unknown; it must be one of {', '.join(VIEWS)}")
    odd = [part for part in parts[1:] if part.partition("=")[0] != "knob"]
    if odd:
        raise PdopsError(f"a region takes knob=NAME, not {odd[0]}")
    return view, given


def _plain(text: str) -> str:
    """Text of people inside of generated Markdown: on one line, opening no comment, no table cell, no code."""
    return re.sub(r"([|`])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def _knob(knob: Knob) -> list[str]:
    lines = [
        f"- `{knob.name}`: {_plain(deployed_text(knob))}",
        f"- verdict on {_plain(shown(knob.value).lstrip('='))}: {_plain(knob.verdict_told)}",
    ]
    for kept in knob.measured(knob.value):
        verdict = measured_verdict(kept.data) or "a figure without an interval decides nothing"
        lines.append(f"- measured {_plain(figure(kept.data))}: {verdict} [evidence:{kept.id}]")
    lines += [f"- {_plain(said)} [evidence:{entry}]" for said, entry in elsewhere_lines(knob)]
    if knob.unverified_since:
        lines.append(f"- unverified since {knob.unverified_since[:10]}: {_plain(knob.unverified_why)}")
    lines += [f"- debt: {_debt(debt)}" for debt in knob.debts]
    if knob.moves:
        newest = knob.moves[-1]
        lines.append(f"- newest: {newest.kind} of {newest.at[:10]} [evidence:{newest.id}]")
    return lines


def _debt(debt: Debt) -> str:
    entry = debt.entry
    return (
        f"{_plain(shown(debt.value).lstrip('='))} is reverted since {entry.at[:10]} ({_plain(entry.data['reason'])}), "
        f"{_plain(forgoing(debt.forgoing))}; review by {debt.review_by} [evidence:{entry.id}]"
    )


def _table(folded: Folded) -> list[str]:
    lines = ["| knob | deployed | verdict | evidence | debt |", "|---|---|---|---|---|"]
    for name, knob in sorted(folded.knobs.items()):
        figures = ", ".join(f"{_plain(figure(kept.data))} [evidence:{kept.id}]" for kept in knob.measured(knob.value))
        if knob.unverified_since:
            figures += f" (unverified since {knob.unverified_since[:10]})"
        others = [f"{_plain(said)} [evidence:{entry}]" for said, entry in elsewhere_lines(knob)]
        figures = "; ".join([figures, *others] if figures else others)
        debt = "; ".join(f"{_plain(forgoing(one.forgoing))}; review by {one.review_by}" for one in knob.debts)
        about = f" ({_plain(shown(knob.value).lstrip('='))})" if knob.verdict != "unknown" else ""
        lines.append(f"| `{name}` | {_plain(deployed_text(knob))} | {knob.verdict}{about} | {figures} | {debt} |")
    return lines if len(lines) > 2 else ["The record knows no knob yet."]


def _debts(folded: Folded, only: str | None) -> list[str]:
    found = [f"- `{knob.name}`: {_debt(debt)}" for knob, debt in folded.debts if only in (None, knob.name)]
    return found or ["No debt is open."]


def _history(knob: Knob, folded: Folded) -> list[str]:
    return [
        f"- {kept.at[:10]} {kept.kind}: {_plain(told(kept.data))} [evidence:{kept.id}]"
        + (f" (corrected by [evidence:{folded.corrected[kept.id]}])" if kept.id in folded.corrected else "")
        for kept in knob.entries
        + [one for one in folded.entries if one.id in folded.corrected and one.data.get("knob") == knob.name]
    ]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the record adds to a plan: what a revert costs, debts that are open, and where machine and record differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .doings import changes_of
from .fold import Folded
from .joining import against_scripts
from .masking import as_recorded
from .reasons import Reason
from .standing import shown
from .text import debt_lines, figure, forgoing, losses

_MOST = 5


def lines_of(
    folded: Folded,
    problems: Iterable[str],
    verb: str,
    edits: Iterable[Mapping[str, Any]],
    infos: Iterable[Mapping[str, Any]],
    reason: Optional[Reason],
    today: str,
) -> list[str]:
    """Lines for a person; empty for a deployment without a record."""
    lines: list[str] = []
    review = f"; review by {reason.review_by}" if reason is not None and reason.review_by else ""
    changed = list(changes_of({"edits": list(edits)}, folded))
    several = len({name for _instance, name, _before, _after in changed}) > 1
    for _instance, name, before, after in changed:
        knob = folded.knobs.get(name)
        there = None if knob is None else knob.standing(as_recorded(before))
        if verb == "revert" and there is not None and there.verdict == "exonerated":
            lines.append(f"note: {name} is exonerated ({there.cause}); reverting it does not touch that cause")
        comes = None if knob is None or before == after or after is None else knob.standing(as_recorded(after))
        if comes is not None and comes.verdict in ("suspected", "convicted"):
            lines.append(f"note: {shown(after, name)} is {comes.told}; see ansible-playbook record.yml -e knob={name}")
        left = None if knob is None or before == after or after is None else knob.left_for(as_recorded(after))
        if left is not None:
            lines.append(
                f"note: {shown(after, name)} was reverted on {left.at[:10]} by {left.data['by']}: {left.data['reason']}; "
                f"see ansible-playbook record.yml -e knob={name}"
            )
        loss = losses(knob.measured(as_recorded(before))) if knob is not None and before != after else []
        if verb != "revert" and not loss:
            continue
        won = losses(knob.measured(as_recorded(after))) if knob is not None and before != after else []
        instead = f"; {shown(after, name)} measured {', '.join(figure(row) for row in won)}" if won else ""
        lines.append(f"costs: {f'{shown(before, name)}: ' if several else ''}{forgoing(loss)}{instead}{review}")
    lines = list(dict.fromkeys(lines))
    lines += [f"debt: {line}" for line in debt_lines(folded, today)]
    differ = against_scripts(folded, intended_of(infos))
    lines += [f"record: {sentence}" for sentence in differ[:_MOST]]
    wrong = list(problems)
    if wrong:
        lines.append(
            f"record: {len(wrong)} of its files cannot be trusted; see ansible-playbook record.yml -e show=check"
        )
    return lines


def intended_of(infos: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Optional[str]]]:
    found: dict[str, Mapping[str, Optional[str]]] = {}
    for info in infos:
        for name, report in (info.get("instances") or {}).items():
            if isinstance(report.get("intended"), Mapping):
                found[name] = report["intended"]
    return found

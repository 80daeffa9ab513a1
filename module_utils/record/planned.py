# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the record adds to a plan: what a revert costs, debts that are open, and where machine and record differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .fold import Folded
from .joining import against_scripts
from .reasons import Reason
from .text import debt_lines, forgoing, losses

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
    touched = set()
    for edit in edits:
        knob = folded.knobs.get(str(edit.get("knob") or ""))
        touched.add((str(edit.get("instance")), str(edit.get("knob"))))
        if verb != "revert":
            continue
        if knob is not None and knob.verdict == "exonerated":
            lines.append(f"note: {knob.name} is exonerated ({knob.cause}); reverting it does not touch that cause")
        loss = losses(knob.measured(edit.get("before"))) if knob is not None else []
        review = f"; review by {reason.review_by}" if reason is not None and reason.review_by else ""
        lines.append(f"costs: {forgoing(loss)}{review}")
    lines += [f"debt: {line}" for line in debt_lines(folded, today)]
    differ = against_scripts(folded, intended_of(infos))
    lines += [f"record: {sentence}" for sentence in differ[:_MOST]]
    wrong = list(problems)
    if wrong:
        lines.append(f"record: {len(wrong)} of its files cannot be trusted; see record.yml -e show=check")
    return lines


def intended_of(infos: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Optional[str]]]:
    found: dict[str, Mapping[str, Optional[str]]] = {}
    for info in infos:
        for name, report in (info.get("instances") or {}).items():
            if isinstance(report.get("intended"), Mapping):
                found[name] = report["intended"]
    return found

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""An edit of a script as rows of a difference."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from . import clean

_CONTEXT = 2
_MOST_ROWS = 120


def rows_of(edit: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows ``{sign, before, after, text}``: sign is ``+``, ``-``, `` `` or ``@`` (lines left out); line numbers as text.

    From both sides of ``diff`` when they are there, with two lines around each difference; otherwise from ``changed_lines``.
    """
    diff = clean.mapping(edit.get("diff"))
    if isinstance(diff.get("before"), str) and isinstance(diff.get("after"), str):
        rows = _from_sides(diff["before"].splitlines(), diff["after"].splitlines())
    else:
        rows = _from_lines(clean.sequence(edit.get("changed_lines")))
    if len(rows) > _MOST_ROWS:
        left_out = len(rows) - _MOST_ROWS
        return [
            *rows[:_MOST_ROWS],
            {"sign": "@", "before": "", "after": "", "text": f"{left_out} more rows; see --diff"},
        ]
    return rows


def count_of(edit: Mapping[str, Any]) -> int:
    """How many lines differ. A line with another value is one, though it is shown twice."""
    signs = [str(clean.mapping(line).get("sign")) for line in clean.sequence(edit.get("changed_lines"))]
    if not signs:
        signs = [row["sign"] for row in rows_of(edit)]
    return max(signs.count("+"), signs.count("-"))


def _from_sides(before: list[str], after: list[str]) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        if rows:
            rows.append({"sign": "@", "before": "", "after": "", "text": "..."})
        for tag, from_before, to_before, from_after, to_after in group:
            if tag == "equal":
                pairs = zip(range(from_before, to_before), range(from_after, to_after))
                rows += [
                    {"sign": " ", "before": str(old + 1), "after": str(new + 1), "text": before[old]}
                    for old, new in pairs
                ]
                continue
            rows += [
                {"sign": "-", "before": str(at + 1), "after": "", "text": before[at]}
                for at in range(from_before, to_before)
            ]
            rows += [
                {"sign": "+", "before": "", "after": str(at + 1), "text": after[at]}
                for at in range(from_after, to_after)
            ]
    return rows


def _from_lines(changed: list[Any]) -> list[dict[str, str]]:
    rows = []
    for item in changed:
        line = clean.mapping(item)
        sign = "-" if line.get("sign") == "-" else "+"
        at = clean.text(line.get("line"), 12)
        rows.append(
            {
                "sign": sign,
                "before": at if sign == "-" else "",
                "after": at if sign == "+" else "",
                "text": clean.text(line.get("text")),
            }
        )
    return rows

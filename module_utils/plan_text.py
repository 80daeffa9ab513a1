# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A plan as lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .deployment import Instance
from .plan import Plan
from .store.atomic import ABSENT

#: A longer difference is shown by --diff; the plan only counts it.
_SHOWN_LINES = 20


def _outage(plan: Plan) -> str:
    if plan.scope == "rolling":
        return (
            "one at a time: out of the router, its requests ended (at most its drain time, then lost), restarted, proved with "
            "its peers, and back in; when no request passes with it then, prefill, decode and router are restarted, once"
        )
    if plan.scope == "decode":
        return (
            "each is taken out of the router first, which answers 503 while no decode is left; when no request passes "
            "afterwards, prefill, decode and router are restarted, once"
        )
    return f"requests fail from the stop of {plan.restart[-1]} until all gates pass"


def _key_lines(edit: Mapping[str, Any]) -> list[str]:
    who = ", ".join(edit["users"])
    if edit["sha256_before"] == ABSENT:
        return [f"write {who}: {edit['path']} (keys), which is not there yet (content not shown)"]
    source = f", from {edit['source']['told']}" if edit.get("source") else ""
    return [
        f"edit {who}: {edit['path']} (keys){source}",
        "  changed (content not shown); a copy of the old key file is stored, mode 0600, before it is replaced",
    ]


def plan_lines(plan: Plan, instances: list[Instance], costs: Iterable[str] = ()) -> list[str]:
    """Few lines: what was found, what changes (with the differing lines), what restarts and why, and what that ``costs``."""
    by_name = {item.name: item for item in instances}
    lines = [f"found: {sentence}" for sentence in plan.found]
    if not plan.changed:
        lines.append(plan.nothing or "nothing to do")
        lines += [f"note: {sentence}" for sentence in plan.warnings]
        return lines
    for edit in plan.edits:
        if edit.get("kind") == "key":
            lines += _key_lines(edit)
            continue
        if edit["sha256_before"] == ABSENT:
            count = sum(line["sign"] == "+" for line in edit["changed_lines"])
            lines.append(
                f"write {edit['instance']}: {edit['path']}, which is not there yet ({count} lines; see --diff)"
            )
            continue
        if not edit["changed_lines"]:
            lines += [f"edit {edit['instance']}: {sentence}" for sentence in edit["warnings"]]
            continue
        source = f", from {edit['source']['told']}" if edit.get("source") else ""
        lines.append(f"edit {edit['instance']}: {edit['path']}{source}")
        changed = edit["changed_lines"]
        lines += [f"  {line['sign']}{line['line']}: {line['text']}" for line in changed[:_SHOWN_LINES]]
        if len(changed) > _SHOWN_LINES:
            lines.append(f"  ... and {len(changed) - _SHOWN_LINES} more lines; see --diff")
        # A line with another value is one line that differs, though a diff shows it twice.
        differ = max(sum(line["sign"] == sign for line in changed) for sign in "+-")
        count = f"{differ} line{'s' if differ != 1 else ''}"
        lines.append(
            f"  differs in {count}; a copy of the old {edit.get('kind', 'script')} is stored before it is replaced"
        )
    if plan.restart:
        if plan.scope == "rolling":
            lines.append(f"restart one by one: {' -> '.join(plan.restart)}")
        else:
            lines.append(f"stop {' -> '.join(reversed(plan.restart))}, then start {' -> '.join(plan.restart)}")
        if plan.rule:
            lines.append(f"  scope={plan.scope}: {plan.rule}")
        lines += [f"  {name}: {plan.why.get(name, '')}" for name in plan.restart]
        if plan.overlap:
            lines.append("  decode starts when prefill's bootstrap port answers, so that both load at the same time")
        worst = sum(by_name[name].load_timeout_s for name in plan.restart)
        lines.append(f"  {_outage(plan)}; at most {worst:.0f} s of loading are waited for")
        lines += costs
    else:
        lines.append("restart nothing")
    lines += [f"note: {sentence}" for sentence in plan.warnings]
    return lines

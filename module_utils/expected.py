# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a plan costs: the outage by past timings, and the worst case if the controller dies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .deployment import Instance
from .plan import Plan
from .report.wording import duration


def _span(seconds: list[float]) -> str:
    """In the words of the report, which told each of them."""
    low, high = duration(min(seconds)), duration(max(seconds))
    if low == high:
        return low
    return f"{low[:-2] if ' ' not in low[:-2] and ' ' not in high[:-2] else low} to {high}"


def _past(infos: Iterable[Mapping[str, Any]], kind: str, restart: Iterable[str] | None) -> list[float]:
    """Seconds of former changes; of several machines those of the slowest one."""
    best: list[float] = []
    for info in infos:
        here = None if restart is None else sorted(set(restart) & set(info["instances"]))
        rows = [
            float(row["seconds"])
            for row in info.get("timings", [])
            if row["kind"] == kind and (here is None or row["restarted"] == here)
        ]
        if rows and (not best or max(rows) > max(best)):
            best = rows
    return best


def cost_lines(
    plan: Plan, instances: list[Instance], infos: list[Mapping[str, Any]], step_budget_s: float, slack_s: float
) -> list[str]:
    """Lines below the plan's; none when nothing restarts.

    The longest lease is that of the slowest start: its load timeout, ``step_budget_s`` and ``slack_s``. Until it is over
    a dead controller is not noticed without anybody looking; then the guard goes back.
    """
    if not plan.restart:
        return []
    rolling = plan.scope == "rolling"
    past = _past(infos, "rolling" if rolling else "outage", plan.restart)
    loads = [item.load_timeout_s for item in instances if item.name in plan.restart]
    lines = []
    if rolling:
        took = f"; it takes {_span(past)}, as before" if past else ""
        lines.append(f"  expected outage: none, as long as the others carry the load of the one that is out{took}")
    elif past:
        changes = f"in the last {len(past)} changes" if len(past) > 1 else "in the last change"
        lines.append(f"  expected outage: {_span(past)}, as {changes} of this kind here")
    else:
        lines.append(
            f"  expected outage: not known, no change of this kind was made here; at most {sum(loads):.0f} s of loading"
        )
    back = _past(infos, "rollback", None)
    lease = max(loads) + step_budget_s + slack_s
    took = (
        f"which took {_span(back)} here"
        if back
        else f"which loads all again, at most {sum(i.load_timeout_s for i in instances):.0f} s"
    )
    lines.append(
        f"  worst case, if this controller dies: at most {lease:.0f} s until its lease is over (in a load; else "
        f"{step_budget_s + slack_s:.0f} s), then the guard puts the old state back, {took}"
    )
    return lines

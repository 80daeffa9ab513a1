# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A survey of one machine as lines for a person: what is where, and which command brings it to an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FILES = {
    "old": "the old content",
    "new": "the new content",
    "between": "a content of the change that this one took over",
    "gone": "GONE",
    "foreign": "NEITHER OLD NOR NEW: somebody edited it in between",
    "unreadable": "not readable",
}


def _guard(change: Mapping[str, Any]) -> str:
    if change["state"] == "rollback-failed":
        return "its guard has ended"
    if change["guard_alive"]:
        if change["state"] == "rolling-back":
            return "its guard is at work"
        return f"its guard acts in {max(0.0, change['lease_left_s']):.0f} s unless the lease is renewed"
    return "NO GUARD: nothing happens by itself"


def _way_on(change: Mapping[str, Any]) -> list[str]:
    back = "put the old state back: ansible-playbook recover.yml -e finish=back"
    forward = "prove the new state and confirm it: ansible-playbook recover.yml -e finish=forward"
    if change["state"] == "rollback-failed":
        return [f"when the cause is put right, {back}", "or keep what is there: ansible-playbook restart.yml"]
    if change["state"] == "rolling-back":
        return (
            ["it ends by itself; watch it: ansible-playbook recover.yml -e finish=back"]
            if change["guard_alive"]
            else [back]
        )
    if not change["free"]:
        taking = f" -e take_over={change['id']}"
        return [f"wait for its controller, or {back}{taking}"]
    if change["files"] and all(item["now"] == "new" for item in change["files"]):
        return [back, forward]
    return [back]


def change_lines(change: Mapping[str, Any]) -> list[str]:
    """One change, indented below its first line."""
    boot = "" if change["boot"] == "this" else ", of an earlier boot of this machine"
    lines = [
        f"change {change['id']} is {change['state'].upper()}: {change['summary']}",
        f"  by {change['who']}, open since {change['opened']}, controller {change['controller']}{boot}",
        f"  last step '{change['last_step']}' at {change['renewed']}; {_guard(change)}",
    ]
    for item in change["files"]:
        both = f"old {item['sha256_before'][:12]}, new {item['sha256_after'][:12]}"
        lines.append(f"  {item['path']} has {_FILES[item['now']]} ({both})")
    if not change["files"]:
        lines.append("  it changes no script")
    lines.append(f"  touched so far: {', '.join(change['touched']) or 'no instance'}")
    if change["reason"]:
        lines.append(f"  why: {change['reason'].splitlines()[0]}")
    lines += [f"  to go on, {sentence}" for sentence in _way_on(change)]
    lines.append(f"  its record: {change['record']}")
    return lines


def survey_lines(seen: Mapping[str, Any]) -> list[str]:
    """The whole machine; the first line of an orderly one says so."""
    lines = [f"UNREADABLE: {sentence}" for sentence in seen["unreadable"]]
    for change in seen["changes"]:
        lines += change_lines(change)
    if not lines:
        lines.append("no change waits to be ended")
    newest = seen["newest"]
    if newest:
        lines.append(
            f"last one that ended: {newest['id']} ({newest['summary']}), {newest['state']} at {newest['ended']}"
        )
    for name, unit in seen["units"].items():
        told = unit.get("error") or f"{unit['unit']} {unit['detail']}" + (
            f", pid {unit['pid']} for {unit['age_s']:.0f} s" if unit["pid"] and unit["age_s"] is not None else ""
        )
        lines.append(f"{name}: {told}")
    lines += [f"left by a write that a crash cut short, of no use: {path}" for path in seen["leftovers"]]
    return lines

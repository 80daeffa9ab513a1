# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The state of instances as lines for a person: short, one line a knob, remarks below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Optional

#: Longer values are cut in the table; the result has them whole.
_WIDEST = 44
# Findings that are no remark on one knob.
_TOLD_FINDINGS = ("no-exec", "sourced", "eval", "carriage-return", "not-understood", "unknown-names")


def status_lines(info: Mapping[str, Any], wanted: Optional[str] = None) -> list[str]:
    """What one machine said, without secrets.

    :arg info: a result of pd_status
    :arg wanted: the knob that was asked for; then all its places are listed
    """
    lines: list[str] = []
    for name, report in info["instances"].items():
        lines += _instance_lines(name, report, wanted)
    change = info.get("open_change")
    if change:
        lines.append(
            f"open change {change['id']}: {change['summary']}, by {change['who']} since {change['opened']}, {change['state']}, "
            + _until(change)
        )
    return lines


def _until(change: Mapping[str, Any]) -> str:
    if not change.get("guard_alive", True):
        return "no guard watches it; what is where, and how to go on: ansible-playbook recover.yml"
    return "its controller is gone" if change["controller_gone"] else f"lease {max(0.0, change['lease_left_s']):.0f} s"


def _instance_lines(name: str, report: Mapping[str, Any], wanted: Optional[str]) -> list[str]:
    if report.get("error"):
        return [f"{name} ({report['role']}): {report['error']}"]
    unit, script = report["unit"], report["script"]
    process = f"pid {unit['pid']} for {_age(unit['age_s'])}" if unit["pid"] else f"no process ({unit['detail']})"
    lines = [
        f"{name} ({report['role']}): {unit['name']} is {unit['state']}, {process}"
        if unit["state"] != "unknown"
        else f"{name} ({report['role']}): the state of {unit['name']} is not known: {unit['detail']}",
        f"  {script['error'] or script['path'] + ', ' + _version_words(script)}",
    ]
    if report.get("kernels"):
        lines.append(f"  kernels: {report['kernels']['said']}")
    knobs = report["knobs"]
    # What holds for several knobs is said once, below them.
    counted = Counter(remark["said"] for knob in knobs for remark in knob["remarks"])
    often = {said for said, count in counted.items() if count > 1}
    rows = [(knob["name"], _value(knob), _place(knob, script["path"]), _running(knob)) for knob in knobs]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for knob, row in zip(knobs, rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("  " + "  ".join([*cells, row[3]]).rstrip())
        lines += [f"      {remark['said']}" for remark in knob["remarks"] if remark["said"] not in often]
        if wanted is not None:
            lines += [f"      place: {_told(place)}" for place in knob["places"]]
    if not knobs:
        lines.append("  no knobs: neither the script nor the unit sets any")
    lines += [f"  note: {said} ({counted[said]} knobs)" for said in counted if said in often]
    environment = report["environment"]
    lines += [f"  note: {said}" for said in (*environment["unread"], *environment["notes"]) if said not in often]
    lines += [
        f"  note: line {item['line']} of the script: {item['said']}"
        for item in script["findings"]
        if item["code"] in _TOLD_FINDINGS
    ]
    return lines


def _version_words(script: Mapping[str, Any]) -> str:
    version = script["version"]
    if version is None:
        return "no version stored yet"
    told = f"{version['sha256'][:12]} ({version['label']}, {version['time']})"
    return f"version {told}" if script["is_newest"] else f"differs from its newest version {told}"


def _value(knob: Mapping[str, Any]) -> str:
    if knob["value"] is None:
        return "not set" if knob["decided"] == "nowhere" else "?"
    return f"={_cut(knob['value'])}"


def _place(knob: Mapping[str, Any], path: str) -> str:
    # The script's own path stands above the table.
    place = str(knob["place"])
    return f"line {place[len(path) + 1 :]}" if place.startswith(f"{path}:") else "" if place == "not set" else place


def _running(knob: Mapping[str, Any]) -> str:
    seen = knob["running"]
    if seen["state"] == "unknown":
        return "running: not observable"
    if seen["state"] == "absent":
        return "running: not set"
    stale = any(remark["code"] == "stale" for remark in knob["remarks"])
    known = knob["value"] is not None
    return "in effect" if known and not stale else f"running: ={_cut(str(seen['value']))}"


def _told(place: Mapping[str, Any]) -> str:
    where = f"{place['path']}:{place['line']}" if place["line"] else place["path"] or place["kind"]
    value = "value only known at run time" if place["value"] is None else f"={place['value']}"
    return f"{where} ({place['kind']}) {value}, {place['state']}"


def _cut(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _age(seconds: Optional[float]) -> str:
    if seconds is None:
        return "an unknown time"
    whole = int(seconds)
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"

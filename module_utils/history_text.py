# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The versions of a deployment's scripts as lines for a person, who wants to know what ``from=`` may be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from .version_diff import Values, knob_text

_MOST_LABEL = 44
_MOST_KNOBS = 4
Row = tuple[str, str, str, str, str, list[str]]


def history_lines(name: str, role: str, listing: Mapping[str, Any], knob: Optional[str] = None) -> list[str]:
    """One instance's table, from the result of ``serve_version`` with ``verb=list``: versions, what was edited by hand
    since, backups, and what was passed over. With ``knob`` only that one is told of each version."""
    script = listing["script"]
    lines = [f"{name} ({role}): {listing['path']}"]
    versions = listing["versions"]
    left_out = listing["versions_total"] - len(versions)
    rows = [_version_row(version, knob) for version in versions]
    backups = [_backup_row(backup, knob) for backup in listing["backups"]]
    table = _table([*rows, *backups])
    if script["problem"]:
        lines.append(f"  now: {script['problem']}")
    elif not script["stored"] and listing["versions_total"]:
        told = _told(script["knobs"], script["other_lines"], knob) or ["nothing that pdops can name"]
        lines.append(f"  now: edited by hand since the newest version: {'; '.join(told)}")
    if rows:
        lines.append("  versions, the newest first, each with what it changed (* is what the script holds now)")
        lines += [line for row in table[: len(rows)] for line in row]
    else:
        meant = f"; did you mean {listing['meant']}?" if listing.get("meant") else ""
        lines.append(f"  no stored version{f' that changed {knob}' if knob else ' yet'}{meant}")
    if left_out:
        lines.append(f"    ({left_out} more, which did not change {knob})")
    if backups:
        lines.append("  backups beside it, each with what differs from it to the script now")
        lines += [line for row in table[len(rows) :] for line in row]
    lines += [f"  note: {sentence}" for sentence in listing["passed_over"]]
    return lines


def _version_row(version: Mapping[str, Any], knob: Optional[str]) -> Row:
    if version["problem"]:
        told = [str(version["problem"])]
    elif version["knobs"] is None:
        told = ["what it changed cannot be told, since the version before is lost"]
    elif version["first"] and knob is None:
        told = [f"nothing older is known; {_count(len(version['knobs']), 'knob')}"]
    else:
        told = _told(version["knobs"], version["other_lines"], knob) or ["no difference"]
    if version["change_id"] and not version["label"].startswith("before "):  # not of what a change found
        told = [*told, f"change {version['change_id']}"]
    mark = "*" if version["now"] else " "
    return mark, version["time"], version["sha256"][:12], version["actor"], version["label"], told


def _backup_row(backup: Mapping[str, Any], knob: Optional[str]) -> Row:
    told = _told(backup["knobs"], backup["other_lines"], knob)
    if not told:
        told = ["the same as the script" if backup["now"] else f"the same {knob}" if knob else "other lines only"]
    mark = "*" if backup["now"] else " "
    return mark, backup["time"], backup["sha256"][:12], backup["label"], os.path.basename(backup["path"]), told


def _told(values: Values, others: int, knob: Optional[str]) -> list[str]:
    """What differs; the named knob alone when one was asked for."""
    names = [name for name in values if knob in (None, name)]
    told = [knob_text(name, values[name]) for name in names[:_MOST_KNOBS]]
    if len(names) > _MOST_KNOBS:
        told.append(f"and {_count(len(names) - _MOST_KNOBS, 'more knob')}")
    beside = len(values) - len(names)
    if told and beside:
        told.append(f"and {_count(beside, 'other knob')}")
    if others and (told or knob is None):
        told.append(f"{'and ' if told else ''}{_count(others, 'other line')}")
    return told


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _table(rows: Sequence[Row]) -> list[list[str]]:
    """Each row as lines with the columns under each other; what does not fit beside stands below."""
    cut = [(*row[:4], _cut(row[4]), row[5]) for row in rows]
    widths = [max((len(row[column]) for row in cut), default=0) for column in (1, 3, 4)]
    table = []
    for mark, time, sha256, who, label, told in cut:
        front = f"  {mark} {time:<{widths[0]}}  {sha256}  {who:<{widths[1]}}  {label:<{widths[2]}}  "
        table.append([f"{front if not number else ' ' * len(front)}{text}" for number, text in enumerate(told)])
    return table


def _cut(label: str) -> str:
    return label if len(label) <= _MOST_LABEL else f"{label[: _MOST_LABEL - 3]}..."

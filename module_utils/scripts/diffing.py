# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What two versions of a serve script differ in: lines, knobs, and lines that are not the named knobs' own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Optional

from .analysis import Analysis, analyse, winning_value
from .nodes import Simple
from .placing import Edit, is_alone, without, without_statement
from .state import Place

_BLANKS = re.compile(r"[ \t]+")
# The comment that keeps a carriage return out of a value (see placing) is as little as a blank.
_EMPTY_COMMENT = re.compile(r"(?:\A| )#\Z")
# One line: its number, what is left of it, what is shown, whether something was taken out of it.
_LeftLine = tuple[int, str, str, bool]
# One line: its number, what is compared, what is shown.
_Line = tuple[int, str, str]


@dataclass(frozen=True)
class ChangedLine:
    """One line of a difference.

    :ivar kind: ``-`` (only before) or ``+`` (only after)
    :ivar line: 1-based line number, in the old text for ``-``, in the new one for ``+``
    :ivar text: the line without its line feed, not masked
    """

    kind: str
    line: int
    text: str


def changed_lines(before: bytes, after: bytes) -> list[ChangedLine]:
    """All lines that differ, in order; a line end that differs makes the line differ."""
    old = _numbered(before.decode("latin-1"))
    new = _numbered(after.decode("latin-1"))
    return _compared(old, new)


def knobs_changed(before: bytes, after: bytes) -> dict[str, tuple[Optional[str], Optional[str]]]:
    """For each name whose export differs: its value before and after; None when unset or only known at run time."""
    old, new = analyse(before.decode("latin-1")), analyse(after.decode("latin-1"))
    left, right = old.exported(), new.exported()
    changed: dict[str, tuple[Optional[str], Optional[str]]] = {}
    for name in dict.fromkeys((*left, *right)):
        one, other = left.get(name), right.get(name)
        if one is not None and other is not None and one[:3] == other[:3]:
            continue
        changed[name] = (
            winning_value(one, name) if one is not None else None,
            winning_value(other, name) if other is not None else None,
        )
    return changed


def lines_beyond(before: bytes, after: bytes, names: Set[str]) -> list[ChangedLine]:
    """The changed lines that are more than exports of the named knobs.

    The named knobs' assignments are taken out of both texts (with their lines and the comments behind them when
    they are alone there, also commented-out ones), and what is left is compared. Of a script that is not
    understood every changed line counts.
    """
    old, new = analyse(before.decode("latin-1")), analyse(after.decode("latin-1"))
    if old.refusal or new.refusal:
        return changed_lines(before, after)
    left, right = _left_over(old, names), _left_over(new, names)
    # An assignment takes blanks with it, so a line that one was taken out of is compared without regard to blanks.
    loose = {_loosened(text) for _, text, _, touched in (*left, *right) if touched}
    return _compared(_keyed(left, loose), _keyed(right, loose))


def _loosened(text: str) -> str:
    return _EMPTY_COMMENT.sub("", _BLANKS.sub(" ", text).strip(" \r\n"))


def _keyed(lines: list[_LeftLine], loose: Set[str]) -> list[_Line]:
    keyed: list[_Line] = []
    for number, text, shown, touched in lines:
        loosened = _loosened(text)
        if touched and not loosened:
            continue
        keyed.append((number, loosened if loosened and loosened in loose else text, shown))
    return keyed


def _numbered(text: str) -> list[_Line]:
    lines = text.split("\n")
    numbered = [(number, line + "\n", line) for number, line in enumerate(lines[:-1], 1)]
    if lines[-1]:
        numbered.append((len(lines), lines[-1], lines[-1]))
    return numbered


def _compared(old: Sequence[_Line], new: Sequence[_Line]) -> list[ChangedLine]:
    start = 0
    while start < min(len(old), len(new)) and old[start][1] == new[start][1]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end][1] == new[-1 - end][1]:
        end += 1
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(None, [line[1] for line in left], [line[1] for line in right], autojunk=False)
    changed: list[ChangedLine] = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        changed += [ChangedLine("-", line[0], _readable(line[2])) for line in left[left_start:left_end]]
        changed += [ChangedLine("+", line[0], _readable(line[2])) for line in right[right_start:right_end]]
    return changed


def _readable(line: str) -> str:
    return line.encode("latin-1").decode("utf-8", "replace")


def _left_over(analysis: Analysis, names: Set[str]) -> list[_LeftLine]:
    """The lines of a script without the named knobs."""
    text = analysis.text
    edits: list[Edit] = []
    done: set[int] = set()
    exporters = {place for name in names & set(analysis.variables) for place in analysis.variables[name].exporters}
    for place in sorted({*analysis.places, *analysis.unexported, *exporters}, key=lambda each: each.start):
        if place.name in names:
            edit = _taken(analysis, place, names, done)
            if edit is not None:
                edits.append(edit)
    shown = text.split("\n")
    lines: list[_LeftLine] = []
    kept: list[str] = []
    number = here = 1
    touched = False
    at = 0
    for edit in [*edits, Edit(len(text), len(text), "")]:
        while at < edit.start:
            end = text.find("\n", at, edit.start)
            end = edit.start if end < 0 else end + 1
            if not kept:
                number = here
            kept.append(text[at:end])
            at = end
            if text[at - 1] == "\n":
                here += 1
                lines.append((number, "".join(kept), shown[number - 1], touched))
                kept, touched = [], False
        whole = (edit.start == 0 or text[edit.start - 1] == "\n") and text[edit.end - 1 : edit.end] == "\n"
        touched = touched or (edit.start < edit.end and not whole)
        if edit.end > at:
            here += text.count("\n", at, edit.end)
            at = edit.end
    if kept:
        lines.append((number, "".join(kept), shown[number - 1], touched))
    return lines


def _taken(analysis: Analysis, place: Place, names: Set[str], done: set[int]) -> Optional[Edit]:
    text = analysis.text
    if place.commented:
        start = text.rfind("\n", 0, place.start) + 1
        if start in done:
            return None
        done.add(start)
        others = [
            each
            for each in analysis.places
            if each.commented and each.name not in names and text.rfind("\n", 0, each.start) + 1 == start
        ]
        end = text.find("\n", place.start)
        return None if others else Edit(start, len(text) if end < 0 else end + 1, "")
    command, statement = place.command, place.statement
    if command is None or statement is None:
        return None
    if statement.only() is command and (is_alone(command, place) or _all_named(analysis, command, names)):
        if command.start in done:
            return None
        done.add(command.start)
        # Where a script could not be edited so (behind an ``&``), two of them can still be compared.
        return next(without_statement(text, statement.start, statement.end), Edit(statement.start, statement.end, ""))
    return next(without(text, place), Edit(place.start, place.end, ""))


def _all_named(analysis: Analysis, command: Simple, names: Set[str]) -> bool:
    if command.assigns:
        return False
    own = {each.start for each in analysis.places if each.command is command and each.name in names}
    return all(word.start in own for word in command.words[1:] if word.raw[:1] not in ("-", "+"))

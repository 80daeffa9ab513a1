# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes many knobs into a knob block at once: the lines that the editor would give one by one, in about linear time.

The editor reads the whole script again for every knob. Here it is read once before and once after. Whatever is not plain
is left to the editor, which says what is in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Optional

from ..knobs import check_name, check_value
from ..scripts.analysis import Analysis, analyse
from ..scripts.placing import Edit, line_after, with_value
from ..scripts.state import COMPUTED, Place


class _Line(NamedTuple):
    """A line with an export: the old one that ends at ``offset`` (number 0), or one of those that are put in there."""

    offset: int
    number: int


class _Lines:
    """The lines that are put in, and for each beginning of a name the last export that has it."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._chains: dict[int, list[int]] = {}  # offset to the numbers of the lines put in there, in their order
        self._last: dict[tuple[str, ...], _Line] = {}

    def see(self, name: str, offset: int) -> None:
        """An old export, which ends at ``offset``; they come in the order in which they stand."""
        for parts in _beginnings(name):
            self._last[parts] = _Line(offset, 0)

    def relative(self, name: str) -> Optional[_Line]:
        """The last of the exports that share most parts of the name."""
        return next((self._last[parts] for parts in reversed(_beginnings(name)) if parts in self._last), None)

    def put_in(self, name: str, text: str, behind: _Line) -> None:
        chain = self._chains.setdefault(behind.offset, [])
        self._texts.append(text)
        new = _Line(behind.offset, len(self._texts))
        chain.insert(chain.index(behind.number) + 1 if behind.number else 0, new.number)
        for parts in _beginnings(name):
            last = self._last.get(parts)
            # One further below stays the last; of those above, and of the line itself, this one is it now.
            if (
                last is None
                or last == behind
                or last.offset < new.offset
                or (last.offset, last.number) == (new.offset, 0)
            ):
                self._last[parts] = new

    def edits(self) -> list[Edit]:
        return [
            Edit(offset, offset, "".join(self._texts[number - 1] for number in chain))
            for offset, chain in self._chains.items()
        ]


def _beginnings(name: str) -> list[tuple[str, ...]]:
    """``()``, ``(SGLANG,)``, ``(SGLANG, SM120)`` and so on; an empty part ends what names can share."""
    found: list[tuple[str, ...]] = [()]
    for part in name.split("_"):
        if not part:
            break
        found.append((*found[-1], part))
    return found


def write_knobs(script: bytes, start: int, end: int, wanted: Mapping[str, str]) -> Optional[bytes]:
    """``script`` with each name of ``wanted`` exported with its value in the block from ``start`` to ``end`` (offsets).

    A new one stands behind a comment that exports the same name, else behind its nearest relative, in the block alone;
    in a block without any it is the last line. None when not all is plain, or when anything else would change with it.
    """
    text = script.decode("latin-1")
    before = analyse(text)
    if before.refusal or before.unclear or not start <= end:
        return None
    edits: list[Edit] = []
    lines = _Lines()
    comments: dict[str, Place] = {}
    for place in before.places:
        if not start <= place.start < end:
            continue
        if place.commented:
            comments[place.name] = place
        elif place.form in ("export", "declare") and place.value_start >= 0 and before.state(place) == "active":
            if place.statement is None:
                return None
            lines.see(place.name, line_after(text, place.statement.end, place.name, "").start)
    for name, given in wanted.items():
        check_name(name)
        checked = check_value(name, given)
        variable = before.variables.get(name)
        if checked is None or name in COMPUTED:
            return None
        value = checked.encode("utf-8", "surrogateescape").decode("latin-1")
        if variable is None:
            behind, line = _place_for(text, name, value, lines, comments.get(name), start, end)
            lines.put_in(name, line, behind)
            continue
        origin = variable.origin
        if variable.exported is not True or variable.set is not True or variable.array or variable.maybe:
            return None
        if variable.value == value:
            continue
        if origin is None or origin.conditional or origin.form != "export" or origin.value_start < 0:
            return None
        edits.append(with_value(text, origin, value))
    edits += lines.edits()
    edits.sort(key=lambda edit: edit.start)
    if any(one.end > other.start for one, other in zip(edits, edits[1:])):
        return None
    pieces, at = [], 0
    for edit in edits:
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    made = "".join((*pieces, text[at:]))
    return made.encode("latin-1") if _same_beside(before, analyse(made), wanted) else None


def _place_for(
    text: str, name: str, value: str, lines: _Lines, comment: Optional[Place], start: int, end: int
) -> tuple[_Line, str]:
    """Behind which line a new export goes, and its own line."""
    if comment is not None:
        edit = line_after(text, comment.end, name, value)
        return _Line(edit.start, 0), edit.text
    behind = lines.relative(name)
    if behind is None:
        return _Line(end, 0), line_after(text, max(0, start - 1), name, value).text
    # All that is put in at one offset stands behind the same old line, so it looks like it.
    return behind, line_after(text, behind.offset - 1, name, value).text


def _same_beside(before: Analysis, after: Analysis, names: Mapping[str, str]) -> bool:
    """Whether all that a run depends on beside these names is as it was."""
    if (
        after.refusal
        or after.unclear
        or [one.is_exec for one in before.starts] != [one.is_exec for one in after.starts]
    ):
        return False
    if [tag for tag, _ in before.asked] != [tag for tag, _ in after.asked]:
        return False
    old, new = before.exported(), after.exported()
    for other in {*old, *new} - set(names):
        left, right = old.get(other), new.get(other)
        if left is None or right is None or left[:3] != right[:3]:
            return False
        if before.guarded.get(other) != after.guarded.get(other):
            return False
    return True

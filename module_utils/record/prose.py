# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What people wrote about knobs, against the record.

A paragraph (a list item, a row of a table) that names a knob of the record needs a reference ``[evidence:ID]`` to an entry about it.
It is stale when something moved the knob's value or verdict after the newest entry that it refers to; and what it says must be what
those entries have: figures in percent, values, and no more blame than the record's verdict bears. Reading sentences by their words
is rough, so it errs towards asking a person; the references do the rest. ``[history:ID]`` instead says that what is told was so
then: such prose is never stale, but it must still have the entry's figures, and may still not blame what the record clears.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Optional

from ..pdops_error import PdopsError
from .fold import Folded
from .folder import Kept, find
from .standing import Knob, Standing, shown

REFERENCE = re.compile(r"\[(evidence|history):\s*([0-9a-fA-F]{1,16})\]")
_PERCENT = re.compile(r"(?<![\w.])([+\-−–±]?)\s?(\d+(?:\.\d+)?)\s?%")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s")
_HEADING = re.compile(r"#{1,6}\s")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}(?=[^`]*\Z)|~{3,})(?P<info>.*)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n(?=\s*[-*#|])")
_BLAME = re.compile(
    r"\b(?:caus(?:e[sd]?|ing)|culprit|to blame|blamed?|blames|at fault|responsible for|trigger(?:s|ed)?|provok\w+|"
    r"deadlock(?:s|ed|ing)?|hangs?|hung|wedge[sd]?|stalls?|unsafe|harmful|buggy|guilty|convicted)\b",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:do not|don't|must not|never|should not) (?:use|set|enable|restore|re-?enable)\b|"
    r"\b(?:keep|leave) (?:\S+ ){0,2}(?:off|unset|out)\b|\bstays? (?:off|unset|out)\b",
    re.IGNORECASE,
)
_CLEARS = re.compile(
    r"\b(?:not|never|no|nor|without|exonerat\w+|cleared|innocent|wrongly|falsely|mistaken\w*|instead|proxy|unrelated)\b|n't\b",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:suspect\w*|suspicion|may|might|could|possibl[ey]|perhaps|hypothes\w+|believed?|assum\w+|open question)\b",
    re.IGNORECASE,
)
_ANAPHOR = re.compile(r"\b(?:it|this knob|the knob|that knob|this setting|the setting)\b", re.IGNORECASE)


class Line(NamedTuple):
    """A line of a document with its number, counted from 1."""

    number: int
    text: str


class Finding(NamedTuple):
    line: int
    said: str


class Reference(NamedTuple):
    """``history`` is ``[history:ID]``: what is told was so then, and is not stale because things moved on."""

    kept: Kept
    history: bool


@dataclass
class Unit:
    """A paragraph, list item, table row, heading or block of code; ``borrowed`` is the text before a block of code."""

    lines: list[Line] = field(default_factory=list)
    heading: bool = False
    code: bool = False
    borrowed: str = ""

    @cached_property
    def text(self) -> str:
        """Read when the unit is whole."""
        return "\n".join(line.text for line in self.lines)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(line.text) + 1 for line in self.lines))

    def line_at(self, offset: int) -> int:
        """The number of the line in which a place of ``text`` is."""
        return self.lines[min(bisect_right(self._ends, offset), len(self.lines) - 1)].number


def fenced(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open behind a line, and whether the line belongs to one; ``fence`` is what is open before it.

    By CommonMark 0.31, section 4.5: the closing fence is of the same sign, at least as long, and nothing stands behind it.
    """
    found = _FENCE.match(line)
    if not fence:
        return (found["fence"], True) if found else ("", False)
    closes = found and found["fence"][0] == fence[0] and len(found["fence"]) >= len(fence) and not found["info"].strip()
    return ("" if closes else fence), True


def units_of(lines: Iterable[Line]) -> Iterator[Unit]:
    """Cut a document into what is judged by itself."""
    unit, fence = Unit(), ""
    before = ""
    for number, raw in lines:
        text = raw.rstrip("\r\n")
        was = fence
        fence, _inside = fenced(text, fence)
        if was:
            unit.lines.append(Line(number, text))
            if not fence:
                yield unit
                unit = Unit()
            continue
        opened = bool(fence)
        row = text.lstrip().startswith("|")
        if not text.strip() or opened or row or _HEADING.match(text) or _ITEM.match(text):
            if unit.lines:
                before = unit.text
                yield unit
            unit = Unit()
        if opened:
            unit = Unit([Line(number, text)], code=True, borrowed=before)
        elif text.strip():
            unit.lines.append(Line(number, text))
            unit.heading = bool(_HEADING.match(text))
            if row or unit.heading:
                before = unit.text
                yield unit
                unit = Unit()
    if unit.lines:
        yield unit


def findings_of(lines: Iterable[Line], folded: Folded) -> list[Finding]:
    """Lines that a person has to reword, with why."""
    if not folded.knobs:
        return []
    names = re.compile(
        r"(?<![A-Za-z0-9_])(?:"
        + "|".join(sorted(map(re.escape, folded.knobs), key=len, reverse=True))
        + r")(?![A-Za-z0-9_])"
    )
    order = {kept.id: at for at, kept in enumerate(folded.entries)}
    found: list[Finding] = []
    for unit in units_of(lines):
        named = list(names.finditer(unit.text))
        refs, bad = _references(unit, folded)
        found += bad
        for name in dict.fromkeys(match[0] for match in named):
            places = [match.start() for match in named if match[0] == name]
            found += _judge(unit, folded.knobs[name], places, refs, order, len({match[0] for match in named}) == 1)
    return list(dict.fromkeys(found))


def _references(unit: Unit, folded: Folded) -> tuple[list[Reference], list[Finding]]:
    refs: list[Reference] = []
    bad: list[Finding] = []
    for text, own in ((unit.text, True), (unit.borrowed, False)):
        for match in REFERENCE.finditer(text):
            try:
                kept = find(folded.entries, match[2])
            except PdopsError as error:
                bad += [Finding(unit.line_at(match.start()), str(error).rstrip("."))] if own else []
                continue
            if kept.id in folded.corrected:
                said = f"refers to {kept.kind} {kept.id}, which {folded.corrected[kept.id]} corrects"
                bad += [Finding(unit.line_at(match.start()), said)] if own else []
                continue
            refs.append(Reference(kept, match[1] == "history"))
    return refs, bad


def _judge(
    unit: Unit, knob: Knob, places: list[int], refs: list[Reference], order: Mapping[str, int], alone: bool
) -> list[Finding]:
    said = list(_claims(unit, knob, places))
    mine = [ref for ref in refs if ref.kept.data.get("knob") == knob.name]
    own = [ref.kept for ref in mine]
    if unit.heading and not said and not _PERCENT.search(unit.text) and f"{knob.name}=" not in unit.text:
        return []  # a heading that only names what follows
    first = unit.line_at(places[0])
    newest = knob.moves[-1] if knob.moves else None
    if not own:
        hint = f"; the newest is [evidence:{newest.id}] ({newest.kind} of {newest.at[:10]})" if newest else ""
        numbers = dict.fromkeys(unit.line_at(place) for place in places)
        return [
            *(Finding(number, f"names {knob.name} without a reference to an entry{hint}") for number in numbers),
            *said,
        ]
    latest = max(order[kept.id] for kept in own)
    history = all(ref.history for ref in mine)
    since = [] if history else [kept for kept in knob.moves if order[kept.id] > latest]
    if since:
        told = ", ".join(f"{kept.kind} {kept.id} of {kept.at[:10]}" for kept in since)
        said.insert(0, Finding(first, f"{knob.name} moved since what this refers to: {told}; now {_now(knob)}"))
    said += _values(unit, knob, own)
    if alone:
        said += _figures(unit, own)
    return said


def _now(knob: Knob) -> str:
    deployed = sorted({shown(value) for value in knob.deployed.values()})
    return f"{' and '.join(deployed) or 'not deployed'}, verdict {knob.verdict}"


def _claims(unit: Unit, knob: Knob, places: list[int]) -> Iterator[Finding]:
    """Sentences about the knob that blame it more than the record does, or forbid what the record has adopted."""
    if unit.code:
        return
    # Blanks for references, so that places stay and no word of an id counts.
    text, begin = REFERENCE.sub(lambda match: " " * len(match[0]), unit.text), 0
    about = False
    for sentence in _SENTENCE.split(text):
        start = text.index(sentence, begin)
        begin = start + len(sentence)
        named = bisect_left(places, start) < bisect_left(places, begin)
        about = named or (about and _ANAPHOR.search(sentence) is not None)
        if not about:
            continue
        one = _named_in(sentence, knob)
        forbids = _FORBIDS.search(sentence)
        if forbids and one.verdict in ("adopted", "exonerated"):
            yield Finding(
                unit.line_at(start + forbids.start()),
                f"speaks against {knob.name}, and the record says {one.told}",
            )
            continue
        blame = _BLAME.search(sentence)
        if not blame or _CLEARS.search(sentence) or one.verdict == "convicted":
            continue
        if one.verdict == "suspected" and _HEDGES.search(sentence):
            continue
        if one.verdict == "suspected":
            words = f"blames {knob.name} as if it were proved, and the record only suspects it"
        else:
            words = f"blames {knob.name}, and the record says {one.told}"
        yield Finding(unit.line_at(start + blame.start()), words)


def _named_in(sentence: str, knob: Knob) -> Standing:
    """What the record says of the value that a sentence names (the one that it blames most), else of the one in question."""
    named = [one for value, one in knob.standings.items() if value and _names_value(sentence, value)]
    return max(named, key=lambda one: _BLAMED.get(one.verdict, 0), default=knob.standing(knob.value))


def _names_value(sentence: str, value: str) -> bool:
    """A figure of one sign may count anything, so that it must stand behind ``=``."""
    before = "=" if len(value) < 2 else r"(?<![\w.])"
    return re.search(before + re.escape(value) + r"(?![\w.]*\w)", sentence) is not None


_BLAMED = {"convicted": 2, "suspected": 1}


def _values(unit: Unit, knob: Knob, refs: list[Kept]) -> Iterator[Finding]:
    known = {
        str(kept.data[name])
        for kept in refs
        for name in ("before", "after", "value")
        if kept.data.get(name) is not None
    }
    if not known:
        return
    for match in re.finditer(re.escape(knob.name) + r"\s?=\s?[\"']?([^\s\"'`*,;:)\]]+)", unit.text):
        value = match[1].rstrip(".")
        if value not in known:
            words = f"says {knob.name}={value}, and the entries that it refers to have {', '.join(sorted(known))}"
            yield Finding(unit.line_at(match.start()), words)


def _figures(unit: Unit, refs: list[Kept]) -> Iterator[Finding]:
    known = list(_known_figures(refs))
    for match in _PERCENT.finditer(unit.text):
        value = float(match[2])
        sign = -1 if match[1] in ("-", "−", "–") else 1 if match[1] == "+" else 0
        if any(abs(abs(one) - value) < 1e-9 and (sign == 0 or one == 0 or (one > 0) == (sign > 0)) for one in known):
            continue
        told = ", ".join(f"{one:+g}" for one in dict.fromkeys(known)) or "none"
        yield Finding(
            unit.line_at(match.start()),
            f"says {match[0].strip()}, and the figures of the entries that it refers to are: {told}",
        )


def _known_figures(refs: Iterable[Kept]) -> Iterator[float]:
    rows: list[Mapping[str, Any]] = []
    for kept in refs:
        rows += [kept.data, *kept.data.get("forgoing", [])]
    for row in rows:
        for name in ("effect_pct", "low_pct", "high_pct", "cv_pct"):
            if name in row:
                yield float(row[name])
        level: Optional[float] = row.get("level")
        if level is not None:
            yield level * 100

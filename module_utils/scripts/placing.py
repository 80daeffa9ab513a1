# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where a new export goes, and what is taken away when one is removed.

Everything here only proposes; the editor reads each proposal again and takes the first that is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .analysis import Analysis
from .nodes import Simple
from .quoting import written
from .state import Place

_INDENTATION = re.compile(r"[ \t]*")
_SEPARATOR = re.compile(r"[ \t]*;[ \t]*")
_SEPARATOR_BEFORE = re.compile(r"[ \t]*;[ \t]*\Z")
REST_OF_LINE = re.compile(r"[ \t]*;?[ \t]*(?:#[^\n]*)?\r?(?=\n|\Z)")
_MOST_RELATIVES = 4


class Edit(NamedTuple):
    """Replace the text from ``start`` to ``end``."""

    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


def new_exports(analysis: Analysis, name: str, value: str) -> Iterator[Edit]:
    """The places for a new export that nothing behind them can change again."""
    least = analysis.unclear[0] if analysis.unclear else 0
    return (edit for edit in _new_exports(analysis, name, value) if edit.start >= least)


def _new_exports(analysis: Analysis, name: str, value: str) -> Iterator[Edit]:
    """One more line that exports the name: the best place first.

    Right behind a commented-out export of this very name; else behind the nearest relative, which is the last of
    the active exports that share most parts of the name (``SGLANG_SM120_...``); else before the engine's start.
    """
    text = analysis.text
    limit = max((start.offset for start in analysis.starts), default=len(text))
    for place in reversed(analysis.places):
        if place.commented and place.name == name and place.start < limit:
            yield line_after(text, place.end, name, value)
            break
    relatives = [
        place
        for place in analysis.places
        if place.form in ("export", "declare") and place.value_start >= 0 and analysis.state(place) == "active"
    ]
    relatives.sort(key=lambda place: (-_shared(place.name, name), -place.start))
    for place in relatives[:_MOST_RELATIVES]:
        statement = place.statement
        if statement is not None:
            yield line_after(text, statement.end, name, value)
    for offset in sorted({start.outer[0] for start in analysis.starts}):
        yield _with_line_before(analysis, offset, name, value)
    for start in analysis.starts[-1:]:
        yield _with_line_before(analysis, start.offset, name, value)
    if not analysis.starts:
        yield line_after(text, len(text), name, value)


def _shared(one: str, other: str) -> int:
    """How many leading parts two names share: SGLANG_SM120_A and SGLANG_SM120_B share two."""
    count = 0
    for left, right in zip(one.split("_"), other.split("_")):
        if left != right or not left:
            break
        count += 1
    return count


def _line(indentation: str, name: str, value: str, carriage_return: bool) -> str:
    """One export line without its line feed. In a CRLF file a comment keeps the carriage return out of the value."""
    if not carriage_return:
        return f"{indentation}export {name}={written(value)}"
    if value.endswith("\r"):
        return f"{indentation}export {name}={written(value[:-1])}\r"
    return f"{indentation}export {name}={written(value)} #\r"


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _indentation(text: str, line_start: int) -> str:
    match = _INDENTATION.match(text, line_start)
    return match.group() if match else ""


def line_after(text: str, offset: int, name: str, value: str) -> Edit:
    """One more line that exports the name, behind the line of ``offset``."""
    start = _line_start(text, offset)
    # the line may belong to a statement that began above: its first line tells the indentation
    while start > 1 and text[start - 2] == "\\":
        start = _line_start(text, start - 1)
    indentation = _indentation(text, start)
    end = text.find("\n", offset)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("\n", end + 1)  # what is put behind this would be joined to it
    if end < 0:
        before = "" if not text or text.endswith("\n") else "\n"
        size = len(text)
        return Edit(size, size, before + _line(indentation, name, value, False) + ("" if before else "\n"))
    line = _line(indentation, name, value, text[end - 1 : end] == "\r")
    return Edit(end + 1, end + 1, line + "\n")


def _with_line_before(analysis: Analysis, offset: int, name: str, value: str) -> Edit:
    """Before the line of a statement, and before the comment lines that belong to it."""
    text = analysis.text
    start = _line_start(text, offset)
    alone = {_line_start(text, comment.start): comment for comment in analysis.comments if comment.alone}
    while start > 0:
        above = _line_start(text, start - 1)
        if above not in alone or text.startswith("#!", above):
            break
        if text[above - 2 : above] == "\\\n" and _line_start(text, above - 1) not in alone:
            break  # the comment ends a continued line: nothing may come between
        start = above
    end = text.find("\n", start)
    line = _line(_indentation(text, start), name, value, end > 0 and text[end - 1] == "\r")
    return Edit(start, start, line + "\n")


def with_value(text: str, place: Place, value: str) -> Edit:
    """Another value at a place."""
    if place.value_start < 0:
        return Edit(place.end, place.end, f"={written(value)}")
    if place.name_end == place.start:  # export "NAME=value"
        return Edit(place.start, place.end, f"{place.name}={written(value)}")
    end = place.end
    before = text[place.value_start : end]
    start = place.value_start
    operator = ""
    if text.startswith("+=", place.name_end):
        start, operator = place.name_end, "="
    behind = ""
    if before.endswith("\r") and text[end : end + 1] in ("\n", ""):
        # the carriage return of a CRLF file is part of the old value, and stays as the line's end
        end -= 1
        before = before[:-1]
        if value.endswith("\r"):
            value = value[:-1]
        else:
            behind = " #"
    return Edit(start, end, operator + written(value, before) + behind)


def without(text: str, place: Place) -> Iterator[Edit]:
    """Ways to take one place away: with its line when it is alone on it."""
    command, statement = place.command, place.statement
    if command is None or statement is None:
        return
    words = sorted((*command.assigns, *command.words), key=lambda word: word.start)
    index = [word.start for word in words].index(place.start)
    if not is_alone(command, place):
        word = words[index]
        if any(word.start > redirect.start > words[index - 1].end for redirect in command.redirects):
            yield Edit(word.start, _behind_blanks(text, word.end), "")
        elif index > 0:
            yield Edit(words[index - 1].end, word.end, "")
        else:
            yield Edit(word.start, words[1].start, "")
        return
    if command.redirects:
        return
    if statement.only() is command:
        yield from without_statement(text, statement.start, statement.end)
    elif statement.operators[:1] == ["&&"] and statement.pipelines[0].commands == [command]:
        yield Edit(command.start, statement.pipelines[1].commands[0].start, "")
    yield Edit(command.start, command.end, ":")


def is_alone(command: Simple, place: Place) -> bool:
    """Whether the command is nothing but this one assignment or export."""
    if not command.words:
        return len(command.assigns) == 1
    if command.assigns or place.form in ("prefix", "env"):
        return False
    words = command.words
    while len(words) > 1 and words[0].raw in ("builtin", "command", "-p", "--"):
        words = words[1:]
    arguments = [word for word in words[1:] if word.raw[:1] not in ("-", "+")]
    return [word.start for word in arguments] == [place.start]


def without_statement(text: str, start: int, end: int) -> Iterator[Edit]:
    """Take a statement away: its whole lines with the comment behind it, or it and one separator."""
    line_start = _line_start(text, start)
    rest = REST_OF_LINE.match(text, end)
    before = text[line_start:start]
    if rest and not before.strip(" \t"):
        if rest.end() < len(text):
            yield Edit(line_start, rest.end() + 1, "")
        else:
            yield Edit(max(0, line_start - 1), len(text), "")
        return
    separator = _SEPARATOR.match(text, end)
    if separator and not rest:
        yield Edit(start, separator.end(), "")
        return
    earlier = _SEPARATOR_BEFORE.search(before)
    if earlier:
        yield Edit(line_start + earlier.start(), end, "")


def _behind_blanks(text: str, offset: int) -> int:
    while text[offset : offset + 1] in (" ", "\t"):
        offset += 1
    return offset

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How far a value reaches that begins at a place of a text, in the quotes of shells, JSON, YAML and Python.

Everything here is linear in the text, however long one line is: no scan starts anew at a line's begin.
"""

from __future__ import annotations

import re
from typing import Optional

Span = tuple[int, int]

# A name of a variable tells nothing, nor does ${X:-}, ${X:-$Y} or ${X:+set}.
_PLAIN = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#])"
_REFERENCE = re.compile(
    rf"{_PLAIN}|\$\{{[A-Za-z_][A-Za-z0-9_]*(?::?[-=](?:{_PLAIN}|\$\{{[A-Za-z_][A-Za-z0-9_]*:?-\}})?"
    r"|:?\+(?:set|yes|present|1)?|:?\?[^{}$\n]*)\}"
)
# Nor does whether there is one.
_NOTHING = re.compile(r"(?:None|null|nil|[Tt]rue|[Ff]alse|not set|unset|missing|required)(?=[\s,;)}\]'\"\\]|\Z)")
_BARE = re.compile(r"[^\s\\'\"$`;&|<>(),}\]]+")
_SIMPLE = re.compile(r"[^\s\\'\"$`;&|<>(),}\]]+(?=[ \t\r\n]|\Z)")
_ENDS = " \t\r\n;&|<>()"
_AFTER_WORD = _ENDS + ",]}'\""  # and the empty text at the end
_ESCAPED_QUOTE = re.compile(r"(\\+)([\"'])")
_MARKS = re.compile(r"[\\'\"#\n]")
# A quote that closes beyond this many characters was not opened by the value.
_LONGEST = 16_384


class OpenQuotes:
    """Which quote is open at a place, judged by its own line alone; '' in a comment or outside.

    Asked for places in rising order, so that the text is gone through once.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks = _MARKS.finditer(text)
        self._next = next(self._marks, None)
        self._skip = 0
        self._quote = ""
        self._comment = False

    def at(self, place: int) -> str:
        while self._next is not None and self._next.start() < place:
            self._take(self._next.start())
            self._next = next(self._marks, None)
        return "" if self._comment else self._quote

    def _take(self, at: int) -> None:
        char = self._text[at]
        if char == "\n":
            self._quote, self._comment = "", False
        elif self._comment or at < self._skip:
            return
        elif char == "\\":
            if self._quote != "'":
                self._skip = at + 2
        elif self._quote:
            if char == self._quote:
                self._quote = ""
        elif char != "#":
            self._quote = char
        elif at == 0 or self._text[at - 1] in " \t;\n":
            self._comment = True


class Values:
    """Finds the characters of values in one text, without the quotes around them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.quotes = OpenQuotes(text)

    def read(
        self, start: int, name_start: int, shut: str = "", in_data: bool = False, whole: bool = False
    ) -> list[Span]:
        """The spans of the value at ``start``.

        :param name_start: where its name begins, since the quote that is open there may end the value
        :param shut: what closes the name, as ``"`` in ``"api_key": ...``
        :param in_data: it ends at a comma or bracket, as in JSON, and at the end of its first quotes
        :param whole: it goes on to the end of the quote that is open at its name, over blanks
        """
        text = self.text
        if _NOTHING.match(text, start):
            return []
        while text[name_start - 1 : name_start] == "-":
            name_start -= 1
        opener = self.quotes.at(name_start)
        if not opener:
            simple = _SIMPLE.match(text, start)
            if simple:
                return [simple.span()]
        before = text[name_start - 1 : name_start]
        escaped = text[name_start - 2 : name_start - 1] == "\\"
        if opener and opener in shut and not shut.startswith("\\"):
            opener = ""
        elif opener and before == opener and not escaped and not in_data:
            whole = True
        if text[start : start + 1] in ("'", '"') or not opener:
            whole = False
        return _Reading(self, opener, in_data, whole).read(start)

    def param(self, start: int) -> list[Span]:
        """The value in ``${NAME:-value}``, which begins at ``start``."""
        text = self.text
        depth, end = 1, min(len(text), start + _LONGEST)
        for found in _BRACES.finditer(text, start, end):
            depth += {"}": -1, "{": 1}.get(found.group(), 0)
            if not depth or found.group() == "\n":
                end = found.start()
                break
        if text[start : start + 1] in ("'", '"') and text[end - 1 : end] == text[start] and end - start > 1:
            start, end = start + 1, end - 1
        if start >= end or _REFERENCE.fullmatch(text, start, end):
            return []
        return [(start, end)]

    def array(self, start: int, closer: str = ")") -> list[Span]:
        """The values in ``NAME=(a 'b c')`` or ``"NAME": ["a", "b"]``; ``start`` is behind the bracket."""
        spans: list[Span] = []
        at = start
        while True:
            at = _past(_BLANKS if closer == ")" else _COMMAS, self.text, at)
            if self.text[at : at + 1] in ("", closer):
                return spans
            found = _Reading(self, "", closer == "]", False)
            spans += found.read(at)
            if found.end <= at:
                return spans
            at = found.end

    def words(self, start: int, opener: str) -> list[Span]:
        """Every word of a command from ``start`` on that is no format of printf."""
        spans: list[Span] = []
        at = start
        while True:
            at = _past(_LINE_BLANKS, self.text, at)
            at = _past(_FORMAT, self.text, at)
            at = _past(_LINE_BLANKS, self.text, at)
            found = _Reading(self, opener, False, False)
            spans += found.read(at)
            if found.end <= at:
                return spans
            at = found.end

    def block(self, start: int) -> list[Span]:
        """The lines of a YAML block scalar; ``start`` is behind its ``|``, and they are indented more than its key."""
        text = self.text
        key_line = text.rfind("\n", max(0, start - 400), start) + 1
        indent = len(text[key_line:start]) - len(text[key_line:start].lstrip(" -+"))
        line_end = text.find("\n", start)
        if line_end < 0:
            return []
        at = end = line_end + 1
        while at < len(text):
            stop = text.find("\n", at)
            stop = len(text) if stop < 0 else stop
            line = text[at:stop]
            if line.strip(" \t+-") and len(line) - len(line.lstrip(" +-")) <= indent:
                break
            end = stop if line.strip(" \t+-") else end
            at = stop + 1
        return [(line_end + 1, end)] if end > line_end + 1 else []

    def closing(self, at: int, opener: str) -> Optional[int]:
        """The quote that closes the one at ``at``; None when the enclosing quote comes first, or none at all."""
        text = self.text
        quote = text[at]
        escapes = quote == '"' or text[at - 1 : at] == "$"
        pattern = _inside(quote, opener, escapes)
        found = pattern.match(text, at + 1, at + _LONGEST)
        end = found.end() if found else at
        return end if text[end : end + 1] == quote else None


_BRACES = re.compile(r"\\.|[{}]|\n", re.DOTALL)
_BLANKS = re.compile(r"\s*")
_COMMAS = re.compile(r"[\s,]*")
_LINE_BLANKS = re.compile(r"(?:[ \t]|\\\r?\n)*")
_FORMAT = re.compile(r"(?:(?:'%[a-z](?:\\n)?'|\"%[a-z](?:\\n)?\"|%[a-z])(?=[ \t\\])|--(?=[ \t]))?")
_INSIDE: dict[tuple[str, str, bool], re.Pattern[str]] = {}


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _inside(quote: str, opener: str, escapes: bool) -> re.Pattern[str]:
    key = (quote, opener, escapes)
    if key not in _INSIDE:
        stops = quote + opener
        _INSIDE[key] = re.compile(rf"[^\\{stops}]*(?:\\.[^\\{stops}]*)*\\?" if escapes else rf"[^{stops}]*", re.DOTALL)
    return _INSIDE[key]


class _Reading:
    """One value."""

    def __init__(self, values: Values, opener: str, in_data: bool, whole: bool) -> None:
        self.values = values
        self.text = values.text
        self.opener = opener
        self.in_data = in_data
        self.whole = whole
        self.spans: list[Span] = []
        self.end = 0

    def read(self, start: int) -> list[Span]:
        text = self.text
        at = start
        while at < len(text):
            char = text[at]
            if char == self.opener or (self.opener and char == "\n"):
                break
            if char in "'\"":
                after = self._quoted(at, start)
                if self.in_data and after != at + 1:
                    at = after
                    break
                at = after
            elif char == "\\":
                run = _ESCAPED_QUOTE.match(text, at)
                if run and not self.whole and (at == start or run.group(2) == self.opener or self.in_data):
                    if at > start and self.in_data:
                        break  # the end of a text that holds the data: \"api_key: X\"
                    at = self._escaped(run)
                    if self.in_data:
                        break
                elif text[at + 1 : at + 2] in ("\n", "\r"):
                    at += 2
                else:
                    self._keep(at, min(at + 2, len(text)))
                    at += 2
            elif char == "$" and not self.opener and text[at + 1 : at + 2] in ("'", '"'):
                at += 1
            elif char in "$`" and self.opener != "'":
                end = _expansion_end(text, at)
                self._keep(at, end)
                at = end
            elif not self.whole and self._ends(at):
                break
            elif char in _ENDS or char in ",}]":
                self._keep(at, at + 1)
                at += 1
            else:
                bare = _BARE.match(text, at)
                end = bare.end() if bare else at + 1
                self._keep(at, end)
                at = end
        self.end = at
        return self.spans

    def _ends(self, at: int) -> bool:
        char = self.text[at]
        if char in _ENDS:
            return True
        if char == "," and (self.text[at + 1 : at + 2] in " \t\n" or at + 1 == len(self.text)):
            return True
        return self.in_data and char in ",}]"

    def _quoted(self, at: int, start: int) -> int:
        """Take what is in quotes; returns where to read on."""
        text = self.text
        closing = self.values.closing(at, self.opener)
        if closing is None:
            if at > start and (self.opener or text[at + 1 : at + 2] in _AFTER_WORD):
                return at + 1  # a quote that was opened on an earlier line ends here
            # It closes beyond what is shown: the rest of the line is the value.
            rest = re.compile(rf"[^\n{self.opener}]*").match(text, at + 1)
            end = rest.end() if rest else at + 1
            self._keep(at + 1, end)
            return end
        if at > start and text.find("\n", at, closing) >= 0:
            return at + 1
        self._keep(at + 1, closing)
        return closing + 1

    def _escaped(self, run: re.Match[str]) -> int:
        r"""Take what is in quotes such as ``\"``, however often they are escaped."""
        text = self.text
        begin = run.end()
        line_end = text.find("\n", begin, begin + _LONGEST)
        limit = line_end if line_end >= 0 else min(len(text), begin + _LONGEST)
        at = begin
        while True:
            quote = text.find(run.group(2), at, limit)
            if quote < 0:
                self._keep(begin, limit)
                return limit
            slashes = 0
            while slashes < quote - begin and text[quote - slashes - 1] == "\\":
                slashes += 1
            if slashes <= len(run.group(1)):
                self._keep(begin, quote - slashes)
                return quote + 1
            at = quote + 1

    def _keep(self, start: int, end: int) -> None:
        """Take a piece for the value, unless it only names a variable."""
        if start >= end or _REFERENCE.fullmatch(self.text, start, end):
            return
        if self.spans and self.spans[-1][1] == start:
            self.spans[-1] = (self.spans[-1][0], end)
        else:
            self.spans.append((start, end))


_NESTED = {"{": re.compile(r"[{}\n]"), "(": re.compile(r"[()\n]")}


def _expansion_end(text: str, at: int) -> int:
    """The end of ``$NAME``, ``${...}``, ``$(...)`` or backticks, on one line."""
    reference = _REFERENCE.match(text, at)
    if reference:
        return reference.end()
    line_end = text.find("\n", at, at + _LONGEST)
    limit = line_end if line_end >= 0 else min(len(text), at + _LONGEST)
    if text[at] == "`":
        end = text.find("`", at + 1, limit)
        return limit if end < 0 else end + 1
    opener = text[at + 1 : at + 2]
    if opener not in _NESTED:
        return at + 1
    depth = 0
    for found in _NESTED[opener].finditer(text, at + 1, limit):
        depth += 1 if found.group() == opener else -1
        if depth == 0:
            return found.end()
    return limit

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What lies between the words of a script: blanks, line ends, comments, here-documents."""

from __future__ import annotations

import re
from typing import Optional

from .nodes import Comment, Trouble

_BLANKS = re.compile(r"(?:[ \t]+|\\\n)*")
_BLANK = (" ", "\t", "\\")
_SETTING = re.compile(r"\$\{[A-Za-z_]\w*:?=|\$\(\([^)]*(?:\+\+|--|[^=!<>]=[^=])")
_BETWEEN = ("\n", " ", "\t", "#", "\\", "")
_SPACES = re.compile(r"(?:[ \t\n]+|\\\n)*")
_DEEPEST = 50


class Layout:
    """One text, and what was met between its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = len(text)
        self.depth = 0
        self.comments: list[Comment] = []
        self.trouble: Optional[Trouble] = None
        self.open_ended = False  # a here-document without its end
        self.pending: list[tuple[str, bool, bool]] = []  # here-documents: delimiter, strip tabs, quoted

    def blanks(self, at: int) -> int:
        if self.text[at : at + 1] not in _BLANK:
            return at
        match = _BLANKS.match(self.text, at)
        return match.end() if match else at

    def newline(self, at: int) -> int:
        """Behind the line end at ``at``, and behind the here-documents that begin there."""
        at += 1
        if self.pending:
            pending, self.pending = self.pending, []
            for delimiter, strip, quoted in pending:
                at = self._document(at, delimiter, strip, quoted)
        return at

    def _document(self, at: int, delimiter: str, strip: bool, quoted: bool) -> int:
        text = self.text
        start = at
        while at < self.size:
            end = text.find("\n", at)
            end = self.size if end < 0 else end
            if not quoted:
                # an escaped line end joins the lines, so that the next one is no delimiter
                while end < self.size and _ends_escaped(text, at, end):
                    further = text.find("\n", end + 1)
                    end = self.size if further < 0 else further
            line = text[at:end]
            if not quoted:
                line = line.replace("\\\n", "")
            if (line.lstrip("\t") if strip else line) == delimiter:
                if not quoted:
                    self._harmless(start, at)
                return min(end + 1, self.size)
            at = end + 1
        self.open_ended = True
        return self.size

    def _harmless(self, start: int, end: int) -> None:
        sets = _SETTING.search(self.text, start, end)
        if sets:
            raise Trouble(sets.start(), "a here-document that sets a variable is not understood")

    def _comment(self, at: int) -> int:
        end = self.text.find("\n", at)
        end = self.size if end < 0 else end
        alone = at == 0 or self.text[at - 1] == "\n"
        if not alone:
            line_start = self.text.rfind("\n", 0, at) + 1
            alone = not self.text[line_start:at].strip(" \t")
        self.comments.append(Comment(at, end, alone, self.depth))
        return end

    def space(self, at: int) -> int:
        """Behind blanks, line ends and comments."""
        text = self.text
        if text[at : at + 1] not in _BETWEEN:
            return at
        while True:
            spaces = (_BLANKS if self.pending else _SPACES).match(text, at)
            if spaces:
                at = spaces.end()
            char = text[at : at + 1]
            if char == "#":
                at = self._comment(at)
            elif char == "\n":
                at = self.newline(at)
            else:
                return at

    def enter(self, at: int) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Trouble(at, "the script is nested too deeply")


def _ends_escaped(text: str, start: int, end: int) -> bool:
    count = 0
    while end - count > start and text[end - count - 1] == "\\":
        count += 1
    return count % 2 == 1

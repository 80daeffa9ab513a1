# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Files that ``EnvironmentFile=`` names, by systemd's rules (systemd.exec(5); tried on systemd 252 and 257).

They look like shell and are not: nothing is expanded, ``export`` makes a line void, a quote within a bare value is
a plain character, and there are no comments behind values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Tuple

from .places import NAME

_LINE_ENDS = "\n\r"
_BLANKS = " \t\n\r"
_ESCAPED_IN_DOUBLE = '"\\`$'

#: From this version on, a backslash at the end of a comment does not continue the comment (systemd#27975).
COMMENTS_END_SINCE = 254


@dataclass(frozen=True)
class Assigned:
    name: str
    value: str
    line: int  # 1-based, where the name stands


@dataclass(frozen=True)
class EnvFile:
    """:ivar void: lines that systemd passes over although they look like assignments, each with what stands before ``=``
    :ivar error: why systemd refuses the whole file; empty when it does not"""

    assigned: Tuple[Assigned, ...]
    void: Tuple[Tuple[int, str], ...] = ()
    error: str = ""


class _Scanner:
    def __init__(self, text: str, comments_continue: bool) -> None:
        self.text = text
        self.at = 0
        self.comments_continue = comments_continue
        self.found: List[Tuple[int, str, str]] = []  # offset of the name, name, value

    def run(self) -> List[Tuple[int, str, str]]:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _BLANKS:
                self.at += 1
            elif char in "#;":
                self._comment()
            else:
                self._assignment()
        return self.found

    def _comment(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "\\" and self.at < len(self.text):
                ends = self.text[self.at] in _LINE_ENDS and not self.comments_continue
                self.at += 1
                if ends:
                    return
            elif char in _LINE_ENDS:
                return

    def _assignment(self) -> None:
        start = self.at
        self.at += 1  # whatever it is, also "=": it belongs to the name
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char in _LINE_ENDS:
                return
            if char == "=":
                name = self.text[start : self.at - 1].rstrip(_BLANKS)
                self.found.append((start, name, self._value()))
                return

    def _value(self) -> str:
        """Quoted pieces, then perhaps a bare rest up to the end of the line."""
        pieces: List[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in _LINE_ENDS:
                self.at += 1
                break
            if char == "'":
                pieces.append(self._single())
            elif char == '"':
                pieces.append(self._double())
            elif char in _BLANKS:
                self.at += 1
            else:
                pieces.append(self._bare())
                break
        return "".join(pieces)

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        piece = self.text[self.at + 1 : end]
        self.at = end + 1
        return piece

    def _double(self) -> str:
        piece = ""
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                break
            if char != "\\":
                piece += char
                continue
            if self.at >= len(self.text):
                break
            escaped = self.text[self.at]
            self.at += 1
            if escaped != "\n":
                piece += escaped if escaped in _ESCAPED_IN_DOUBLE else "\\" + escaped
        return piece

    def _bare(self) -> str:
        """Blanks at its end go, unless a backslash stands before them."""
        kept, piece = 0, ""
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char in _LINE_ENDS:
                break
            if char == "\\":
                if self.at < len(self.text):
                    if self.text[self.at] not in _LINE_ENDS:
                        piece += self.text[self.at]
                    self.at += 1
                kept = len(piece)
                continue
            piece += char
            if char not in _BLANKS:
                kept = len(piece)
        return piece[:kept]


def read_env_file(data: bytes, version: int = COMMENTS_END_SINCE) -> EnvFile:
    """The assignments of one file, in order; a name may come several times, and the last one counts.

    :arg version: of the systemd that reads it; before 254 a backslash at the end of a comment continues it.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return EnvFile((), error=f"line {line} is not UTF-8, and systemd refuses the whole file for that")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return EnvFile((), error=f"line {line} has a NUL byte, and systemd refuses the whole file for that")
    assigned, void = [], []
    for start, name, value in _Scanner(text, version < COMMENTS_END_SINCE).run():
        line = text.count("\n", 0, start) + 1
        if NAME.match(name):
            assigned.append(Assigned(name, value, line))
        else:
            void.append((line, name))
    return EnvFile(tuple(assigned), tuple(void))

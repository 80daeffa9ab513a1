# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The pieces a serve script is read into. All positions are offsets into the text.

The text is the file decoded as Latin-1, so that an offset is a byte offset whatever the encoding.
"""

from __future__ import annotations

from typing import Optional, Union


class Trouble(Exception):
    """Something that the grammar does not understand, with its place."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


class Word:
    """One word as written, quotes and all."""

    __slots__ = ("end", "raw", "start")

    def __init__(self, start: int, end: int, raw: str) -> None:
        self.start = start
        self.end = end
        self.raw = raw


class Simple:
    """Assignments, a command with its words, redirections: ``A=1 exec -a x python > log``."""

    __slots__ = ("assigns", "end", "export", "redirects", "start", "words")

    def __init__(self, start: int, end: int, assigns: list[Word], words: list[Word], redirects: list[Word]) -> None:
        self.start = start
        self.end = end
        self.assigns = assigns
        self.words = words
        self.redirects = redirects
        # name and value of an ``export NAME=value`` that means just what it says, as most do
        self.export: Optional[tuple[str, str]] = None


class Branch:
    """One way through a compound command: what is asked (or the pattern), then what runs."""

    __slots__ = ("body", "condition", "guard", "telling")

    def __init__(self, condition: list[Statement], guard: str, body: list[Statement], telling: bool = True) -> None:
        self.condition = condition
        self.guard = guard  # the source of what is asked
        self.body = body
        self.telling = telling  # whether the body can hold an export at all


class Compound:
    """``if``, ``while``, ``until``, ``for``, ``select``, ``case``, ``group``, ``subshell``, ``test``
    (``[[ ]]``), ``arithmetic`` (``(( ))``), ``coproc`` and ``function``."""

    __slots__ = ("branches", "covered", "end", "head", "kind", "name", "redirects", "start")

    def __init__(self, kind: str, start: int) -> None:
        self.kind = kind
        self.start = start
        self.end = start
        self.head = ""  # the word of a case, the words of a for, the text of a test
        self.name = ""  # the variable of a for, the name of a function
        self.branches: list[Branch] = []
        self.covered = False  # whether some branch is always taken (else, *)
        self.redirects: list[Word] = []


Command = Union[Simple, Compound]


class Pipeline:
    __slots__ = ("commands", "negated")

    def __init__(self, commands: list[Command], negated: bool) -> None:
        self.commands = commands
        self.negated = negated


class Statement:
    """An and-or list: pipelines joined by ``&&`` and ``||``, perhaps sent to the background."""

    __slots__ = ("background", "end", "guards", "operators", "pipelines", "simple", "start")

    def __init__(self, start: int, end: int, pipelines: list[Pipeline], operators: list[str]) -> None:
        self.start = start
        self.end = end  # without the separator behind it
        self.pipelines = pipelines
        self.operators = operators  # between the pipelines: one fewer than these
        self.guards: list[str] = []  # the source of the pipeline before each operator
        self.background = False
        self.simple: Optional[Simple] = None  # the command, when the statement is nothing but one simple one

    def only(self) -> Optional[Command]:
        """The command, when the statement is nothing but one."""
        if len(self.pipelines) == 1 and len(self.pipelines[0].commands) == 1 and not self.pipelines[0].negated:
            return self.pipelines[0].commands[0]
        return None


class Comment:
    __slots__ = ("alone", "depth", "end", "start")

    def __init__(self, start: int, end: int, alone: bool, depth: int) -> None:
        self.start = start
        self.end = end  # before the line end
        self.alone = alone  # nothing but blanks in front of it
        self.depth = depth  # how many compound commands it stands in

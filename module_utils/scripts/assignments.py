# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Assignments: the places where they stand, and what they do to the variables."""

from __future__ import annotations

import re
from typing import Optional

from .expansion import expand
from .nodes import Simple, Statement, Word
from .state import COMPUTED, Place, State, Value, Variable, concatenated, static, unknown

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?=)")
_NUMBER = re.compile(r"[0-9]+(?:[-+*][0-9]+)*\Z")
_HIDDEN = re.compile(r"\$\{([A-Za-z_]\w*):?=|\$\(\(.*?([A-Za-z_]\w*)[ \t]*(?:\+\+|--|[-+*/%&|^]?=(?!=))")
_DEFAULT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?=")


class Assignments:
    """What is known at one point of a script's run, and how an assignment changes it."""

    def __init__(self) -> None:
        self.state = State()
        self.places: dict[tuple[int, int], Place] = {}
        self.findings: list[tuple[int, str, str]] = []
        self.refusal: Optional[tuple[int, str]] = None  # why nothing in this script can be edited safely
        self.order = 0
        self.conditional = 0
        self.subshell = 0
        self.dead = False
        self.ended = False
        self.left = ""
        self.outer = (0, 0)
        self.frames: list[tuple[str, dict[str, Variable]]] = []  # functions on the way, with what their locals hide
        # from where on no name can be changed by a command that says only in a run which one it means, and its place
        self.unclear: Optional[tuple[int, int]] = None
        self.exits = 0  # how many ends of the script were met that start no engine
        self.returns = 0  # how often a function was left
        self.errexit = False  # whether a command that fails may end the script
        self.loops = 0
        self.allexport: Optional[bool] = False
        self.nounset = False
        self.aliases = False
        self.guessing = False  # no engine is recognized: whatever is run last is taken for it
        self.statement: Optional[Statement] = None
        self.command: Optional[Simple] = None

    def frame(self) -> Optional[tuple[str, dict[str, Variable]]]:  # Functions provides it
        raise NotImplementedError

    # -- findings

    def finding(self, offset: int, code: str, sentence: str) -> None:
        if (offset, code, sentence) not in self.findings:
            self.findings.append((offset, code, sentence))

    def refuse(self, offset: int, sentence: str) -> None:
        self.finding(offset, "not-understood", sentence)
        if self.refusal is None and not self.dead:
            self.refusal = (offset, sentence)

    def text_of(self, word: Word) -> Optional[str]:
        return static(expand(word.raw, self.state, assignment=False, braces=True))

    def defaults(self, word: Word) -> None:
        """The effect of ``${NAME:=value}`` in any word."""
        if _DEFAULT.search(word.raw):
            expand(word.raw, self.state, assignment=True, assign=lambda name, value: self._default(name, value, word))

    def hidden_defaults(self, source: str, start: int) -> None:
        """``${NAME:=value}`` and ``$((NAME=1))`` where no command's word is."""
        for match in _HIDDEN.finditer(source):
            name = match.group(1) or match.group(2)
            value = unknown("default", source, self.state.mentioned(source))
            self.fill(name, start, start + len(source), value, "default")

    def _default(self, name: str, value: Value, word: Word) -> None:
        self.fill(name, word.start, word.end, value, "default")

    # -- assignments

    def assign(self, word: Word, form: str, exported: Optional[bool], value: Optional[Value] = None) -> None:
        """``NAME=value`` as bash performs it; ``exported``: None leaves that as it is."""
        match = ASSIGNMENT.match(word.raw)
        if match is None:
            return
        name, subscript, operator = match.groups()
        place = self.place(name, word.start, word.end, word.start + match.end(2 if subscript else 1), match.end(), form)
        before = self.state.get(name)
        if value is None:
            value = self.value_of(word, match.end(), form)
        array = before.array
        if subscript or word.raw.startswith("(", match.end()):
            array = True
            place.element = True
        if operator == "+=":
            looked = self.state.look(name)
            old: Value = unknown("perhaps", looked.value) if looked.set is None else looked.value
            value = concatenated([old, value])
        if before.integer and not _NUMBER.match(static(value) or "x"):
            # bash gives up the whole command when this is no arithmetic
            self.refuse(word.start, f"{name} is declared as a number, and what is assigned here may be none.")
        if array or before.integer or name in COMPUTED:
            value = unknown("changed", name, value)
        self.note(place, value)
        if before.readonly is not False:
            self._protected(name, word, place, before, form, exported)
            return
        exporters = before.exporters
        if exported is None:
            exported = before.exported if before.exported or self.allexport is False else self.allexport
        elif exported:
            exporters = (*exporters, place)
        elif form == "declare" and self.allexport is not False:
            exported = self.allexport
        place.shown = exported is not False or place.shown
        self.state.put(
            name, Variable(value, True, exported, place, (), exporters, array, before.readonly, before.integer)
        )

    def _protected(
        self, name: str, word: Word, place: Place, before: Variable, form: str, exported: Optional[bool]
    ) -> None:
        """An assignment to a readonly name fails; ``export`` still exports it, ``declare`` does not."""
        sentence = f"{name} was made readonly before: this assignment fails."
        if form in ("export", "declare"):
            self.finding(word.start, "readonly", sentence)
        else:  # bash gives up the whole command then, whatever it is part of
            self.refuse(word.start, sentence)
        place.shown = place.shown or exported is True
        if form == "export" and exported:
            before = before._replace(exported=True, exporters=(*before.exporters, place))
        elif form == "export":
            before = before._replace(exported=False, exporters=())
        if before.readonly is None:
            place.conditional = True
            before = before._replace(value=unknown("readonly", before.value, place.value), maybe=(*before.maybe, place))
        self.state.put(name, before)

    def value_of(self, word: Word, value_start: int, form: str) -> Value:
        raw = word.raw[value_start:]
        if raw.startswith("("):
            return unknown("array", raw, self.state.mentioned(raw))
        return expand(
            raw,
            self.state,
            assignment=form != "env",
            braces=form in ("export", "declare", "env"),
            assign=lambda name, value: self._default(name, value, word),
        )

    def place(self, name: str, start: int, end: int, name_end: int, value_at: int, form: str) -> Place:
        """The place that begins at ``start``; noted again each time the walk passes it."""
        # an offset alone is not enough: in a script that was read again in part, those behind the edit are old
        key = (id(self.command), start)
        place = self.places.get(key)
        if place is None:
            place = Place(name, start, end, name_end, start + value_at if value_at >= 0 else -1, form)
            place.shown = False
            place.dead = True
            self.places[key] = place
        if not self.dead or place.visits == 0:
            self.order += 1
            place.order = self.order
        place.statement = self.statement
        place.command = self.command
        frame = self.frame()
        if frame:
            place.function = frame[0]
        if not self.dead:
            place.dead = False
            place.visits += 1
            place.conditional = place.conditional or self.conditional > 0
            place.subshell = place.subshell or self.subshell > 0
        elif place.visits == 0:
            place.conditional = self.conditional > 0
        return place

    def note(self, place: Place, value: Value) -> None:
        """What the place gives; when it is passed twice with different values, that is unknown."""
        place.value = (
            value if place.visits <= 1 or place.value == value else unknown("several", place.name, value, place.value)
        )

    def fill(self, name: str, start: int, end: int, value: Value, form: str) -> None:
        """A command gives the variable a value that the script's text does not."""
        before = self.state.get(name)
        if before.readonly is not False:
            self.refuse(start, f"{name} was made readonly before: this command fails.")
            return
        array = before.array or form == "array"
        place = Place(name, start, end, start, -1, "command" if form == "array" else form)
        place.shown = False
        place.value = value
        place.order = self.order
        exported = before.exported if before.exported or self.allexport is False else self.allexport
        self.state.put(name, Variable(value, True, exported, place, (), before.exporters, array, False, before.integer))

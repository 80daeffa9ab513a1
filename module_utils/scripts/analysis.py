# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A script's text taken apart: which places decide which knob at the engine's start."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple, Optional

from .assignments import ASSIGNMENT
from .expansion import expand
from .grammar import Grammar
from .nodes import Comment, Statement, Trouble
from .reparsing import parsed_again
from .state import COMPUTED, Place, State, Value, Variable, joined, static
from .walk import Start, Walk
from .words import word_end

_COMMENTED = re.compile(r"#[# \t]*(?:export|(?:declare|typeset)[ \t]+-[a-zA-Z]*x[a-zA-Z]*)[ \t]+(?=[A-Za-z_])")


class Analysis(NamedTuple):
    text: str
    statements: list[Statement]
    places: tuple[Place, ...]  # in the order of the file, all states
    unexported: tuple[Place, ...]  # assignments and exports without effect on what is exported
    variables: dict[str, Variable]  # at the engine's start
    starts: tuple[Start, ...]
    final: Optional[Start]  # the start that decides, if there is one
    findings: tuple[tuple[int, str, str], ...]
    refusal: Optional[tuple[int, str]]  # why no edit of this script can be trusted
    comments: tuple[Comment, ...]
    last_order: int
    guessed: bool  # no engine was recognized: the last command that may be one is taken
    guarded: dict[str, list[int]]
    asked: tuple[tuple[int, int], ...]  # the tests by which the script may end early
    unclear: Optional[tuple[int, int]]  # the end and the place of the last change of a name that only a run tells
    trouble: bool  # a part of the script is not understood

    def line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def state(self, place: Place) -> str:
        """``active``, ``overridden``, ``conditional``, ``dead`` or ``commented``."""
        if place.commented:
            return "commented"
        if place.dead or place.order > self.last_order:
            return "dead"
        variable = self.variables.get(place.name)
        active = (
            variable is not None and variable.origin is place and variable.exported is not False and not variable.array
        )
        if active and place.form in ("prefix", "env"):
            return "active"  # in front of the engine's own command, wherever that stands
        if place.conditional:
            return "conditional"
        if active:
            return "active"
        if place.subshell:
            return "dead"
        return "overridden"

    def exported(self) -> dict[str, Variable]:
        """The names that the engine sees because of the script, also those that it perhaps sees."""
        return {
            name: variable
            for name, variable in self.variables.items()
            if variable.exported is not False and variable.set is not False and not variable.array
        }


@lru_cache(maxsize=8)  # one plan asks for the same few contents again and again
def analyse(text: str) -> Analysis:
    """Read a script given as Latin-1 text. Never raises: what is not understood is in ``refusal``."""
    with _no_collections():
        grammar = Grammar(text)
        return _walked(text, grammar.program(), grammar)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Thousands of small objects are made and all are kept: looking for garbage among them costs a tenth of the time.

    Where it is on, they are handed to the oldest generation as they are (``gc.freeze`` and back only move lists).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def analyse_edited(before: Analysis, start: int, end: int, new: str) -> Analysis:
    """Read a script again after the text from ``start`` to ``end`` was replaced.

    Statements that the edit cannot have touched are not parsed again, but all are walked. Offsets of what stands
    behind the edit are the old ones: good for comparing what is exported, not for showing or editing further.
    """
    text = before.text[:start] + new + before.text[end:]
    statements = None if before.trouble else parsed_again(before.text, before.statements, start, end, new)
    return analyse(text) if statements is None else _walked(text, statements, Grammar(""))


def _walked(text: str, statements: list[Statement], grammar: Grammar) -> Analysis:
    walk = _walk(text, statements, guessing=False)
    if not walk.starts:
        walk = _walk(text, statements, guessing=True)
    final = walk.final
    trouble: Optional[Trouble] = grammar.trouble
    if trouble is not None:
        sentence = trouble.what[0].upper() + trouble.what[1:] + "."
        walk.finding(trouble.offset, "not-understood", sentence)
        if final is None or final.end > trouble.offset:
            walk.refusal = walk.refusal or (trouble.offset, sentence)
    if "\0" in text:
        walk.refusal = walk.refusal or (text.index("\0"), "There is a NUL byte in this file.")
        walk.finding(text.index("\0"), "not-understood", "There is a NUL byte in this file.")
    if final is not None:
        variables = final.variables
        starts = tuple(start for start in walk.starts if start.order <= final.order)
        last = final.order
    elif walk.starts:
        variables = _of_all([start.variables for start in walk.starts])
        starts = tuple(walk.starts)
        last = max(start.order for start in walk.starts)
    else:
        variables = walk.end_state
        starts = ()
        last = walk.order
    places = [place for place in walk.places.values() if place.shown]
    unexported = tuple(place for place in walk.places.values() if not place.shown)
    for variable in variables.values():
        if variable.exported is not False:
            # what a command such as read gives to an exported name
            for place in (variable.origin, *variable.maybe):
                if place is not None and not place.shown:
                    place.shown = True
                    places.append(place)
    places += _commented(text, grammar.comments)
    places.sort(key=lambda place: place.start)
    return Analysis(
        text, statements, tuple(places), unexported, variables, starts, final, tuple(sorted(walk.findings)), walk.refusal,
        tuple(grammar.comments), last, walk.guessing, walk.guarded, tuple(walk.asked), walk.unclear,
        trouble is not None,
    )  # fmt: skip


def _walk(text: str, statements: list[Statement], guessing: bool) -> Walk:
    walk = Walk(guessing, text)
    try:
        walk.top(statements)
    except RecursionError:
        walk.refuse(0, "The script is nested too deeply, or its functions call each other too often.")
    return walk


def _of_all(pictures: list[dict[str, Variable]]) -> dict[str, Variable]:
    """What holds at every one of several starts."""
    if len(pictures) == 1:
        return pictures[0]
    names = dict.fromkeys(name for picture in pictures for name in picture)
    nothing = State()
    return {
        name: joined(pictures[0].get(name, nothing.get(name)), [each.get(name, nothing.get(name)) for each in pictures])
        for name in names
    }


def _commented(text: str, comments: list[Comment]) -> list[Place]:
    """Exports in comments that stand alone on their lines."""
    found: list[Place] = []
    for comment in comments:
        if not comment.alone:
            continue
        head = _COMMENTED.match(text, comment.start, comment.end)
        if head is None:
            continue
        line = Grammar(text[: comment.end])
        at = head.end()
        while at < comment.end:
            match = ASSIGNMENT.match(text, at, comment.end)
            if match is None or match.group(2):
                break
            try:
                end = word_end(line, at)
            except Trouble:
                break
            place = Place(match.group(1), at, end, match.end(1), match.end(), "export")
            place.commented = True
            place.value = expand(text[match.end() : end], State(), assignment=True, braces=True)
            found.append(place)
            at = end
            while text[at : at + 1] in (" ", "\t") and at < comment.end:
                at += 1
    return found


def known(value: Value) -> Optional[str]:
    """A value as people and processes see it: bytes read as UTF-8, others kept as surrogates."""
    text = static(value)
    return None if text is None else text.encode("latin-1").decode("utf-8", "surrogateescape")


def winning_value(variable: Variable, name: str) -> Optional[str]:
    """The value that the engine surely sees; None when that depends on the run."""
    if variable.exported is not True or variable.set is not True or variable.array or name in COMPUTED:
        return None
    return known(variable.value)

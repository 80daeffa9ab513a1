# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What is known of a script's variables at one point of its run, and how ways through it are joined."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Optional, Union

from .nodes import Simple, Statement


class Unknown(NamedTuple):
    """A part of a value that only a run can tell; equal tags mean the same source and the same inputs."""

    tag: int


# A value: the text when it is known, else its parts.
Value = Union[str, tuple[Union[str, Unknown], ...]]


def static(value: Value) -> Optional[str]:
    return value if isinstance(value, str) else None


def unknown(*source: object) -> Value:
    return (Unknown(hash(source)),)


def concatenated(parts: Iterable[Union[str, Unknown, Value]]) -> Value:
    """One value out of pieces; neighboring texts are merged, so that equal values compare equal."""
    merged: list[Union[str, Unknown]] = []
    for part in parts:
        pieces: Iterable[Union[str, Unknown]] = (part,) if isinstance(part, (str, Unknown)) else part
        for piece in pieces:
            if isinstance(piece, str):
                if not piece:
                    continue
                if merged and isinstance(merged[-1], str):
                    merged[-1] += piece
                    continue
            merged.append(piece)
    if not merged:
        return ""
    if len(merged) == 1 and isinstance(merged[0], str):
        return merged[0]
    return tuple(merged)


class Place:
    """One place in the script that may decide a knob: an assignment, or an ``export NAME`` without a value."""

    value: Value = ""
    order = 0  # in the order of the walk
    conditional = False
    subshell = False
    dead = False
    commented = False
    element = False  # an array or one element of it
    shown = True  # a plain assignment is no export until the name is exported
    function = ""  # in which function it stands
    visits = 0  # how often the walk has passed it
    command: Optional[Simple] = None
    statement: Optional[Statement] = None

    def __init__(self, name: str, start: int, end: int, name_end: int, value_start: int, form: str) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.name_end = name_end  # where += or = begins; equal to `start` when the name itself is quoted
        self.value_start = value_start  # -1 when no value is given here
        self.form = form


class Variable(NamedTuple):
    """What is known of one variable. None always means: it depends on the run."""

    value: Value
    set: Optional[bool]
    exported: Optional[bool]
    origin: Optional[Place] = None  # the place that decides the value, on at least one way
    maybe: tuple[Place, ...] = ()  # conditional places that may decide it after the origin
    exporters: tuple[Place, ...] = ()  # what exported the name
    array: bool = False
    readonly: Optional[bool] = False
    integer: bool = False


# Names that every process has from its parents: an assignment changes what the engine sees.
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR")
# Names that bash computes or keeps to itself: an assignment does not say what the engine sees.
_COMPUTED_NAMES = (
    "BASHOPTS BASHPID BASH_ARGV0 BASH_COMMAND BASH_SUBSHELL BASH_VERSINFO COMP_WORDBREAKS DIRSTACK EPOCHREALTIME "
    "EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD LINENO OLDPWD PPID PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID _ "
    "POSIXLY_CORRECT BASH_COMPAT IFS"
)
COMPUTED = frozenset(_COMPUTED_NAMES.split())
SPECIAL = re.compile(r"\$\{?([0-9?@*#_]|(?<=\{)!(?=[A-Za-z_]\w*(?!\w|\[[@*]\])))")
_MENTIONED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class State:
    """The variables at a point of the run, with a log by which a way through a condition is undone."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self._log: list[tuple[str, Optional[Variable]]] = []
        self.last: Optional[Simple] = None  # the command that ran last: $? and $_ are its own
        self.folder: object = ""  # what changed it
        self.arguments: object = ""  # what gave $1, $2 and so on
        self.blind = 0  # in a loop: what a variable holds depends on the round

    def special(self, source: str) -> tuple[object, ...]:
        """What decides the parameters without a name in a piece of source: part of an unknown's identity."""
        told: list[object] = []
        last = self.last
        for form in set(SPECIAL.findall(source)):
            if form == "!":  # the variable whose name this one holds: any
                told.append(tuple((name, each.value, each.set) for name, each in self.variables.items()))
            elif form not in "?_":
                told.append(self.arguments)
            elif last is not None:
                told.append(tuple(word.raw for word in (*last.assigns, *last.words)))
        return tuple(told)

    def look(self, name: str) -> Variable:
        """What an expansion finds: as ``get``, but in a loop the values are not known."""
        found = self.get(name)
        if self.blind and name in self.variables:
            return found._replace(value=unknown("loop", name, found.value), set=None)
        return found

    def get(self, name: str) -> Variable:
        found = self.variables.get(name)
        if found is not None:
            return found
        return Variable(unknown("caller", name), None, name in INHERITED)

    def put(self, name: str, variable: Variable) -> None:
        self._log.append((name, self.variables.get(name)))
        self.variables[name] = variable

    def mark(self) -> int:
        return len(self._log)

    def switched(self, mark: int, arrays: bool) -> bool:
        """Whether something other than a value has changed since the mark; ``arrays``: that a name became one counts."""
        first = 6 if arrays else 7
        for name, before in self._log[mark:]:
            then = before if before is not None else Variable("", None, name in INHERITED)
            now = self.get(name)
            if (then.exported, then[first:]) != (now.exported, now[first:]):
                return True
        return False

    def undo(self, mark: int) -> dict[str, Variable]:
        """Back to the mark; what the names were before going back."""
        changed: dict[str, Variable] = {}
        for name, before in reversed(self._log[mark:]):
            if name not in changed:
                changed[name] = self.get(name)
            if before is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = before
        del self._log[mark:]
        return changed

    def join(self, ways: list[dict[str, Variable]]) -> list[str]:
        """Continue behind a condition: each way gives what it changed. The names that are changed on some way."""
        names: dict[str, None] = {}
        for way in ways:
            names.update(dict.fromkeys(way))
        for name in names:
            before = self.get(name)
            self.put(name, joined(before, [way.get(name, before) for way in ways]))
        return list(names)

    def mentioned(self, text: str) -> tuple[object, ...]:
        """What is known of the variables named in a piece of source: part of an unknown's identity."""
        return self.special(text) + tuple(
            (name, self.variables[name].value, self.variables[name].set)
            for name in dict.fromkeys(_MENTIONED.findall(text))
            if name in self.variables
        )


def joined(before: Variable, ways: list[Variable]) -> Variable:
    first = ways[0]
    if ways.count(first) == len(ways):
        if first.origin is before.origin:
            return first
        return first._replace(origin=None, maybe=_places(before, ways)) if first.origin else first
    values = [way.value for way in ways]
    same = values.count(values[0]) == len(values)
    sets = {way.set for way in ways}
    exported = {way.exported for way in ways}
    kept = True in [way.origin is before.origin for way in ways]
    return Variable(
        value=values[0] if same else unknown("join", *values),
        set=sets.pop() if len(sets) == 1 else None,
        exported=exported.pop() if len(exported) == 1 else None,
        origin=before.origin if kept else None,
        maybe=_places(before, ways),
        exporters=tuple(dict.fromkeys([place for way in ways for place in way.exporters])),
        array=True in [way.array for way in ways],
        readonly=first.readonly if len({way.readonly for way in ways}) == 1 else None,
        integer=True in [way.integer for way in ways],
    )


def _places(before: Variable, ways: list[Variable]) -> tuple[Place, ...]:
    found: dict[Place, None] = dict.fromkeys(before.maybe)
    for way in ways:
        found.update(dict.fromkeys(way.maybe))
        if way.origin is not None and way.origin is not before.origin:
            found[way.origin] = None
    return tuple(found)

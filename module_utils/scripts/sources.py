# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where the text comes from that a command takes names from: ``export "$@"``, ``unset "${names[@]}"``, ``exec $CMD``.

The order in which a script runs plays no part here: every text that a variable is ever given counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

from .assignments import ASSIGNMENT
from .nodes import Compound, Simple, Statement, Word

_USED = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*|[0-9@*])")
_BARE = re.compile(r"[A-Za-z_]\w*")
_GIVEN = re.compile(r"(?<![\w$/.-])([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_TOLD = re.compile(r"\b(?:export|unset|read|local|declare|typeset|readonly)[ \t]+(?:-\w+[ \t]+)*([A-Za-z_]\w*)")
_PREFIXES = re.compile(r"\$\{!([A-Za-z_]\w*)[@*]\}")
_DOCUMENT = re.compile(r"<<-?[ \t]*(\\?['\"]?)(\w+)['\"]?[^\n]*\n(.*?)\n[ \t]*\2(?=\n|\Z)", re.DOTALL)
_DECLARING = ("export", "declare", "typeset", "local", "readonly")
_READING = ("read", "mapfile", "readarray", "getopts", "printf")
_INPUT = "<"  # what a command may read: the key of all here-documents and redirections
_MOST = 200


class Sources:
    """The texts by what they are given to: a variable's name, a function's name with ``()``, ``--`` for ``set``."""

    def __init__(self, statements: Iterable[Statement], text: str) -> None:
        self._of: dict[str, list[str]] = {_INPUT: [match.group(3) for match in _DOCUMENT.finditer(text)]}
        self._statements(statements)

    def _give(self, name: str, raw: str) -> None:
        self._of.setdefault(name, []).append(raw)

    def _statements(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            for pipeline in statement.pipelines:
                for command in pipeline.commands:
                    if isinstance(command, Simple):
                        self._simple(command)
                    else:
                        self._compound(command)

    def _compound(self, command: Compound) -> None:
        for redirect in command.redirects:
            self._give(_INPUT, redirect.raw)
        if command.kind in ("for", "select") and command.name:
            self._give(command.name, command.head or "$@")
        for branch in command.branches:
            self._statements(branch.condition)
            self._statements(branch.body)

    def _simple(self, command: Simple) -> None:
        for redirect in command.redirects:
            if "<" in redirect.raw:
                self._give(_INPUT, redirect.raw)
        for word in command.assigns:
            self._assigned(word)
        if not command.words:
            return
        name = command.words[0].raw
        rest = command.words[1:]
        if name in ("builtin", "command") and rest:
            name, rest = rest[0].raw, rest[1:]
        source = " ".join(word.raw for word in rest)
        if name in _DECLARING:
            for word in rest:
                self._assigned(word)
        elif name in _READING:
            for word in rest:
                if _BARE.match(word.raw):
                    self._give(word.raw, source)
                    self._of[word.raw] += ["$" + _INPUT]
        elif name == "set":
            self._give("--", source)
        else:
            self._give(name + "()", source)

    def _assigned(self, word: Word) -> None:
        match = ASSIGNMENT.match(word.raw.lstrip("\"'"))
        if match:
            self._give(match.group(1), word.raw[match.end() :])

    def behind(self, source: str, function: str = "", bare: bool = False) -> str:
        """The source with all that the variables in it were given, also by way of others.

        :param function: the function that it stands in: whose arguments ``$1`` and ``$@`` are
        :param bare: names are variables also without a dollar sign, as in arithmetic
        """
        found = [source]
        seen: set[str] = set()
        for piece in found:
            names = _USED.findall(piece) + (_BARE.findall(piece) if bare else [])
            if "/dev/stdin" in piece or "$" + _INPUT in piece:
                names.append(_INPUT)
            for name in names:
                key = name if name[0] not in "0123456789@*" else function + "()" if function else "--"
                if key not in seen and len(found) < _MOST:
                    seen.add(key)
                    found += self._of.get(key, ())
        return "\n".join(found)


def given_in(text: str) -> list[str]:
    """The names that a text assigns or declares, once each."""
    return list(dict.fromkeys((*_GIVEN.findall(text), *_TOLD.findall(text))))


def words_in(text: str) -> list[str]:
    """Everything in a text that may be a name or a part of one, once each."""
    return list(dict.fromkeys(re.findall(r"\w+", text)))


def named_in(name: str, text: str) -> bool:
    """Whether a text names a variable, other than to use its value."""
    if re.search(rf"(?<![\w$])(?<!\$\{{){name}(?!\w)|\{{{name}:?=", text):
        return True
    return any(name.startswith(prefix) for prefix in _PREFIXES.findall(text))


def in_braces(raw: str) -> Optional[list[str]]:
    """The words that ``SGLANG_{A,B}=1`` or ``A_{1..3}`` becomes; None when they are not plain enough to tell."""
    match = re.match(r"([^{}\\'\"$`]*)\{([^{}\\'\"$`]*)\}(.*)\Z", raw, re.DOTALL)
    if match is None:
        return None if "{" in raw.partition("=")[0] else [raw]
    head, inner, rest = match.groups()
    sequence = re.match(r"(\w)\.\.(\w)\Z", inner)
    if sequence:
        first, last = sorted(map(ord, sequence.groups()))
        parts = [chr(code) for code in range(first, last + 1)]
    elif "," in inner:
        parts = inner.split(",")
    else:
        return None
    behind = in_braces(rest)
    if behind is None or len(parts) * len(behind) > _MOST:
        return None
    return [head + part + tail for part in parts for tail in behind]

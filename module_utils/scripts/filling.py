# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Commands that give variables values that only a run can tell: ``read``, ``printf -v``, ``mapfile``, arithmetic."""

from __future__ import annotations

import re

from .exports import IDENTIFIER, Exports
from .nodes import Word
from .state import unknown

_ARITHMETIC = re.compile(r"(?:\+\+|--)[ \t]*([A-Za-z_]\w*)|([A-Za-z_]\w*)[ \t]*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))")
_COMPARED = re.compile(r"-(?:eq|ne|lt|le|gt|ge)\b|\w\[[^\]]*[^\]=!<>]=[^=]")


class Filling(Exports):
    """The part of the walk that knows the commands that fill variables."""

    def filled(self, command: str, start: int, words: list[Word]) -> None:
        """Commands that give variables values: each word that can be a name is taken for one."""
        if command == "printf":
            words = self._printed(words)
        elif command == "wait":
            if any(len(self.text_of(word) or "") > 2 and word.raw.startswith("-p") for word in words):
                self.refuse(start, "This wait is not understood.")
            words = [after for word, after in zip(words, words[1:]) if self.text_of(word) == "-p"]
        elif command == "getopts":
            words = words[1:2]
        form = "command"
        implied = {
            "getopts": ("OPTIND", "OPTARG"),
            "mapfile": ("MAPFILE",),
            "readarray": ("MAPFILE",),
            "read": ("REPLY",),
        }
        for each in implied.get(command, ()):
            self.fill(each, start, start, unknown("filled", each, command), form)
        if command in ("mapfile", "readarray") and any(word.raw.startswith("-C") for word in words):
            self.told_by(words[0], " ".join(word.raw for word in words))  # a command that is evaluated
        if command in ("mapfile", "readarray") or (
            command == "read" and any(re.match(r"-[a-zA-Z]*a", word.raw) for word in words)
        ):
            form = "array"
        told = command in ("mapfile", "readarray")  # the word is none that names a variable
        for word in words:
            if command == "let":
                self.arithmetic(word.raw, word.start)
                continue
            name = self.text_of(word)
            if name is None and not told:
                self.any_name(word, f"Which name {word.raw} fills is not known.")
            told = command == "read" and re.match(r"-[a-zA-Z]*[dinNptu]\Z", word.raw) is not None
            if name and IDENTIFIER.match(name):
                self.fill(
                    name, word.start, word.end, unknown("filled", name, command, *(each.raw for each in words)), form
                )

    def _printed(self, words: list[Word]) -> list[Word]:
        """What ``printf -v`` fills."""
        first = self.text_of(words[0]) if words else ""
        if first is None and "-v" in self.behind(words[0].raw):
            self.any_name(words[0], f"Whether {words[0].raw} fills a variable is not known.")
        elif first and first.startswith("-v") and first != "-v":
            self.refuse(words[0].start, "This printf is not understood.")
        return words[1:2] if first == "-v" else []

    def arithmetic(self, source: str, start: int) -> None:
        self.calculated(source, Word(start, start + len(source), source))
        for match in _ARITHMETIC.finditer(source):
            name = match.group(1) or match.group(2)
            self.fill(
                name, start, start + len(source), unknown("arithmetic", source, self.state.mentioned(source)), "command"
            )

    def tested(self, source: str, start: int) -> None:
        """``[[ ... ]]`` gives values only where it counts: ``[[ A=4 -eq 4 ]]``."""
        if _COMPARED.search(source):
            self.arithmetic(source, start)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Commands whose names, or whose whole text, come from elsewhere: which variables they may concern.

Of each such variable nothing is known from there on, so that an edit of it is refused where it would count.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from .assignments import Assignments
from .expansion import expand
from .nodes import Word
from .sources import Sources, given_in, in_braces, named_in
from .state import Place, Variable, unknown

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHELL = re.compile(r"(?:.*/)?(?:bash|sh|dash|zsh|ksh|ash)\Z")
_BEGINNING = re.compile(r"""["']?\$\{!([A-Za-z_]\w*)[@*]\}["']?\Z""")
_CHANGING = re.compile(r"\b(?:export|unset|declare|typeset|readonly|read|printf|let|eval|source|mapfile)\b|(?:^|\s)\.\s")
_CLEARING = re.compile(r"\benv\b[^;&|\n]*?[ \t](?:-i|-|--ignore-environment)(?=\s|\Z|['\")])")
_UNSETTING = re.compile(r"\benv\b[^;&|\n]*?[ \t](?:-u[ \t]*|--unset[= ])([A-Za-z_]\w*)")


class Shell(NamedTuple):
    """A shell that is run: the word with its commands, or the file that holds them."""

    source: Optional[Word]
    file: Optional[Word]


def shell_of(words: list[Word]) -> Optional[Shell]:
    """The shell among a command's words, also behind nohup and the like; None when there is none."""
    for index, word in enumerate(words):
        if not _SHELL.match(word.raw.strip("'\"")):
            continue
        commands = False
        rest = words[index + 1 :]
        while rest and rest[0].raw[:1] in "-+" and rest[0].raw not in ("-", "--"):
            commands = commands or (rest[0].raw[:2] != "--" and "c" in rest[0].raw)
            rest = rest[2 if rest[0].raw in ("-o", "-O", "--rcfile", "--init-file") else 1 :]
        if commands:
            return Shell(rest[0] if rest else None, None)
        return Shell(None, rest[0] if rest else None)
    return None


class Indirect(Assignments):
    """The part of the walk that knows what only another text tells."""

    def all_sources(self) -> Sources:
        raise NotImplementedError

    def behind(self, source: str, bare: bool = False) -> str:
        frame = self.frame()
        return self.all_sources().behind(source, frame[0] if frame else "", bare)

    # -- names

    def blurred(self, name: str, word: Word, exporting: bool = False) -> None:
        """From here on only a run tells what the variable is, and with ``exporting`` whether it is exported."""
        before = self.state.get(name)
        place = Place(name, word.start, word.end, word.start, -1, "eval")
        place.shown = False
        place.order = self.order
        exported = before.exported
        if (exporting or self.allexport is not False) and not exported:
            exported = None
        if exported is False and name not in self.state.variables:
            return
        value = unknown("elsewhere", word.raw, before.value)
        self.state.put(name, before._replace(value=value, set=None, exported=exported, origin=place, maybe=()))

    def unset_many(self, word: Word) -> bool:
        """``unset ${!SGLANG_@}`` and ``unset SGLANG_{A,B}``: True when it is one of these, and known what goes."""
        beginning = _BEGINNING.match(word.raw)
        listed = in_braces(word.raw) if "{" in word.raw and "$" not in word.raw else None
        if beginning:
            listed = [name for name in self.state.variables if name.startswith(beginning.group(1))]
        for name in listed or ():
            if _IDENTIFIER.match(name) and not self.state.get(name).readonly:
                self.state.put(name, Variable("", False, False))
        return listed is not None

    def braced(self, word: Word, exported: Optional[bool]) -> bool:
        """``export SGLANG_{A,B}=4``: True when it is one of these."""
        if "{" not in word.raw.partition("=")[0] or "${" in word.raw.partition("=")[0]:
            return False
        names = in_braces(word.raw)
        if names is None:
            self.refuse(word.start, f"Which names {word.raw} stands for is not understood.")
        for name in dict.fromkeys(each.partition("=")[0].rstrip("+") for each in names or ()):
            if _IDENTIFIER.match(name):
                if "=" in word.raw:
                    self.fill(name, word.start, word.end, unknown("braces", word.raw), "command")
                before = self.state.get(name)
                if exported is not None:
                    self.state.put(name, before._replace(exported=exported))
        return True

    # -- commands that come from elsewhere

    def command_from(self, words: list[Word]) -> None:
        """A command whose name is not known: ``$CMD`` may be an ``export`` or ``unset``."""
        text = self.behind(" ".join(word.raw for word in words))
        if not _CHANGING.search(text):
            return
        for name in dict.fromkeys((*self.state.variables, *given_in(text))):
            if named_in(name, text):
                self.blurred(name, words[0], True)

    def prefixed_from(self, words: list[Word]) -> None:
        """The words in front of an engine that stand for others: ``exec $ENVCMD python3 ...``."""
        if not words:
            return
        source = " ".join(word.raw for word in words)
        text = self.behind(source)
        if _CLEARING.search(text):
            self.refuse(words[0].start, "The environment seems to be cleared for this command by way of a variable.")
        for name in dict.fromkeys((*given_in(text), *_UNSETTING.findall(text))):
            self.blurred(name, words[0], True)

    def run_by_shell(self, shell: Shell, word: Word) -> None:
        """What a shell in front of the engine does to the variables: ``exec bash -c 'export A=1; exec python3 ...'``."""
        source = shell.source
        if source is None:
            file = shell.file.raw if shell.file else "its input"
            self.finding(word.start, "sourced", f"What {file} exports is not known: it is read only when it runs.")
            self.prefixed_from([word])
            return
        whole = expand(source.raw, self.state, assignment=True)
        text = whole if isinstance(whole, str) else "".join(p if isinstance(p, str) else "$__" for p in whole)
        for name, gone in self.inner(text, source).items():
            self.blurred(name, source, not gone)
        if not isinstance(whole, str):
            self.command_from([source])
            self.prefixed_from([source])

    def inner(self, text: str, word: Word) -> dict[str, bool]:
        """The names that the commands of a text change, and whether they only take them away."""
        raise NotImplementedError

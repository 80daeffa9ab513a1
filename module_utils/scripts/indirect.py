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
from .launch import WRAPPERS, base_name, is_program, names_engine
from .nodes import Simple, Word
from .sources import Sources, given_in, in_braces, named_in, words_in
from .state import Place, Value, Variable, concatenated, unknown

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_BARE = re.compile(r"[A-Za-z_]\w*")
_NUMBERED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}(?![<>]&-)")
_TARGET = re.compile(r"\$\{?[A-Za-z_0-9@*]\w*\}?[ \t]*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)[ \t]*\$")
_SHELL = re.compile(r"(?:.*/)?(?:bash|sh|dash|zsh|ksh|ash)\Z")
_CONTAINERS = ("docker", "podman", "nerdctl", "enroot")
_BEGINNING = re.compile(r"""["']?\$\{!([A-Za-z_]\w*)[@*]\}["']?\Z""")
_CHANGING = re.compile(
    r"\b(?:export|unset|declare|typeset|readonly|read|printf|let|eval|source|mapfile)\b|(?:^|\s)\.\s"
)
_CLEARING = re.compile(r"\benv\b[^;&|\n]*?[ \t](?:-i|-|--ignore-environment)(?=\s|\Z|['\")])")
_UNSETTING = re.compile(r"\benv\b[^;&|\n]*?[ \t](?:-u[ \t]*|--unset[= ])([A-Za-z_]\w*)")


class Shell(NamedTuple):
    """A shell that is run: the word with its commands, or the file that holds them."""

    source: Optional[Word]
    file: Optional[Word]
    arguments: list[Word]
    exporting: bool  # whether it exports all that it sets


def shell_of(words: list[Word]) -> Optional[Shell]:
    """The shell among a command's words, also behind nohup and the like; None when there is none."""
    for index, word in enumerate(words):
        if not _SHELL.match(word.raw.strip("'\"")):
            continue
        commands = exporting = False
        rest = words[index + 1 :]
        while rest and rest[0].raw[:1] in "-+" and rest[0].raw not in ("-", "--"):
            letters = "" if rest[0].raw[:2] == "--" else rest[0].raw
            commands = commands or "c" in letters
            exporting = exporting or "a" in letters or (letters == "-o" and "allexport" in [x.raw for x in rest[1:2]])
            rest = rest[2 if rest[0].raw in ("-o", "-O", "--rcfile", "--init-file") else 1 :]
        if commands:
            return Shell(rest[0] if rest else None, None, rest[1:], exporting)
        return Shell(None, rest[0] if rest else None, rest[1:], exporting)
    return None


class Indirect(Assignments):
    """The part of the walk that knows what only another text tells. What raises NotImplementedError the walk provides."""

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

    def composed(self, word: Word, whole: Value) -> None:
        """``for X in K L; do export "SGLANG_$X=4"``: the names that may come about, of those that are new."""
        name = concatenated([part if isinstance(part, str) else "\0" for part in whole])
        head, _, rest = name.partition("\0") if isinstance(name, str) else ("", "", "")
        tail, given, _ = rest.partition("=")
        if not given or "\0" in tail or not head + tail:
            return
        for part in words_in(self.behind(word.raw)):
            name = head + part + tail
            if _IDENTIFIER.match(name) and name not in self.state.variables:
                self.blurred(name, word, True)

    def by_reference(self, word: Word) -> None:
        """``${!REF:=value}`` gives a value to the variable that REF names."""
        text = self.behind(word.raw)
        for name in list(self.state.variables):
            if named_in(name, text[len(word.raw) :]):
                self.blurred(name, word)

    def numbered(self, redirects: list[Word]) -> None:
        """``exec {NAME}>file``: bash puts the descriptor's number into the variable."""
        for redirect in redirects:
            match = _NUMBERED.match(redirect.raw)
            if match:
                value = unknown("descriptor", redirect.raw)
                self.fill(match.group(1), redirect.start, redirect.end, value, "command")

    def calculated(self, source: str, word: Word) -> None:
        """Arithmetic reads the text of a variable as arithmetic again: ``V='K=4'; : $((V))``, also ``V=K; (($V = 4))``."""
        names = [name for name in _BARE.findall(source) if not _is_number(self.state.get(name).value)]
        if not names:
            return
        text = self.behind(source, bare=True)[len(source) :]
        given = [name for name in given_in(text) if name in self.state.variables]
        if _TARGET.search(source):
            given += [name for name in self.state.variables if named_in(name, text)]
        for name in dict.fromkeys(given):
            self.blurred(name, word)

    # -- commands that come from elsewhere

    def command_from(self, words: list[Word]) -> None:
        """A command whose name is not known: ``$CMD`` may be an ``export`` or ``unset``."""
        source = " ".join(word.raw for word in words)
        text = self.behind(source)
        if not _CHANGING.search(text[len(source) :]):
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

    def told_by(self, word: Word, source: str) -> None:
        """A text that may change those variables of the script that it names."""
        text = self.behind(source)
        for name in list(self.state.variables):
            if named_in(name, text):
                self.blurred(name, word)

    def evaluated(self, word: Word, words: list[Word]) -> None:
        """``eval`` of a text that is known."""
        texts: list[str] = []
        for each in words:
            listed = in_braces(each.raw) if "{" in each.raw else None
            known = self.text_of(each) if listed is None else " ".join(listed)
            if known is None:
                return
            texts.append(known)
        for name in self.inner(" ".join(texts), word):
            self.blurred(name, word, True)

    def text_from(self, word: Word, source: str) -> None:
        """Commands that are read from a text of the script: ``. <(echo A=1)``, ``eval "$CMD"``, ``bash <<< ...``."""
        text = self.behind(source)
        names = dict.fromkeys(given_in(text))
        if _CHANGING.search(text):
            names.update(dict.fromkeys(name for name in self.state.variables if named_in(name, text)))
        for name in names:
            self.blurred(name, word, True)

    def around(self) -> list[Word]:
        """All words of the statement on the way."""
        statement = self.statement
        commands = [each for pipe in statement.pipelines for each in pipe.commands] if statement else []
        simple = [each for each in commands if isinstance(each, Simple)]
        return [word for each in simple for word in (*each.words, *each.redirects)]

    def run_by_shell(self, shell: Shell, word: Word) -> None:
        """What a shell in front of the engine does to the variables: ``exec bash -c 'export A=1; exec python3 ...'``."""
        source = shell.source
        if source is None:
            file = shell.file.raw if shell.file else "its input"
            self.finding(word.start, "sourced", f"What {file} exports is not known: it is read only when it runs.")
            if names_engine(self.behind("/dev/stdin")):
                self.text_from(word, "/dev/stdin")  # the file may have been written from a here-document
            if shell.file is None:
                self.text_from(word, " ".join(each.raw for each in self.around()) + " /dev/stdin")
            return
        whole = expand(source.raw, self.state, assignment=True)
        text = whole if isinstance(whole, str) else "".join(p if isinstance(p, str) else "$__" for p in whole)
        for name, gone in self.inner(text, source, shell.exporting).items():
            self.blurred(name, source, not gone)
        if not isinstance(whole, str):
            self.command_from([source])
        self.prefixed_from([*([] if isinstance(whole, str) else [source]), *shell.arguments])

    def inner(self, text: str, word: Word, exporting: bool = False) -> dict[str, bool]:
        """The names that the commands of a text change, and whether they only take them away."""
        raise NotImplementedError


def _is_number(value: Value) -> bool:
    return isinstance(value, str) and value.strip().isdigit()


def is_wrapper(raw: str) -> bool:
    """Whether a command's first word is a shell, or may run one."""
    return _SHELL.match(raw) is not None or base_name(raw) in WRAPPERS


def is_container(raw: str) -> bool:
    """Whether a program starts a container: what that is given is not what the script exports."""
    return base_name(raw) in _CONTAINERS


def before_the_engine(words: list[Word], understood: bool) -> list[Word]:
    """The words in front of the engine's program that may give it variables.

    :param understood: the ``env`` among them was read: its own words are none of these
    """
    found: list[Word] = []
    if is_container(words[0].raw):
        return found
    at = 0
    while at < len(words):
        raw = words[at].raw
        if is_program(raw) or raw == "-m":
            return found
        at += 1
        if understood and base_name(raw) == "env":
            understood = False
            while at < len(words) and (words[at].raw[:1] == "-" or "=" in words[at].raw):
                at += 2 if words[at].raw in ("-u", "--unset", "-C", "--chdir") else 1
            continue
        found.append(words[at - 1])
    return [each for each in found if "$" in each.raw or "`" in each.raw]

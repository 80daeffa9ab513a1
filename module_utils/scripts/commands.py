# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What one simple command does to the variables and to what is exported.

After bash's manual: assignments, ``export``, ``declare`` and relatives, ``unset``, ``set``, and the
commands that give variables values that only a run can tell.
"""

from __future__ import annotations

import re
from typing import Optional

from .expansion import expand
from .launch import engine_words, environment_words, exec_words
from .nodes import Simple, Statement, Word
from .state import COMPUTED, Place, State, Value, Variable, concatenated, static, unknown

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?=)")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEFAULT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?=")
_ARITHMETIC = re.compile(r"(?:\+\+|--)[ \t]*([A-Za-z_]\w*)|([A-Za-z_]\w*)[ \t]*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))")
_EVALUATED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_EXPORTED = re.compile(r"\b(?:export|unset)[ \t]+(?:-[a-z]+[ \t]+)*([A-Za-z_][A-Za-z0-9_]*)")

_DECLARING = ("declare", "typeset", "local", "readonly")
_FILLING = ("read", "mapfile", "readarray", "getopts", "let", "wait", "printf")


class Commands:
    """The part of the walk that knows the commands; ``Walk`` adds the order in which they run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.state = State()
        self.places: dict[int, Place] = {}
        self.findings: list[tuple[int, str, str]] = []
        self.refusal: Optional[tuple[int, str]] = None  # why nothing in this script can be edited safely
        self.order = 0
        self.conditional = 0
        self.subshell = 0
        self.dead = False
        self.ended = False
        self.left = ""
        self.loops = 0
        self.allexport: Optional[bool] = False
        self.nounset = False
        self.aliases = False
        self.statement: Optional[Statement] = None
        self.command: Optional[Simple] = None

    # -- what the walk provides

    def frame(self) -> Optional[tuple[str, dict[str, Variable]]]:
        raise NotImplementedError

    def call(self, name: str) -> bool:
        raise NotImplementedError

    def call_any(self) -> None:
        raise NotImplementedError

    def start(self, offset: int, end: int, is_exec: bool) -> None:
        raise NotImplementedError

    # -- findings

    def finding(self, offset: int, code: str, sentence: str) -> None:
        if (offset, code, sentence) not in self.findings:
            self.findings.append((offset, code, sentence))

    def refuse(self, offset: int, sentence: str) -> None:
        self.finding(offset, "not-understood", sentence)
        if self.refusal is None and not self.dead:
            self.refusal = (offset, sentence)

    # -- simple commands

    def simple(self, command: Simple) -> None:
        self.command = command
        for word in (*command.assigns, *command.words, *command.redirects):
            if "${" in word.raw and "=" in word.raw and (word not in command.assigns or command.words):
                self.defaults(word)
        if not command.words:
            for word in command.assigns:
                self.assign(word, "assignment", None)
            return
        words = command.words
        name = self.text_of(words[0])
        plain = True
        while name in ("builtin", "command") and len(words) > 1:
            following = self.text_of(words[1])
            if following is None or following in ("-v", "-V"):
                return
            words = words[2:] if following in ("-p", "--") and len(words) > 2 else words[1:]
            name = self.text_of(words[0])
            plain = False
        if name is None:
            self._external(command, words)
            self.call_any()
            return
        if plain and self._function(name, command):
            return
        rest = words[1:]
        if name == "export":
            self._export(rest, command)
        elif name in _DECLARING:
            self._declare(name, command.start, rest)
        elif name == "unset":
            self._unset(rest)
        elif name == "set":
            self._set(rest)
        elif name in _FILLING:
            self._fill(name, rest)
        elif name == "exec":
            self._exec(command, rest)
        elif name == "exit":
            self.ended = True
        elif name in ("return", "break", "continue"):
            self._leave(name, words[0])
        elif name in ("eval", ".", "source"):
            self._foreign(name, words[0], rest)
        elif name in ("alias", "shopt", "trap", "enable"):
            self._settings(name, words[0], rest)
        else:
            self._external(command, words)

    def text_of(self, word: Word) -> Optional[str]:
        return static(expand(word.raw, self.state, assignment=False, braces=True))

    def defaults(self, word: Word) -> None:
        """The effect of ``${NAME:=value}`` in any word."""
        if _DEFAULT.search(word.raw):
            expand(word.raw, self.state, assignment=True, assign=lambda name, value: self._default(name, value, word))

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
        if array or before.integer or name in COMPUTED:
            value = unknown("changed", name, value)
        self._note(place, value)
        if before.readonly:
            self.finding(word.start, "readonly", f"{name} was made readonly before: this assignment fails.")
            return
        exporters = before.exporters
        if exported is None:
            exported = before.exported if before.exported or self.allexport is False else self.allexport
        elif exported:
            exporters = (*exporters, place)
        place.shown = exported is not False or place.shown
        self.state.put(
            name, Variable(value, True, exported, place, (), exporters, array, before.readonly, before.integer)
        )

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
        place = self.places.get(start)
        if place is None:
            place = Place(name, start, end, name_end, start + value_at if value_at >= 0 else -1, form)
            place.shown = False
            place.dead = True
            self.places[start] = place
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

    def _note(self, place: Place, value: Value) -> None:
        """What the place gives; when it is passed twice with different values, that is unknown."""
        place.value = value if place.visits <= 1 or place.value == value else unknown("several", place.start)

    def fill(self, name: str, start: int, end: int, value: Value, form: str) -> None:
        """A command gives the variable a value that the script's text does not."""
        before = self.state.get(name)
        if before.readonly:
            return
        place = Place(name, start, end, start, -1, form)
        place.shown = False
        place.order = self.order
        exported = before.exported if before.exported or self.allexport is False else self.allexport
        self.state.put(
            name, Variable(value, True, exported, place, (), before.exporters, before.array, False, before.integer)
        )

    # -- export and relatives

    def _export(self, words: list[Word], command: Simple) -> None:
        words, flags = self._options(words)
        if "f" in flags or "p" in flags:
            return
        if "?" in flags:
            self.refuse(command.start, "What this export does is only known when the script runs.")
            return
        named = {match.group(1) for match in (ASSIGNMENT.match(word.raw) for word in command.assigns) if match}
        self._names(words, "export", "n" not in flags, named)

    def _options(self, words: list[Word]) -> tuple[list[Word], str]:
        """The words behind the options, and the options' letters (``+x`` gives ``+x``, unknown ones ``?``)."""
        flags = ""
        for index, word in enumerate(words):
            if word.raw[:1] not in ("-", "+") or len(word.raw) == 1:
                return words[index:], flags
            text = self.text_of(word)
            if text == "--":
                return words[index + 1 :], flags
            if text is None:
                flags += "?"
            else:
                flags += "".join("+" + letter for letter in text[1:]) if text[0] == "+" else text[1:]
        return [], flags

    def _names(self, words: list[Word], form: str, exported: Optional[bool], named: set[str]) -> None:
        # bash expands all words before the command sees the first of them
        values: list[Optional[Value]] = []
        for word in words:
            match = ASSIGNMENT.match(word.raw)
            values.append(self.value_of(word, match.end(), form) if match else None)
        for word, value in zip(words, values):
            if value is not None:
                self.assign(word, form, exported, value)
                continue
            text = self.text_of(word)
            if text is None:
                self.finding(word.start, "unknown-names", f"Which names {word.raw} exports is only known at run time.")
                continue
            match = ASSIGNMENT.match(text)
            if match and not match.group(2):
                self._quoted(word, text, match, form, exported)
            elif _IDENTIFIER.match(text):
                if text in named:
                    self.refuse(word.start, f"{text} is given in front of a command that exports it.")
                self._export_name(text, word, form, exported)
            else:
                self.finding(word.start, "not-a-name", f"{word.raw} is not a name that bash can export.")

    def _quoted(self, word: Word, text: str, match: re.Match[str], form: str, exported: Optional[bool]) -> None:
        """``export "NAME=value"``."""
        name = match.group(1)
        before = self.state.get(name)
        place = self.place(name, word.start, word.end, word.start, 0, form)
        value: Value = text[match.end() :]
        if match.group(3) == "+=" or before.array or before.integer or name in COMPUTED:
            value = unknown("changed", name, value, before.value)
        self._note(place, value)
        if before.readonly:
            return
        place.shown = exported is not False
        exporters = (*before.exporters, place) if exported else before.exporters
        self.state.put(name, Variable(value, True, exported, place, (), exporters, before.array))

    def _export_name(self, name: str, word: Word, form: str, exported: Optional[bool]) -> None:
        before = self.state.get(name)
        if exported is None:
            return
        if not exported:
            self.state.put(name, before._replace(exported=False, exporters=()))
            return
        place = self.place(name, word.start, word.end, word.end, -1, form)
        decided = before.origin is not None and before.origin.value_start >= 0 and not before.origin.element
        for origin in (before.origin, *before.maybe):
            if origin is not None and origin.value_start >= 0:
                origin.shown = True
        variable = before._replace(exported=True, exporters=(*before.exporters, place))
        if not decided and not before.maybe:
            self._note(place, before.value)
            place.shown = True
            variable = variable._replace(origin=place)
        self.state.put(name, variable)

    def _declare(self, command: str, start: int, words: list[Word]) -> None:
        words, flags = self._options(words)
        if "?" in flags or "n" in flags.replace("+n", ""):
            self.refuse(words[0].start if words else start, f"This {command} is not understood.")
            return
        if "f" in flags or "F" in flags or "p" in flags:
            return
        exported: Optional[bool] = False if "+x" in flags else (True if "x" in flags else None)
        frame = self.frame()
        local = frame is not None and command != "readonly" and "g" not in flags
        for word in words:
            match = ASSIGNMENT.match(word.raw)
            text = match.group(1) if match else self.text_of(word)
            if text is None or not _IDENTIFIER.match(text):
                if text is None or not ASSIGNMENT.match(text):
                    self.finding(word.start, "unknown-names", f"Which name {word.raw} declares is not known.")
                continue
            before = self.state.get(text)
            if local and frame:
                frame[1].setdefault(text, before)
                before = before._replace(readonly=False, array=False, integer=False)
                if not match:
                    before = before._replace(value="", set=False)
                self.state.put(text, before)
            if set(flags.replace("+x", "")) & set("iluaA"):
                self.state.put(
                    text,
                    before._replace(
                        integer=before.integer or bool(set(flags) & set("ilu")),
                        array=before.array or bool(set(flags) & set("aA")),
                    ),
                )
        self._names(words, "declare", exported, set())
        if command == "readonly" or "r" in flags:
            for word in words:
                match = ASSIGNMENT.match(word.raw)
                text = match.group(1) if match else self.text_of(word)
                if text and _IDENTIFIER.match(text):
                    self.state.put(text, self.state.get(text)._replace(readonly=True))

    def _unset(self, words: list[Word]) -> None:
        words, flags = self._options(words)
        if "f" in flags:
            return
        for word in words:
            name = self.text_of(word)
            if name is None or "n" in flags:
                self.finding(word.start, "unknown-names", f"Which name {word.raw} unsets is not known.")
            elif _IDENTIFIER.match(name):
                if not self.state.get(name).readonly:
                    self.state.put(name, Variable("", False, False))
            elif _IDENTIFIER.match(name.split("[")[0]):
                self.fill(name.split("[")[0], word.start, word.end, unknown("element", word.raw), "command")

    # -- set, read, exec and the others

    def _set(self, words: list[Word]) -> None:
        index = 0
        while index < len(words):
            text = self.text_of(words[index])
            if text is None or text in ("--", "-") or text[:1] not in ("-", "+"):
                return
            on = text[0] == "-"
            for letter in text[1:]:
                option = letter
                if letter == "o":
                    index += 1
                    option = (self.text_of(words[index]) or "?") if index < len(words) else ""
                if option in ("a", "allexport"):
                    self.allexport = on
                elif option in ("u", "nounset"):
                    self.nounset = on
                elif option in ("k", "keyword", "posix", "n", "noexec", "?") and on:
                    self.refuse(words[0].start, f"'set' changes how bash reads the script here ({option}).")
            index += 1

    def _fill(self, command: str, words: list[Word]) -> None:
        """Commands that give variables values: each word that can be a name is taken for one."""
        if command in ("printf", "wait"):
            flag = "-v" if command == "printf" else "-p"
            words = [after for word, after in zip(words, words[1:]) if word.raw == flag]
        for word in words:
            if command == "let":
                self.arithmetic(word.raw, word.start)
                continue
            name = self.text_of(word)
            if name and _IDENTIFIER.match(name):
                self.fill(name, word.start, word.end, unknown("filled", name, word.start), "command")

    def arithmetic(self, source: str, start: int) -> None:
        for match in _ARITHMETIC.finditer(source):
            name = match.group(1) or match.group(2)
            self.fill(name, start, start + len(source), unknown("arithmetic", source, start), "command")

    def _leave(self, name: str, word: Word) -> None:
        if name == "return":
            if self.frame() is None:
                self.finding(word.start, "not-understood", "'return' outside a function fails in a script.")
                return
        elif not self.loops:
            return
        self.left = "sure"

    def _foreign(self, name: str, word: Word, rest: list[Word]) -> None:
        source = " ".join(part.raw for part in rest)
        if name != "eval":
            self.finding(
                word.start,
                "sourced",
                f"What {source.split(' ')[0] or 'this file'} sets is not known: it is read only when the script runs.",
            )
            return
        self.finding(word.start, "eval", "What this eval does is only known when the script runs.")
        for name in dict.fromkeys((*_EVALUATED.findall(source), *_EXPORTED.findall(source))):
            before = self.state.get(name)
            self.fill(name, word.start, word.end, unknown("eval", source, self.state.mentioned(source)), "eval")
            self.state.put(name, self.state.get(name)._replace(exported=before.exported or None, set=None))

    def _settings(self, name: str, word: Word, rest: list[Word]) -> None:
        texts = [self.text_of(part) for part in rest]
        if name == "shopt" and "-s" in texts:
            if "expand_aliases" in texts:
                self.aliases = True
            if "lastpipe" in texts:
                self.refuse(word.start, "'shopt -s lastpipe' changes what pipelines set.")
        elif name == "alias" and rest and self.aliases:
            self.refuse(word.start, "Aliases are expanded in this script, and are not followed.")
        elif name == "enable" and rest:
            self.refuse(word.start, "'enable' changes what the commands of this script are.")
        elif name == "trap" and any(text in ("DEBUG", "ERR", "RETURN") for text in texts):
            source = rest[0].raw if rest else ""
            if _EVALUATED.search(source) or _EXPORTED.search(source):
                self.refuse(word.start, "This trap sets variables.")

    def _function(self, name: str, command: Simple) -> bool:
        mark = self.state.mark()
        if not command.assigns:
            return self.call(name)
        names = [match.group(1) for match in (ASSIGNMENT.match(word.raw) for word in command.assigns) if match]
        before = {each: self.state.get(each) for each in names}
        for word in command.assigns:
            self.assign(word, "prefix", True)
        if self.call(name):
            for each, variable in before.items():
                self.state.put(each, variable)
            return True
        self.state.undo(mark)
        return False

    def _exec(self, command: Simple, words: list[Word]) -> None:
        words, clears = exec_words(words)
        if not words:
            return
        self._launch(command, words, True, clears)

    def _external(self, command: Simple, words: list[Word]) -> None:
        if engine_words([word.raw for word in words]):
            self._launch(command, words, False, False)

    def _launch(self, command: Simple, words: list[Word], is_exec: bool, clears: bool) -> None:
        """The engine's start: what stands in front of the command is for it alone."""
        mark = self.state.mark()
        for word in command.assigns:
            self.assign(word, "prefix", True)
        environment = environment_words(words)
        if clears or (environment and environment.clears):
            self.finding(command.start, "cleared", "The environment is cleared for this command.")
            for name, variable in list(self.state.variables.items()):
                self.state.put(name, variable._replace(exported=False, exporters=()))
        if environment:
            for name in environment.unsets:
                self.state.put(name, Variable("", False, False))
            values = [self.value_of(word, word.raw.index("=") + 1, "env") for word in environment.assigns]
            for word, value in zip(environment.assigns, values):
                self.state.put(word.raw.split("=")[0], Variable("", False, False))
                self.assign(word, "env", True, value)
            if environment.unclear:
                self.refuse(environment.unclear.start, "This word of 'env' is not understood.")
        self.start(command.start, command.end, is_exec)
        self.state.undo(mark)

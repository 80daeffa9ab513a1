# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What one simple command does to the variables and to what is exported.

After bash's manual: assignments, ``export``, ``declare`` and relatives, ``unset``, ``set``, and the
commands that give variables values that only a run can tell.
"""

from __future__ import annotations

import re
from typing import Callable, Optional

from .assignments import ASSIGNMENT, Assignments
from .expansion import expand
from .launch import INSIDE, engine_words, environment_words, exec_words
from .nodes import Simple, Word
from .state import COMPUTED, Value, Variable, concatenated, static, unknown

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ARITHMETIC = re.compile(r"(?:\+\+|--)[ \t]*([A-Za-z_]\w*)|([A-Za-z_]\w*)[ \t]*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))")
_EVALUATED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_EXPORTED = re.compile(r"\b(?:export|unset)[ \t]+(?:-[a-z]+[ \t]+)*([A-Za-z_][A-Za-z0-9_]*)")

_OPERATOR = re.compile(r"[0-9]*[<>&|]+[ \t]*")
_HARMLESS = re.compile(r"[0-9]*(?:>>?[ \t]*/dev/null|>&[ \t]*[0-9]|<<)")
_NO_ARITHMETIC = re.compile(r"\$\(\([^)]*(?:[\\';`.]|(?<!\[)@|(?<!\{)#)")
_DECLARING = ("declare", "typeset", "local", "readonly")
_TELLING = ("export", "declare", "typeset", "local", "readonly", "unset", "set", "eval")
_FILLING = ("read", "mapfile", "readarray", "getopts", "let", "wait", "printf")


class Commands(Assignments):
    """The part of the walk that knows the commands; ``Walk`` adds the order in which they run."""

    # -- what the walk provides

    def call(self, name: str) -> bool:
        raise NotImplementedError

    def is_function(self, name: str) -> bool:
        raise NotImplementedError

    def call_any(self) -> None:
        raise NotImplementedError

    def start(self, command: Simple, is_exec: bool) -> None:
        raise NotImplementedError

    # -- simple commands

    def simple(self, command: Simple) -> None:
        self.command = command
        if command.export is not None and self._plain_export(command, *command.export):
            return
        for word in (*command.assigns, *command.words, *command.redirects):
            raw = word.raw
            if "$" in raw or "`" in raw or "(" in raw:
                if "=" in raw and (word not in command.assigns or command.words):
                    self.defaults(word)
                if "(" in raw or "`" in raw:
                    self._inside(word)
        if not command.words:
            if command.assigns:
                self._redirected(command)
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
        if name in _TELLING:
            self._redirected(command)
        if name == "export":
            self._export(rest, command)
        elif name in _DECLARING:
            self._declare(name, command.start, rest)
        elif name == "unset":
            self._unset(rest)
        elif name == "set":
            self._set(rest)
        elif name in _FILLING:
            self._fill(name, command.start, rest)
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

    # -- export and relatives

    def _plain_export(self, command: Simple, name: str, value: str) -> bool:
        """The short way for ``export NAME=value``; False when there is something to it after all."""
        before = self.state.variables.get(name)
        if before is not None and (before.array or before.integer or before.readonly is not False):
            return False
        if name in COMPUTED or self.is_function("export"):
            return False
        word = command.words[1]
        size = len(name)
        place = self.place(name, word.start, word.end, word.start + size, size + 1, "export")
        self.note(place, value)
        place.shown = True
        exporters = (place,) if before is None else (*before.exporters, place)
        self.state.put(name, Variable(value, True, True, place, (), exporters))
        return True

    def _inside(self, word: Word) -> None:
        """What is run inside a word and could mislead the reader."""
        if INSIDE.search(word.raw):
            self.refuse(word.start, "An engine seems to be started inside a substitution here.")
        if "((" in word.raw and _NO_ARITHMETIC.search(word.raw):
            self.refuse(word.start, "This arithmetic is not understood, and may fail.")

    def _redirected(self, command: Simple) -> None:
        """A redirection that fails keeps the command from doing anything."""
        for redirect in command.redirects:
            if not _HARMLESS.match(redirect.raw):
                self.refuse(redirect.start, f"{redirect.raw} may fail, and then this command does nothing.")

    def _export(self, words: list[Word], command: Simple) -> None:
        words, flags = self._options(words, "fnp")
        if flags is None or "f" in flags or "p" in flags:
            return
        if "?" in flags:
            self.refuse(command.start, "What this export does is only known when the script runs.")
            return
        named = {match.group(1) for match in (ASSIGNMENT.match(word.raw) for word in command.assigns) if match}
        self._names(words, "export", "n" not in flags, named, lambda word: None)

    def _options(self, words: list[Word], allowed: str) -> tuple[list[Word], Optional[str]]:
        """The words behind the options, and the options' letters (``+x`` gives ``+x``, unknown ones ``?``).

        None instead of the letters when bash refuses one of them, and so the whole command.
        """
        flags = ""
        for index, word in enumerate(words):
            if word.raw[:1] not in "-+'\"\\$":
                return words[index:], flags
            text = self.text_of(word)
            if text == "--":
                return words[index + 1 :], flags
            if text is None and word.raw[:1] in "-+":
                flags += "?"
                continue
            if not text or len(text) == 1 or text[0] not in "-+" or (text[0] == "+" and "+" not in allowed):
                return words[index:], flags
            if any(letter not in allowed for letter in text[1:]):
                self.finding(word.start, "not-understood", f"{word.raw} is no option here: the command fails.")
                return [], None
            flags += "".join("+" + letter for letter in text[1:]) if text[0] == "+" else text[1:]
        return [], flags

    def _names(
        self, words: list[Word], form: str, exported: Optional[bool], named: set[str], after: Callable[[Word], None]
    ) -> None:
        # bash expands all words before the command sees the first of them
        values: list[tuple[bool, Value]] = []
        for word in words:
            match = ASSIGNMENT.match(word.raw)
            if match:
                values.append((True, self.value_of(word, match.end(), form)))
            else:
                values.append((False, expand(word.raw, self.state, assignment=False, braces=True)))
        for word, (assigns, value) in zip(words, values):
            if assigns:
                self.assign(word, form, exported, value)
            else:
                self._named(word, value, form, exported, named)
            after(word)

    def _named(self, word: Word, whole: Value, form: str, exported: Optional[bool], named: set[str]) -> None:
        """One word of ``export`` or ``declare`` that is not written as an assignment: a name, or quoted."""
        text = whole if isinstance(whole, str) else whole[0] if isinstance(whole[0], str) else ""
        match = ASSIGNMENT.match(text)
        if match and not match.group(2):
            rest = () if isinstance(whole, str) else whole[1:]
            self._quoted(word, concatenated([text[match.end() :], rest]), match, form, exported)
        elif not isinstance(whole, str):
            self.finding(word.start, "unknown-names", f"Which names {word.raw} exports is only known at run time.")
        elif _IDENTIFIER.match(text):
            if text in named:
                self.refuse(word.start, f"{text} is given in front of a command that exports it.")
            self._export_name(text, word, form, exported)
        else:
            self.finding(word.start, "not-a-name", f"{word.raw} is not a name that bash can export.")

    def _quoted(self, word: Word, value: Value, match: re.Match[str], form: str, exported: Optional[bool]) -> None:
        """``export "NAME=value"``."""
        name = match.group(1)
        before = self.state.get(name)
        place = self.place(name, word.start, word.end, word.start, 0, form)
        if before.integer:
            self.refuse(word.start, f"{name} is declared as a number, and what is assigned here may be none.")
        if match.group(3) == "+=" or before.array or before.integer or name in COMPUTED:
            value = unknown("changed", name, value, before.value)
        self.note(place, value)
        if before.readonly is not False:
            self._protected(name, word, place, before, form, exported)
            return
        if exported is None:
            exported = before.exported if before.exported or self.allexport is False else self.allexport
        elif form == "declare" and not exported and self.allexport is not False:
            exported = self.allexport
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
            self.note(place, before.value)
            place.shown = True
            variable = variable._replace(origin=place)
        self.state.put(name, variable)

    def _declare(self, command: str, start: int, words: list[Word]) -> None:
        words, flags = self._options(words, "aAfFgiIlnrtuxp+" if command != "readonly" else "aAfp")
        if flags is None:
            return
        if "?" in flags or "n" in flags.replace("+n", ""):
            self.refuse(words[0].start if words else start, f"This {command} is not understood.")
            return
        if "f" in flags or "F" in flags or "p" in flags:
            return
        if command == "local" and self.frame() is None:
            self.finding(start, "not-understood", "'local' outside a function fails.")
            return
        exported: Optional[bool] = False if "+x" in flags else (True if "x" in flags else None)
        frame = self.frame()
        local = frame is not None and command != "readonly" and "g" not in flags
        named = [self._declared(word) for word in words]
        for text, given in named:
            if not text:
                continue
            before = self.state.get(text)
            if local and frame:
                frame[1].setdefault(text, before)
                before = before._replace(readonly=False, array=False, integer=False)
                if not given:
                    # a local name without a value hides the outer one from the script, not from its children
                    hidden = unknown("local", before.value) if before.exported is not False else ""
                    before = before._replace(value=hidden, set=None if before.exported is not False else False)
                self.state.put(text, before)
            if set(flags.replace("+x", "")) & set("iluaA"):
                self.state.put(
                    text,
                    before._replace(
                        integer=before.integer or bool(set(flags) & set("ilu")),
                        array=before.array or bool(set(flags) & set("aA")),
                    ),
                )
        readonly = command == "readonly" or "r" in flags

        def protect(word: Word) -> None:
            name = self._declared(word)[0] if readonly else ""
            if name:
                self.state.put(name, self.state.get(name)._replace(readonly=True))

        self._names(words, "declare", exported, set(), protect)

    def _declared(self, word: Word) -> tuple[str, bool]:
        """The name that a word declares ('' when that is not known), and whether it gives a value too."""
        match = ASSIGNMENT.match(word.raw)
        if match:
            return match.group(1), True
        whole = expand(word.raw, self.state, assignment=False, braces=True)
        text = whole if isinstance(whole, str) else whole[0] if isinstance(whole[0], str) else ""
        match = ASSIGNMENT.match(text)
        if match:
            return match.group(1), True
        return (text, False) if isinstance(whole, str) and _IDENTIFIER.match(text) else ("", False)

    def _unset(self, words: list[Word]) -> None:
        words, flags = self._options(words, "fvn")
        if flags is None or "f" in flags:
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
        """``set``: bash looks at all its options before it obeys the first, so a wrong one undoes all."""
        switches: list[tuple[str, bool]] = []
        index = 0
        while index < len(words):
            text = self.text_of(words[index])
            if text is None or text in ("--", "-") or text[:1] not in ("-", "+"):
                break
            for letter in text[1:]:
                if letter not in "abefhkmnptuvxBCEHPTo":
                    self.finding(words[0].start, "not-understood", f"'set' has no option {letter!r}, and fails.")
                    return
                option = letter
                if letter == "o":
                    index += 1
                    option = (self.text_of(words[index]) or "?") if index < len(words) else ""
                switches.append((option, text[0] == "-"))
            index += 1
        for option, on in switches:
            if option in ("a", "allexport"):
                self.allexport = on
            elif option in ("u", "nounset"):
                self.nounset = on
            elif option in ("k", "keyword", "posix", "n", "noexec", "?") and on:
                self.refuse(words[0].start, f"'set' changes how bash reads the script here ({option}).")

    def _fill(self, command: str, start: int, words: list[Word]) -> None:
        """Commands that give variables values: each word that can be a name is taken for one."""
        if command in ("printf", "wait"):
            flag = "-v" if command == "printf" else "-p"
            words = [after for word, after in zip(words, words[1:]) if word.raw == flag]
        form = "command"
        implied = {
            "getopts": ("OPTIND", "OPTARG"),
            "mapfile": ("MAPFILE",),
            "readarray": ("MAPFILE",),
            "read": ("REPLY",),
        }
        for each in implied.get(command, ()):
            self.fill(each, start, start, unknown("filled", each, command), form)
        if command in ("mapfile", "readarray") or any(re.match(r"-[a-zA-Z]*a", word.raw) for word in words):
            form = "array"
        for word in words:
            if command == "let":
                self.arithmetic(word.raw, word.start)
                continue
            name = self.text_of(word)
            if name and _IDENTIFIER.match(name):
                self.fill(
                    name, word.start, word.end, unknown("filled", name, command, *(each.raw for each in words)), form
                )

    def arithmetic(self, source: str, start: int) -> None:
        for match in _ARITHMETIC.finditer(source):
            name = match.group(1) or match.group(2)
            self.fill(
                name, start, start + len(source), unknown("arithmetic", source, self.state.mentioned(source)), "command"
            )

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
        if not command.assigns or not self.is_function(name):
            return self.call(name)
        names = [match.group(1) for match in (ASSIGNMENT.match(word.raw) for word in command.assigns) if match]
        before = {each: self.state.get(each) for each in names}
        for word in command.assigns:
            self.assign(word, "prefix", True)
        self.call(name)
        for each, variable in before.items():
            self.state.put(each, variable)
        return True

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
            self._environment(environment.assigns)
            if environment.unclear:
                self.refuse(environment.unclear.start, "This word of 'env' is not understood.")
        for redirect in command.redirects:
            self._file_name(redirect)
        self.start(command, is_exec)
        self.state.undo(mark)

    def _environment(self, words: list[Word]) -> None:
        """The assignments of an ``env``: words like others, so ``env "A=a b"`` is as good as ``env A="a b"``."""
        values = [expand(word.raw, self.state, assignment=False, braces=True) for word in words]
        for word, whole in zip(words, values):
            text = whole if isinstance(whole, str) else whole[0] if isinstance(whole[0], str) else ""
            match = ASSIGNMENT.match(text)
            if match is None or match.group(2) or match.group(3) != "=":
                self.refuse(word.start, f"This word of 'env' is not understood: {word.raw}.")
                continue
            rest = () if isinstance(whole, str) else whole[1:]
            value = concatenated([text[match.end() :], rest])
            self.state.put(match.group(1), Variable("", False, False))
            if ASSIGNMENT.match(word.raw):
                self.assign(word, "env", True, value)
            else:
                self._quoted(word, value, match, "env", True)

    def _file_name(self, redirect: Word) -> None:
        """A file name that falls into several words, or is empty, keeps the engine from being started."""
        target = _OPERATOR.sub("", redirect.raw, count=1)
        if "$" not in target or redirect.raw.startswith("<<"):
            return
        if static(expand(target, self.state, assignment=True)) is None:
            return
        if not static(expand(target, self.state, assignment=False)):
            self.refuse(redirect.start, f"The file name in {redirect.raw} would not be one word")

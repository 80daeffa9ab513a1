# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What one simple command does to the variables and to what is exported.

After bash's manual: assignments, ``export``, ``declare`` and relatives, ``unset``, ``set``, and the
commands that give variables values that only a run can tell.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Callable

from .assignments import ASSIGNMENT
from .expansion import expand
from .filling import Filling
from .indirect import before_the_engine, is_container, is_wrapper, shell_of
from .launch import HELPERS, INSIDE, base_name, engine_words, environment_words, exec_words, names_engine
from .nodes import Simple, Word
from .state import Variable, concatenated, static, unknown

_EVALUATED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_EXPORTED = re.compile(r"\b(?:export|unset)[ \t]+(?:-[a-z]+[ \t]+)*([A-Za-z_][A-Za-z0-9_]*)")

_OPERATOR = re.compile(r"[0-9]*[<>&|]+[ \t]*")
HARMLESS = re.compile(r"[0-9]*(?:&?>>?[ \t]*/dev/null\Z|<[ \t]*/dev/null\Z|[<>]&[ \t]*[012-]\Z|<<)")
_NO_ARITHMETIC = re.compile(r"\$\(\([^)]*(?:[\\';`.]|(?<!\[)@|(?<!\{)#)")
_EXPANSION = re.compile(r"\$\w+|\$[@*]|\$\{[^}]*\}|\$\([^)]*\)|`[^`]*`")
_MAY_VANISH = re.compile(r"(?:\$\w+|\$[@*]|\$\{[^}]*\}|`[^`]*`)*(?:\$\(.*\))?\Z", re.DOTALL)
_WORDS = re.compile(r"[\w.:-]+")
_IN_BRACKETS = re.compile(r"\$\[[^\]]*=|\$\{[!#]?\w+(?:\[[^\]]*=|:[ \t]*[^-=+?}][^}]*=)")
_SUBSCRIPT = re.compile(r"[\w(]\[[^\]'\"$]*(?:[\w \t+*/%&|^-]=[^=]|\+\+|--)")
_BY_REFERENCE = re.compile(r"\$\{!\w+:?=")
_DECLARING = ("declare", "typeset", "local", "readonly")
_TELLING = ("export", "declare", "typeset", "local", "readonly", "unset", "set", "eval")
_FILLING = ("read", "mapfile", "readarray", "getopts", "let", "wait", "printf")


class Commands(Filling):
    """The part of the walk that knows the commands; ``Walk`` adds the order in which they run."""

    # -- what the walk provides

    def call(self, name: str) -> bool:
        raise NotImplementedError

    def _call_quietly(self, name: str) -> None:
        self.call(name)

    def call_any(self) -> None:
        raise NotImplementedError

    def branches(self, ways: list[Callable[[], None]], *, covered: bool, guard: str) -> None:
        raise NotImplementedError

    def forget_function(self, name: str, sure: bool) -> None:
        raise NotImplementedError

    def start(self, command: Simple, is_exec: bool) -> None:
        raise NotImplementedError

    # -- simple commands

    def simple(self, command: Simple) -> None:
        self.command = command
        if command.export is not None and self.plain_export(command, *command.export):
            self.state.last = command
            return
        if command.redirects:
            self.numbered(command.redirects)
        for word in (*command.assigns, *command.words, *command.redirects):
            raw = word.raw
            if "[" in raw and _SUBSCRIPT.search(raw):
                self.arithmetic(raw[raw.index("[") :], word.start)
            if "$" in raw or "`" in raw or "(" in raw:
                if "=" in raw and (word not in command.assigns or command.words):
                    self.defaults(word)
                if "(" in raw or "`" in raw:
                    self.inside(word)
                if "${!" in raw and _BY_REFERENCE.search(raw):
                    self.by_reference(word)
                if "=" in raw and _IN_BRACKETS.search(raw):
                    self.arithmetic(raw, word.start)
        if not command.words:
            if command.assigns:
                self._redirected(command)
            for word in command.assigns:
                self.assign(word, "assignment", None)
            self.state.last = command
            return
        self._obeyed(command, command.words)
        self.state.last = command

    def _obeyed(self, command: Simple, words: list[Word]) -> None:
        """What a command's words do."""
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
            self.command_from(words)
            self._external(command, words)
            self.call_any()
            if _EXPANSION.sub("", words[0].raw).strip("'\"") in _TELLING:
                self.refuse(words[0].start, f"Whether {words[0].raw} is a command that exports is only known in a run.")
            if len(words) > 1 and _MAY_VANISH.match(words[0].raw) and self._counts(words[1]):
                self.branches([partial(self._obeyed, command, words[1:])], covered=False, guard=words[0].raw)
            return
        if plain and self.is_function(name) and any(not HARMLESS.match(each.raw) for each in command.redirects):
            # where one of them fails the function is not called
            self.branches([partial(self._call_with, name, command)], covered=False, guard="")
            return
        if plain and self._function(name, command):
            return
        rest = words[1:]
        if name in _TELLING:
            self._redirected(command)
        if name == "export":
            self.export_words(rest, command)
        elif name in _DECLARING:
            self.declare_words(name, command.start, rest)
        elif name == "unset":
            self._unset_functions(rest)
            self.unset_words(rest)
        elif name == "set":
            self._set(rest)
        elif name in ("cd", "pushd", "popd"):
            self.state.folder = hash((self.state.folder, *(word.raw for word in words)))
        elif name == "shift":
            self.state.arguments = hash(("shift", self.state.arguments, *(word.raw for word in rest)))
        elif name in _FILLING:
            self.filled(name, command.start, rest)
        elif name == "exec":
            self._exec(command, rest)
        elif name == "exit":
            self.exits += 1
            self.ended = True
        elif name in ("return", "break", "continue"):
            self._leave(name, words[0])
        elif name in ("eval", ".", "source"):
            self._foreign(name, words[0], rest)
            if self.guessing and name == "eval":
                self._launch(command, words, False, False)
        elif name in ("alias", "shopt", "trap", "enable"):
            self._settings(name, words[0], rest)
        else:
            self._external(command, words)

    def _counts(self, word: Word) -> bool:
        """Whether a command's name matters when the word before it, as in ``$SUDO export A=1``, expands to nothing."""
        name = self.text_of(word)
        return name is None or name in (*_TELLING, *_FILLING, "builtin", "command") or self.is_function(name)

    def inside(self, word: Word) -> None:
        """What is run inside a word and could mislead the reader."""
        if INSIDE.search(word.raw):
            self.refuse(word.start, "An engine seems to be started inside a substitution here.")
        if "((" in word.raw and _NO_ARITHMETIC.search(word.raw):
            self.refuse(word.start, "This arithmetic is not understood, and may fail.")
        elif "$((" in word.raw:
            self.arithmetic(word.raw[word.raw.index("$((") :], word.start)

    def _redirected(self, command: Simple) -> None:
        """A redirection that fails keeps the command from doing anything."""
        for redirect in command.redirects:
            if not HARMLESS.match(redirect.raw):
                self.refuse(redirect.start, f"{redirect.raw} may fail, and then this command does nothing.")

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
        if index < len(words):
            self.state.arguments = hash(("set", *(word.raw for word in words[index:])))
        for option, on in switches:
            if option in ("e", "errexit"):
                self.errexit = self.errexit or on
            if option in ("a", "allexport"):
                self.allexport = on
            elif option in ("u", "nounset"):
                self.nounset = on
            elif option in ("k", "keyword", "posix", "n", "noexec", "?") and on:
                self.refuse(words[0].start, f"'set' changes how bash reads the script here ({option}).")

    def _unset_functions(self, words: list[Word]) -> None:
        """``unset -f NAME``; without an option a function goes when there is no variable of the name."""
        texts = [self.text_of(word) for word in words]
        for name in texts:
            if name and "-v" not in texts and "-n" not in texts:
                known = self.state.get(name).set
                if "-f" in texts or known is not True:
                    self.forget_function(name, "-f" in texts or known is False)

    def _leave(self, name: str, word: Word) -> None:
        if name == "return":
            if self.frame() is None:
                self.finding(word.start, "not-understood", "'return' outside a function fails in a script.")
                return
            self.returns += 1
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
            redirects = [each.raw for each in self.command.redirects] if self.command else []
            if "(" in source or redirects or "/dev/stdin" in source:
                self.text_from(word, " ".join((source, *redirects)))
            return
        if "$" in source:
            self.text_from(word, source)
        else:
            self.evaluated(word, rest)
        self.finding(word.start, "eval", "What this eval does is only known when the script runs.")
        for name in dict.fromkeys(_WORDS.findall(source)):
            if self.is_function(name):
                self.branches([partial(self._call_quietly, name)], covered=False, guard=source)
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
        elif name == "trap" and rest and set(texts[1:]) - {"EXIT", "0"}:
            if _EXPORTED.search(rest[0].raw):
                self.text_from(word, rest[0].raw)
            else:
                self.told_by(word, rest[0].raw)
        if name == "trap" and any(text in ("DEBUG", "ERR", "RETURN") for text in texts):
            source = rest[0].raw if rest else ""
            calls = any(self.is_function(each) for each in _WORDS.findall(source))
            if calls or _EVALUATED.search(source) or _EXPORTED.search(source):
                self.refuse(word.start, "This trap sets variables.")

    def _call_with(self, name: str, command: Simple) -> None:
        self._function(name, command)

    def _function(self, name: str, command: Simple) -> bool:
        if not command.assigns or not self.is_function(name):
            return self.call(name)
        names = [match.group(1) for match in (ASSIGNMENT.match(word.raw) for word in command.assigns) if match]
        before = {each: self.state.get(each) for each in names}
        for word in command.assigns:
            self.assign(word, "prefix", True)
        given = {each: self.state.get(each) for each in names}
        self.call(name)
        for each, variable in given.items():
            if self.state.get(each) != variable:
                self.refuse(command.start, f"{each} is given in front of a function that changes it.")
        for each, variable in before.items():
            self.state.put(each, variable)
        return True

    def _exec(self, command: Simple, words: list[Word]) -> None:
        words, clears = exec_words(words)
        if not words:
            return
        if not engine_words([word.raw for word in words]):
            self.exits += 1
        self._launch(command, words, True, clears)

    def _external(self, command: Simple, words: list[Word]) -> None:
        guessed = self.guessing and base_name(words[0].raw) not in HELPERS
        if guessed or engine_words([word.raw for word in words]) or self._shell_starts(words):
            self._launch(command, words, False, False)

    def _shell_starts(self, words: list[Word]) -> bool:
        """Whether a shell is run here whose own commands start an engine."""
        shell = shell_of(words) if is_wrapper(words[0].raw) else None
        return shell is not None and shell.source is not None and names_engine(self.behind(shell.source.raw))

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
        shell = shell_of(words)
        before = before_the_engine(words, environment is not None)
        if is_exec and not (shell or is_container(words[0].raw) or engine_words([word.raw for word in words])):
            self.told_by(words[0], " ".join(word.raw for word in words))
        if shell:
            self.run_by_shell(shell, words[0])
        elif before:
            self.prefixed_from(before)
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
                self.quoted_assignment(word, value, match, "env", True)

    def _file_name(self, redirect: Word) -> None:
        """A file name that falls into several words, or is empty, keeps the engine from being started."""
        target = _OPERATOR.sub("", redirect.raw, count=1)
        if "$" not in target or redirect.raw.startswith("<<"):
            return
        if static(expand(target, self.state, assignment=True)) is None:
            return
        if not static(expand(target, self.state, assignment=False)):
            self.refuse(redirect.start, f"The file name in {redirect.raw} would not be one word")

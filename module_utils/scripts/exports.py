# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""``export``, ``declare`` and relatives, ``unset``: what they do to the variables."""

from __future__ import annotations

import re
from typing import Callable, Optional

from .assignments import ASSIGNMENT
from .expansion import QUOTED, expand
from .indirect import Indirect
from .nodes import Simple, Word
from .state import COMPUTED, Place, Value, Variable, concatenated, unknown

_EXPANDED = re.compile(r"[$`]")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Exports(Indirect):
    """The commands that decide what is exported."""

    def is_function(self, name: str) -> bool:  # the walk provides it
        raise NotImplementedError

    def plain_export(self, command: Simple, name: str, value: str) -> bool:
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

    def export_words(self, words: list[Word], command: Simple) -> None:
        words, flags = self._options(words, "fnp")
        if flags is None or "f" in flags:
            return  # with -p names are exported all the same
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
            if "{" in word.raw and not assigns and self.braced(word, exported):
                after(word)
                continue
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
            if rest and _EXPANDED.search(QUOTED.sub("", word.raw)):
                self.any_name(word, f"What else {word.raw} exports is only known at run time.", form, exported)
            self.quoted_assignment(word, concatenated([text[match.end() :], rest]), match, form, exported)
        elif not isinstance(whole, str):
            if exported:
                self.composed(word, whole)
            self.any_name(word, f"Which names {word.raw} exports is only known at run time.", form, exported)
        elif IDENTIFIER.match(text):
            if text in named:
                self.refuse(word.start, f"{text} is given in front of a command that exports it.")
            self._export_name(text, word, form, exported)
        else:
            self.finding(word.start, "not-a-name", f"{word.raw} is not a name that bash can export.")

    def any_name(self, word: Word, sentence: str, form: str = "command", exported: Optional[bool] = None) -> None:
        """A command changes a variable whose name only a run tells: it may be any."""
        self.finding(word.start, "unknown-names", sentence)
        if self.dead or self.subshell:
            return
        self.unclear = (max(self.outer[1], word.end), word.start)
        for name, before in list(self.state.variables.items()):
            place = Place(name, word.start, word.end, word.start, -1, "command")
            place.shown, place.conditional, place.order = False, True, self.order
            value = unknown("any", word.raw, before.value)
            now = before._replace(value=value, maybe=(*before.maybe, place))
            if form == "unset":
                now = now._replace(set=None)
            elif before.exported is not exported and exported is not None:
                now = now._replace(exported=None)
            self.state.put(name, now._replace(set=before.set or None))

    def quoted_assignment(
        self, word: Word, value: Value, match: re.Match[str], form: str, exported: Optional[bool]
    ) -> None:
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
        decided = before.origin is not None and before.origin.value_start >= 0
        for origin in (before.origin, *before.maybe):
            if origin is not None and origin.value_start >= 0:
                origin.shown = True
        variable = before._replace(exported=True, exporters=(*before.exporters, place))
        if not decided and not before.maybe:
            self.note(place, before.value)
            place.shown = True
            variable = variable._replace(origin=place)
        self.state.put(name, variable)

    def declare_words(self, command: str, start: int, words: list[Word]) -> None:
        words, flags = self._options(words, "aAfFgiIlnrtuxp+" if command != "readonly" else "aAfp")
        if flags is None:
            return
        if "?" in flags or "n" in flags.replace("+n", ""):
            self.refuse(words[0].start if words else start, f"This {command} is not understood.")
            return
        if "f" in flags or "F" in flags or ("p" in flags and command != "readonly"):
            return
        if command == "local" and self.frame() is None:
            self.finding(start, "not-understood", "'local' outside a function fails.")
            return
        exported: Optional[bool] = False if "+x" in flags else (True if "x" in flags else None)
        frame = self.frame()
        local = frame is not None and command != "readonly" and "g" not in flags
        named = [self._declared(word) for word in words]
        if frame and "g" in flags and any(text in each[1] for text, _ in named for each in self.frames):
            self.refuse(words[0].start, "This -g passes by a local variable of the name.")
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
            if readonly and not name:
                self.refuse(word.start, f"Which names {word.raw} makes readonly is not known.")
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
        return (text, False) if isinstance(whole, str) and IDENTIFIER.match(text) else ("", False)

    def unset_words(self, words: list[Word]) -> None:
        words, flags = self._options(words, "fvn")
        if flags is None or "f" in flags:
            return
        for word in words:
            name = self.text_of(word)
            if name is None and "{" in word.raw and "n" not in flags and self.unset_many(word):
                continue
            if name is None or "n" in flags:
                self.any_name(word, f"Which name {word.raw} unsets is not known.", "unset")
            elif IDENTIFIER.match(name):
                if not self.state.get(name).readonly:
                    self.state.put(name, Variable("", False, False))
            elif IDENTIFIER.match(name.split("[")[0]):
                self.fill(name.split("[")[0], word.start, word.end, unknown("element", word.raw), "command")

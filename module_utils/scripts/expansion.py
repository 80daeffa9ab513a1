# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What bash would make of a word, as far as that can be known without running anything."""

from __future__ import annotations

import re
from typing import Callable, Optional

from .nodes import Trouble
from .state import COMPUTED, State, Unknown, Value, concatenated, static, unknown
from .words import arithmetic_end, backtick_end, brace_end, single_end

# Words that are their own value, in every position.
_LITERAL = re.compile(r"[^\\'\"$`~{}*?\[\]()<>!\x00-\x20]*\Z")
_SINGLE = re.compile(r"'([^']*)'\Z")
_DOUBLE = re.compile(r'"([^"\\$`]*)"\Z')
_QUOTED_DEFAULT = re.compile(r"""\"\$\{([A-Za-z_][A-Za-z0-9_]*):?-[^"'`$\\{}]*\}\"\Z""")
_RUN = re.compile(r"[^\\'\"$`~<>]+")
_DOUBLE_RUN = re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-=+?])?")
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
QUOTED = re.compile(r"\$'(?:[^'\\]|\\.)*'|'[^']*'|\$?\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_PAIR = re.compile(r"\\(.)", re.DOTALL)
_SPLIT = re.compile(r"[ \t\n*?\[\]\\]")
_ANSI = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


class _Words:
    """The scanner for words that were already read once: it only has to find ends again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0

    def substitution(self, at: int) -> int:
        from .grammar import Grammar

        return Grammar(self.text).substitution(at)

    def array(self, at: int) -> int:
        raise Trouble(at, "an array has no place here")


def expand(
    raw: str,
    state: State,
    *,
    assignment: bool,
    braces: bool = False,
    assign: Optional[Callable[[str, Value], None]] = None,
) -> Value:
    """The value of a word (of an assignment's right side when ``assignment``).

    :param braces: brace expansion happens here (words, also those of ``export``; not plain assignments).
    :param assign: is told what ``${NAME:=value}`` assigns.
    """
    if _LITERAL.match(raw) or raw == "[":
        return raw
    quoted = _SINGLE.match(raw) or _DOUBLE.match(raw)
    if quoted:
        return quoted.group(1)
    default = _QUOTED_DEFAULT.match(raw)
    if default and default.group(1) not in state.variables and default.group(1) not in COMPUTED:
        # "${NAME:-plain}" of a name that only the caller can have set, as many scripts begin with
        return unknown("default", raw)
    if "\\\n" in raw:
        raw = joined_lines(raw)
    try:
        return _Expansion(raw, state, assignment, braces, assign).whole()
    except (Trouble, RecursionError):
        return unknown("word", raw, state.mentioned(raw))


def joined_lines(raw: str) -> str:
    """A word without its line continuations, which bash takes away before it looks at anything else. With a command in
    it the word stays as it is: the command's quotes are not this word's."""
    return raw if "$(" in raw or "`" in raw else QUOTED.sub(_joined_piece, raw)


def _joined_piece(match: re.Match[str]) -> str:
    piece = match.group()
    if piece.startswith(("'", "$'")):
        return piece
    return _PAIR.sub(lambda pair: "" if pair.group(1) == "\n" else pair.group(), piece)


class _Expansion:
    def __init__(
        self,
        raw: str,
        state: State,
        assignment: bool,
        braces: bool,
        assign: Optional[Callable[[str, Value], None]],
    ) -> None:
        self.raw = raw
        self.state = state
        self.assignment = assignment
        self.braces = braces
        self.assign = assign
        self.scanner = _Words(raw)
        self.split = False  # an unquoted expansion or pattern that may become several words

    def whole(self) -> Value:
        if self.braces and _BRACES.search(self.raw) and self._unquoted_brace():
            return unknown("braces", self.raw, self.state.mentioned(self.raw))
        value = self._pieces(0, len(self.raw), quoted=False, start=True)
        if self.split and not self.assignment:
            # the beginning is certain, for the sake of export "NAME"=$VALUE
            certain = value if isinstance(value, str) else value[0] if value and isinstance(value[0], str) else ""
            return concatenated([certain, Unknown(hash(("split", self.raw, value)))])
        return value

    def _unquoted_brace(self) -> bool:
        """Whether some opening brace is outside quotes and not a variable's: judged on the safe side."""
        return "{" in QUOTED.sub("", self.raw).replace("${", "")

    def _pieces(self, at: int, end: int, *, quoted: bool, start: bool = False) -> Value:
        raw = self.raw
        out: list[object] = []
        while at < end:
            char = raw[at]
            if char == "\\":
                following = raw[at + 1 : at + 2]
                if following == "\n":
                    pass
                elif quoted and following not in ("$", "`", '"', "\\", "}"):
                    out.append("\\" + following)
                else:
                    out.append(following or "\\")
                at += 2
            elif char == "'" and not quoted:
                stop = single_end(raw, at)
                out.append(raw[at + 1 : stop - 1])
                at = stop
            elif char == '"':
                # inside "${A:-"b c"}" the inner quotes are quotes too
                at = self._double(at + 1, out)
            elif char == "$":
                at = self._dollar(at, quoted, out)
            elif char == "`":
                stop = backtick_end(raw, at)
                self._run_inside(raw[at:stop], quoted, out)
                at = stop
            elif char == "~" and not quoted and self._tilde(at, start):
                stop = at + 1
                while stop < end and raw[stop] not in "/:\\'\"$`":
                    stop += 1
                # with anything quoted or expanded in its name it is a plain character
                plain = stop < end and raw[stop] not in "/:"
                out.append(raw[at:stop] if plain else Unknown(hash(("home", raw[at:stop]))))
                at = stop
            elif char in "<>" and not quoted and raw.startswith("(", at + 1):
                raise Trouble(at, "a process substitution has no value that can be known")
            else:
                run = (_DOUBLE_RUN if quoted else _RUN).match(raw, at, end)
                text = run.group() if run else char
                if not quoted and not self.assignment and _SPLIT.search(text):
                    self.split = True
                out.append(text)
                at += len(text)
        return concatenated(out)  # type: ignore[arg-type]

    def _double(self, at: int, out: list[object]) -> int:
        """The inside of double quotes from ``at`` on; behind the closing one."""
        raw = self.raw
        while True:
            char = raw[at : at + 1]
            if char == "":
                raise Trouble(at, "a double quote is not closed")
            if char == '"':
                return at + 1
            if char == "\\":
                following = raw[at + 1 : at + 2]
                if following != "\n":
                    out.append(following if following in ("$", "`", '"', "\\") else "\\" + following)
                at += 2
            elif char == "$":
                at = self._dollar(at, True, out)
            elif char == "`":
                stop = backtick_end(raw, at)
                self._run_inside(raw[at:stop], True, out)
                at = stop
            else:
                run = _DOUBLE_RUN.match(raw, at)
                text = run.group() if run else char
                out.append(text)
                at += len(text)

    def _tilde(self, at: int, start: bool) -> bool:
        if at == 0:
            return start
        return self.assignment and self.raw[at - 1] == ":"

    def _run_inside(self, source: str, quoted: bool, out: list[object]) -> None:
        """A command substitution: its output is unknown, and may depend on any variable it names."""
        self.split = self.split or not quoted
        out.append(Unknown(hash(("command", source, self.state.mentioned(source)))))

    def _dollar(self, at: int, quoted: bool, out: list[object]) -> int:
        raw = self.raw
        name = _NAME.match(raw, at + 1)
        if name:
            self._variable(name.group(), quoted, out)
            return name.end()
        following = raw[at + 1 : at + 2]
        if following == "(":
            stop = arithmetic_end(self.scanner, at + 3) if raw.startswith("((", at + 1) else None
            if stop is None:
                stop = self.scanner.substitution(at + 2)
            self._run_inside(raw[at:stop], quoted, out)
            return stop
        if following == "{":
            stop = brace_end(self.scanner, at, quoted)
            self._braced(at, stop, quoted, out)
            return stop
        if following == "'" and not quoted:
            return self._ansi(at + 2, out)
        if following == '"' and not quoted:
            return self._double(at + 2, out)
        if following == "[":
            raise Trouble(at, "$[...] has no value that can be known")
        if following and following in "$!?#@*-0123456789":
            self.split = self.split or not quoted
            out.append(Unknown(hash(("special", following, self.state.special("$" + following)))))
            return at + 2
        out.append("$")
        return at + 1

    def _variable(self, name: str, quoted: bool, out: list[object]) -> None:
        variable = self.state.look(name)
        if name in COMPUTED or variable.array:
            told = self.state.special("$_") if name == "_" else self.state.folder
            value: Value = unknown("computed", name, variable.value, told)
        elif variable.set is False:
            value = ""
        elif variable.set is None:
            value = unknown("perhaps", name, variable.value)
        else:
            value = variable.value
        if not quoted:
            known = static(value)
            if known is None or known == "" or _SPLIT.search(known):
                self.split = True
        out.append(value)

    def _braced(self, at: int, stop: int, quoted: bool, out: list[object]) -> None:
        """``${NAME}`` and the forms with a default; all others are unknown."""
        raw = self.raw
        source = raw[at:stop]
        match = _BRACED.match(raw, at + 2)
        if match is None or (match.group(2) is None and match.end() != stop - 1):
            self.split = self.split or not quoted
            out.append(Unknown(hash(("parameter", source, self.state.mentioned(source)))))
            return
        name, operator = match.group(1), match.group(2)
        if operator is None:
            self._variable(name, quoted, out)
            return
        variable = self.state.look(name)
        inner = _Expansion(raw[match.end() : stop - 1], self.state, True, False, self.assign)
        word = inner._pieces(0, len(inner.raw), quoted=quoted, start=not quoted)
        known: Optional[bool] = variable.set
        if name in COMPUTED or variable.array:
            known = None
        elif variable.set and operator.startswith(":"):
            text = static(variable.value)
            known = None if text is None else text != ""
            if text is None and any(isinstance(part, str) for part in variable.value):
                known = True
        if operator.endswith("+"):
            value: Optional[Value] = {True: word, False: ""}.get(known) if known is not None else None
        elif known is True or (operator.endswith("?") and known is not None):
            value = variable.value
        elif known is False:
            value = word
            if operator.endswith("=") and self.assign:
                self.assign(name, word)
        else:
            value = None
            if operator.endswith("=") and self.assign:
                self.assign(name, unknown("default", name, variable.value, word))
        if value is None:
            value = unknown("default", name, operator, variable.value, word)
        if not quoted:
            known_text = static(value)
            if not known_text or _SPLIT.search(known_text):
                self.split = True
        out.append(value)

    def _ansi(self, at: int, out: list[object]) -> int:
        """The inside of ``$'...'``; behind its end."""
        raw = self.raw
        text: list[str] = []
        ended = False  # a NUL ends the text, as in C
        while raw[at] != "'":
            char = raw[at]
            at += 1
            if char == "\\":
                char = raw[at]
                at += 1
                digits = None
                if char == "x":
                    digits = re.compile(r"[0-9A-Fa-f]{1,2}").match(raw, at)
                    char = chr(int(digits.group(), 16)) if digits else "\\x"
                elif char in "uU":
                    digits = re.compile(r"[0-9A-Fa-f]{1,4}" if char == "u" else r"[0-9A-Fa-f]{1,8}").match(raw, at)
                    if digits is None:
                        char = "\\" + char
                    elif int(digits.group(), 16) < 0x80:
                        char = chr(int(digits.group(), 16))
                    else:
                        raise Trouble(at, "the bytes of \\u depend on the locale")
                elif char in "01234567":
                    digits = re.compile(r"[0-7]{1,3}").match(raw, at - 1)
                    char = chr(int(digits.group(), 8) & 0xFF) if digits else char
                elif char == "c":
                    raise Trouble(at, "\\c is not understood")
                else:
                    char = _ANSI.get(char, "\\" + char)
                if digits:
                    at = digits.end()
                if char == "\0":
                    ended = True
            if not ended:
                text.append(char)
        out.append("".join(text))
        return at + 1

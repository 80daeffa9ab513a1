# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The compound commands of the grammar: groups, conditions, loops, ``case``, ``[[ ]]``, functions."""

from __future__ import annotations

import re

from .layout import Layout
from .nodes import Branch, Command, Compound, Pipeline, Statement, Trouble
from .words import arithmetic_end, word_end

_WORDS = "if then elif else fi while until for select do done case esac function coproc time in ! { } [["
RESERVED_WORDS = frozenset(_WORDS.split())
RESERVED = re.compile(
    "(?:" + "|".join(re.escape(word) for word in RESERVED_WORDS) + ")"
    r"(?=(?:\\\n)*(?:[ \t\n;&|()<>]|\Z))"
)
_NAME = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_EXPORTING = re.compile(r"export|declare|typeset")
_COPROC_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]+(?=[({]|\[\[|(?:if|while|until|for|case|select)[ \t\n])")
_NONE: frozenset[str] = frozenset()


class Compounds(Layout):
    """Reads compound commands; ``Grammar`` adds lists and simple commands."""

    # -- what the grammar provides

    def list_of(self, at: int, stops: frozenset[str], closer: str, statements: list[Statement]) -> int:
        raise NotImplementedError

    def command(self, at: int) -> Command:
        raise NotImplementedError

    def redirected(self, at: int, compound: Compound) -> Compound:
        raise NotImplementedError

    def substitution(self, at: int) -> int:
        raise NotImplementedError

    def array(self, at: int) -> int:
        raise NotImplementedError

    # -- the commands

    def parenthesis(self, at: int) -> Compound:
        if self.text.startswith("(\\\n", at):
            raise Trouble(at, "a parenthesis in front of an escaped line end is not understood")
        if self.text.startswith("((", at):
            end = arithmetic_end(self, at + 2)
            if end is not None:
                arithmetic = Compound("arithmetic", at)
                arithmetic.head = self.text[at:end]
                return self.redirected(end, arithmetic)
        compound = Compound("subshell", at)
        body: list[Statement] = []
        self.enter(at)
        end = self.list_of(at + 1, _NONE, ")", body)
        self.depth -= 1
        if not self.text.startswith(")", end):
            raise Trouble(at, "a parenthesis is not closed")
        if not body:
            raise Trouble(at, "these parentheses are empty")
        compound.branches.append(Branch([], "", body))
        return self.redirected(end + 1, compound)

    def _body(self, at: int, stops: frozenset[str], closer: str = "") -> tuple[list[Statement], str, int]:
        """A list and the reserved word that ended it; behind that word."""
        body: list[Statement] = []
        end = self.list_of(at, stops, closer, body)
        reserved = RESERVED.match(self.text, end)
        if reserved is None or reserved.group() not in stops:
            raise Trouble(at, "one of " + ", ".join(sorted(stops)) + " is missing")
        if not body:
            raise Trouble(end, f"a command was expected before '{reserved.group()}'")
        return body, reserved.group(), reserved.end()

    def compound(self, word: str, at: int) -> Compound:
        self.enter(at)
        try:
            if word == "{":
                group = Compound("group", at)
                body, _, end = self._body(at + 1, frozenset("}"))
                group.branches.append(Branch([], "", body))
                return self.redirected(end, group)
            if word == "if":
                return self._if(at)
            if word in ("while", "until"):
                loop = Compound(word, at)
                condition, _, end = self._body(at + len(word), frozenset(("do",)))
                body, _, end = self._body(end, frozenset(("done",)))
                loop.branches.append(Branch(condition, self._source(condition), body))
                return self.redirected(end, loop)
            if word in ("for", "select"):
                return self._for(word, at)
            if word == "case":
                return self._case(at)
            if word == "[[":
                return self._test(at)
            if word == "function":
                name_start = self.blanks(at + len(word))
                name = _NAME.match(self.text, name_start)
                if name is None:
                    raise Trouble(name_start, "a function's name was expected")
                end = self.blanks(name.end())
                if self.text.startswith("(", end):
                    end = self.blanks(end + 1)
                    if not self.text.startswith(")", end):
                        raise Trouble(end, "')' was expected")
                    end += 1
                return self.function(name.group(), at, end)
            return self._coproc(at)
        finally:
            self.depth -= 1

    def _source(self, statements: list[Statement]) -> str:
        return self.text[statements[0].start : statements[-1].end]

    def _if(self, at: int) -> Compound:
        compound = Compound("if", at)
        end = at + 2
        while True:
            condition, _, end = self._body(end, frozenset(("then",)))
            body, word, end = self._body(end, frozenset(("elif", "else", "fi")))
            compound.branches.append(Branch(condition, self._source(condition), body))
            if word == "elif":
                continue
            if word == "else":
                body, _, end = self._body(end, frozenset(("fi",)))
                compound.branches.append(Branch([], "", body))
                compound.covered = True
            return self.redirected(end, compound)

    def _for(self, word: str, at: int) -> Compound:
        text = self.text
        loop = Compound(word, at)
        end = self.blanks(at + len(word))
        if text.startswith("((", end):
            head_end = arithmetic_end(self, end + 2)
            if head_end is None:
                raise Trouble(end, "this for is not understood")
            loop.head = text[end:head_end]
            end = head_end
        else:
            name = _NAME.match(text, end)
            if name is None:
                raise Trouble(end, "a variable's name was expected")
            loop.name = name.group()
            end = self.space(name.end())
            reserved = RESERVED.match(text, end)
            if reserved and reserved.group() == "in":
                end = self.blanks(reserved.end())
                start = end
                while text[end : end + 1] not in ("", "\n", ";", "#"):
                    stop = word_end(self, end)
                    if stop == end:
                        raise Trouble(end, f"{text[end]!r} is not expected here")
                    end = self.blanks(stop)
                loop.head = text[start:end]
        end = self.blanks(end)
        if text.startswith(";", end):
            end += 1
        end = self.space(end)
        reserved = RESERVED.match(text, end)
        opener = reserved.group() if reserved else ""
        if opener not in ("do", "{"):
            raise Trouble(end, "'do' was expected")
        body, _, end = self._body(end + len(opener), frozenset(("done",) if opener == "do" else ("}",)))
        loop.branches.append(Branch([], "", body))
        return self.redirected(end, loop)

    def _case(self, at: int) -> Compound:
        text = self.text
        case = Compound("case", at)
        start = self.blanks(at + 4)
        end = word_end(self, start)
        case.head = text[start:end]
        end = self.space(end)
        reserved = RESERVED.match(text, end)
        if reserved is None or reserved.group() != "in":
            raise Trouble(end, "'in' was expected")
        end = reserved.end()
        while True:
            end = self.space(end)
            reserved = RESERVED.match(text, end)
            if reserved and reserved.group() == "esac":
                return self.redirected(reserved.end(), case)
            if text.startswith("(", end):
                end = self.blanks(end + 1)
            start = end
            while not text.startswith(")", end):
                stop = word_end(self, end)
                if stop == end:
                    raise Trouble(end, "a pattern was expected")
                end = self.blanks(stop)
                if text.startswith("|", end):
                    end = self.blanks(end + 1)
            pattern = text[start:end].rstrip(" \t")
            body: list[Statement] = []
            end = self.list_of(end + 1, frozenset(("esac",)), ";;", body)
            case.branches.append(Branch([], pattern, body))
            if "*" in [part.strip(" \t") for part in pattern.split("|")]:
                case.covered = True
            if text.startswith(";;&", end):
                raise Trouble(end, "';;&' is not understood")
            if text.startswith(";&", end):
                raise Trouble(end, "';&' is not understood")
            if text.startswith(";;", end):
                end += 2
            elif end >= self.size:
                raise Trouble(at, "'esac' is missing")

    def _test(self, at: int) -> Compound:
        """``[[ ... ]]``: only its end matters."""
        text = self.text
        test = Compound("test", at)
        end = at + 2
        while True:
            end = self.space(end)
            if end >= self.size:
                raise Trouble(at, "']]' is missing")
            if text.startswith("]]", end) and (end + 2 == self.size or text[end + 2] in " \t\n;&|)<>"):
                test.head = text[at : end + 2]
                return self.redirected(end + 2, test)
            stop = word_end(self, end)
            end = stop if stop > end else end + 1

    def function(self, name: str, start: int, at: int) -> Compound:
        function = Compound("function", start)
        function.name = name
        at = self.space(at)
        self.enter(at)
        body = self.command(at)
        self.depth -= 1
        if "\\\n" in name:
            raise Trouble(start, "a function's name over two lines is not understood")
        if not isinstance(body, Compound) or body.kind in ("function", "coproc"):
            raise Trouble(at, "a function's body was expected")
        telling = _EXPORTING.search(self.text, body.start, body.end) is not None
        statement = Statement(body.start, body.end, [Pipeline([body], False)], [])
        function.branches.append(Branch([], self.text[body.start : body.end], [statement], telling))
        function.end = body.end
        return function

    def _coproc(self, at: int) -> Compound:
        coproc = Compound("coproc", at)
        start = self.blanks(at + 6)
        coproc.name = "COPROC"
        name = _COPROC_NAME.match(self.text, start)
        if name:
            coproc.name = name.group(1)
            start = self.blanks(name.end())
        command = self.command(start)
        coproc.branches.append(Branch([], "", [Statement(start, command.end, [Pipeline([command], False)], [])]))
        coproc.end = command.end
        return coproc

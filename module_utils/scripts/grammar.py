# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A grammar of bash, as much as the reader of serve scripts needs: statements with their places.

It understands structure (what is a command, a comment, a here-document, a string, a condition), not
meaning; that is the business of the walk. What it does not understand raises :class:`Trouble`.
"""

from __future__ import annotations

import re
from typing import Optional

from .nodes import Branch, Command, Comment, Compound, Pipeline, Simple, Statement, Trouble, Word
from .words import arithmetic_end, word_end

_BLANKS = re.compile(r"(?:[ \t]+|\\\n)*")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|select|do|done|case|esac|function|coproc|time|in|!|\{|\}|\[\[)"
    r"(?=[ \t\n;&|()<>]|\\\n|\Z)"
)
_OPENING = ("if", "while", "until", "for", "select", "case", "function", "coproc", "{", "[[")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_REDIRECT = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())|(&>>|&>)")
_NAME = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_QUOTING = re.compile(r"[\\'\"]")
_NONE: frozenset[str] = frozenset()
_DEEPEST = 50


class Grammar:
    """Reads one text. ``program`` gives the statements; ``comments`` are collected on the way."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = len(text)
        self.depth = 0
        self.comments: list[Comment] = []
        self.trouble: Optional[Trouble] = None
        self.open_ended = False  # a here-document without its end
        self._pending: list[tuple[str, bool, bool]] = []  # here-documents: delimiter, strip tabs, quoted

    def program(self) -> list[Statement]:
        """All statements. At the first one that is not understood it stops and leaves ``trouble``."""
        statements: list[Statement] = []
        try:
            self._list(0, _NONE, "", statements)
        except Trouble as trouble:
            self.trouble = trouble
        except RecursionError:
            start = statements[-1].end if statements else 0
            self.trouble = Trouble(start, "the script is nested too deeply")
        return statements

    # -- what lies between the tokens

    def _blanks(self, at: int) -> int:
        match = _BLANKS.match(self.text, at)
        return match.end() if match else at

    def _newline(self, at: int) -> int:
        """Behind the line end at ``at``, and behind the here-documents that begin there."""
        at += 1
        if self._pending:
            pending, self._pending = self._pending, []
            for delimiter, strip, quoted in pending:
                at = self._document(at, delimiter, strip, quoted)
        return at

    def _document(self, at: int, delimiter: str, strip: bool, quoted: bool) -> int:
        text = self.text
        while at < self.size:
            end = text.find("\n", at)
            end = self.size if end < 0 else end
            if not quoted:
                # an escaped line end joins the lines, so that the next one is no delimiter
                while end < self.size and _ends_escaped(text, at, end):
                    further = text.find("\n", end + 1)
                    end = self.size if further < 0 else further
            line = text[at:end]
            if not quoted:
                line = line.replace("\\\n", "")
            if (line.lstrip("\t") if strip else line) == delimiter:
                return min(end + 1, self.size)
            at = end + 1
        self.open_ended = True
        return self.size

    def _comment(self, at: int) -> int:
        end = self.text.find("\n", at)
        end = self.size if end < 0 else end
        line_start = self.text.rfind("\n", 0, at) + 1
        alone = not self.text[line_start:at].strip(" \t")
        self.comments.append(Comment(at, end, alone, self.depth))
        return end

    def _space(self, at: int) -> int:
        """Behind blanks, line ends and comments."""
        text = self.text
        while True:
            at = self._blanks(at)
            char = text[at : at + 1]
            if char == "\n":
                at = self._newline(at)
            elif char == "#":
                at = self._comment(at)
            else:
                return at

    # -- lists and pipelines

    def _list(self, at: int, stops: frozenset[str], closer: str, statements: list[Statement]) -> int:
        """Statements up to a reserved word of ``stops``, to ``)`` or to ``;;``; neither is consumed."""
        text = self.text
        while True:
            at = self._space(at)
            if at >= self.size:
                return at
            char = text[at]
            if char == ")" and closer == ")":
                return at
            if char == ";" and closer == ";;" and text[at + 1 : at + 2] in (";", "&"):
                return at
            if stops:
                reserved = _RESERVED.match(text, at)
                if reserved and reserved.group() in stops:
                    return at
            statement = self._statement(at)
            statements.append(statement)
            at = self._blanks(statement.end)
            char = text[at : at + 1]
            if char == ";" and text[at + 1 : at + 2] not in (";", "&"):
                at += 1
            elif char == "&" and text[at + 1 : at + 2] != "&":
                statement.background = True
                at += 1
            elif char == ")" and closer != ")":
                raise Trouble(at, "a closing parenthesis has no opening one")
            elif char not in ("", "\n", "#", ")", ";"):
                raise Trouble(at, f"{char!r} is not expected here")
            elif char == ";" and closer != ";;":
                raise Trouble(at, "';;' is not expected here")

    def _statement(self, at: int) -> Statement:
        start = at
        pipelines: list[Pipeline] = []
        operators: list[str] = []
        while True:
            pipeline, end = self._pipeline(at)
            pipelines.append(pipeline)
            at = self._blanks(end)
            operator = self.text[at : at + 2]
            if operator not in ("&&", "||"):
                return Statement(start, end, pipelines, operators)
            operators.append(operator)
            at = self._space(at + 2)

    def _pipeline(self, at: int) -> tuple[Pipeline, int]:
        text = self.text
        negated = False
        while True:
            reserved = _RESERVED.match(text, at)
            if reserved is None or reserved.group() not in ("!", "time"):
                break
            negated = True
            at = self._blanks(reserved.end())
            if reserved.group() == "time" and text.startswith("-p", at):
                at = self._blanks(at + 2)
        commands: list[Command] = []
        while True:
            command = self._command(at)
            commands.append(command)
            at = self._blanks(command.end)
            if text[at : at + 1] != "|" or text[at + 1 : at + 2] == "|":
                return Pipeline(commands, negated), command.end
            at = self._space(at + (2 if text[at + 1 : at + 2] == "&" else 1))

    # -- commands

    def _command(self, at: int) -> Command:
        text = self.text
        char = text[at : at + 1]
        if char == "(":
            return self._parenthesis(at)
        reserved = _RESERVED.match(text, at)
        if reserved:
            word = reserved.group()
            if word in _OPENING:
                return self._compound(word, at)
            if word != "in":
                raise Trouble(at, f"'{word}' is not expected here")
        simple = self._simple(at)
        if isinstance(simple, Simple) and simple.end == at:
            shown = "the end of the script" if at >= self.size else repr(text[at])
            raise Trouble(at, f"a command was expected, not {shown}")
        return simple

    def _simple(self, at: int) -> Command:
        text = self.text
        start = end = at
        assigns: list[Word] = []
        words: list[Word] = []
        redirects: list[Word] = []
        while True:
            at = self._blanks(at)
            if at >= self.size:
                break
            char = text[at]
            if char in "\n;)|":
                break
            if char == "#":
                break
            if char in "<>&0123456789{":
                redirect = _REDIRECT.match(text, at)
                if redirect:
                    at = end = self._redirect(redirect, redirects)
                    continue
                if char == "&":
                    break
            if char == "(":
                if len(words) == 1 and not assigns and not redirects:
                    closing = self._blanks(at + 1)
                    if text[closing : closing + 1] == ")":
                        return self._function(words[0].raw, start, closing + 1)
                raise Trouble(at, "a parenthesis is not expected here")
            word_stop = word_end(self, at)
            if word_stop == at:
                raise Trouble(at, f"{char!r} is not expected here")
            word = Word(at, word_stop, text[at:word_stop])
            if not words and _ASSIGNMENT.match(word.raw):
                assigns.append(word)
            else:
                words.append(word)
            at = end = word_stop
        return Simple(start, end, assigns, words, redirects)

    def _redirect(self, redirect: re.Match[str], redirects: list[Word]) -> int:
        operator = redirect.group(1) or redirect.group(2)
        at = self._blanks(redirect.end())
        end = word_end(self, at)
        if end == at:
            raise Trouble(at, f"a word was expected behind '{operator}'")
        raw = self.text[at:end]
        if operator in ("<<", "<<-"):
            if "$" in raw or "`" in raw:
                raise Trouble(at, "this here-document's end mark is not understood")
            self._pending.append((_unquoted(raw), operator == "<<-", _QUOTING.search(raw) is not None))
        redirects.append(Word(redirect.start(), end, self.text[redirect.start() : end]))
        return end

    def _redirects(self, at: int, compound: Compound) -> Compound:
        """The redirections behind a compound command."""
        compound.end = at
        while True:
            at = self._blanks(at)
            redirect = _REDIRECT.match(self.text, at)
            if redirect is None:
                return compound
            at = compound.end = self._redirect(redirect, compound.redirects)

    def _parenthesis(self, at: int) -> Compound:
        if self.text.startswith("((", at):
            end = arithmetic_end(self, at + 2)
            if end is not None:
                arithmetic = Compound("arithmetic", at)
                arithmetic.head = self.text[at:end]
                return self._redirects(end, arithmetic)
        compound = Compound("subshell", at)
        body: list[Statement] = []
        self._enter(at)
        end = self._list(at + 1, _NONE, ")", body)
        self.depth -= 1
        if not self.text.startswith(")", end):
            raise Trouble(at, "a parenthesis is not closed")
        if not body:
            raise Trouble(at, "these parentheses are empty")
        compound.branches.append(Branch([], "", body))
        return self._redirects(end + 1, compound)

    def _enter(self, at: int) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Trouble(at, "the script is nested too deeply")

    def _body(self, at: int, stops: frozenset[str], closer: str = "") -> tuple[list[Statement], str, int]:
        """A list and the reserved word that ended it; behind that word."""
        body: list[Statement] = []
        end = self._list(at, stops, closer, body)
        reserved = _RESERVED.match(self.text, end)
        if reserved is None or reserved.group() not in stops:
            raise Trouble(at, "one of " + ", ".join(sorted(stops)) + " is missing")
        if not body:
            raise Trouble(end, f"a command was expected before '{reserved.group()}'")
        return body, reserved.group(), reserved.end()

    def _compound(self, word: str, at: int) -> Compound:
        self._enter(at)
        try:
            if word == "{":
                group = Compound("group", at)
                body, _, end = self._body(at + 1, frozenset("}"))
                group.branches.append(Branch([], "", body))
                return self._redirects(end, group)
            if word == "if":
                return self._if(at)
            if word in ("while", "until"):
                loop = Compound(word, at)
                condition, _, end = self._body(at + len(word), frozenset(("do",)))
                body, _, end = self._body(end, frozenset(("done",)))
                loop.branches.append(Branch(condition, "", body))
                return self._redirects(end, loop)
            if word in ("for", "select"):
                return self._for(word, at)
            if word == "case":
                return self._case(at)
            if word == "[[":
                return self._test(at)
            if word == "function":
                name_start = self._blanks(at + len(word))
                name = _NAME.match(self.text, name_start)
                if name is None:
                    raise Trouble(name_start, "a function's name was expected")
                end = self._blanks(name.end())
                if self.text.startswith("(", end):
                    end = self._blanks(end + 1)
                    if not self.text.startswith(")", end):
                        raise Trouble(end, "')' was expected")
                    end += 1
                return self._function(name.group(), at, end)
            return self._coproc(at)
        finally:
            self.depth -= 1

    def _if(self, at: int) -> Compound:
        compound = Compound("if", at)
        end = at + 2
        while True:
            condition, _, end = self._body(end, frozenset(("then",)))
            body, word, end = self._body(end, frozenset(("elif", "else", "fi")))
            compound.branches.append(Branch(condition, "", body))
            if word == "elif":
                continue
            if word == "else":
                body, _, end = self._body(end, frozenset(("fi",)))
                compound.branches.append(Branch([], "", body))
                compound.covered = True
            return self._redirects(end, compound)

    def _for(self, word: str, at: int) -> Compound:
        text = self.text
        loop = Compound(word, at)
        end = self._blanks(at + len(word))
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
            end = self._space(name.end())
            reserved = _RESERVED.match(text, end)
            if reserved and reserved.group() == "in":
                end = self._blanks(reserved.end())
                start = end
                while text[end : end + 1] not in ("", "\n", ";", "#"):
                    stop = word_end(self, end)
                    if stop == end:
                        raise Trouble(end, f"{text[end]!r} is not expected here")
                    end = self._blanks(stop)
                loop.head = text[start:end]
        end = self._blanks(end)
        if text.startswith(";", end):
            end += 1
        end = self._space(end)
        reserved = _RESERVED.match(text, end)
        opener = reserved.group() if reserved else ""
        if opener not in ("do", "{"):
            raise Trouble(end, "'do' was expected")
        body, _, end = self._body(end + len(opener), frozenset(("done",) if opener == "do" else ("}",)))
        loop.branches.append(Branch([], "", body))
        return self._redirects(end, loop)

    def _case(self, at: int) -> Compound:
        text = self.text
        case = Compound("case", at)
        start = self._blanks(at + 4)
        end = word_end(self, start)
        case.head = text[start:end]
        end = self._space(end)
        reserved = _RESERVED.match(text, end)
        if reserved is None or reserved.group() != "in":
            raise Trouble(end, "'in' was expected")
        end = reserved.end()
        while True:
            end = self._space(end)
            reserved = _RESERVED.match(text, end)
            if reserved and reserved.group() == "esac":
                return self._redirects(reserved.end(), case)
            if text.startswith("(", end):
                end = self._blanks(end + 1)
            start = end
            while not text.startswith(")", end):
                stop = word_end(self, end)
                if stop == end:
                    raise Trouble(end, "a pattern was expected")
                end = self._blanks(stop)
                if text.startswith("|", end):
                    end = self._blanks(end + 1)
            pattern = text[start:end].rstrip(" \t")
            body: list[Statement] = []
            end = self._list(end + 1, frozenset(("esac",)), ";;", body)
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
            end = self._space(end)
            if end >= self.size:
                raise Trouble(at, "']]' is missing")
            if text.startswith("]]", end) and (end + 2 == self.size or text[end + 2] in " \t\n;&|)<>"):
                test.head = text[at : end + 2]
                return self._redirects(end + 2, test)
            stop = word_end(self, end)
            end = stop if stop > end else end + 1

    def _function(self, name: str, start: int, at: int) -> Compound:
        function = Compound("function", start)
        function.name = name
        at = self._space(at)
        self._enter(at)
        body = self._command(at)
        self.depth -= 1
        if not isinstance(body, Compound) or body.kind in ("function", "coproc"):
            raise Trouble(at, "a function's body was expected")
        function.branches.append(Branch([], "", [Statement(body.start, body.end, [Pipeline([body], False)], [])]))
        function.end = body.end
        return function

    def _coproc(self, at: int) -> Compound:
        coproc = Compound("coproc", at)
        start = self._blanks(at + 6)
        command = self._command(start)
        coproc.branches.append(Branch([], "", [Statement(start, command.end, [Pipeline([command], False)], [])]))
        coproc.end = command.end
        return coproc

    # -- what the words need

    def substitution(self, at: int) -> int:
        """Commands up to the closing parenthesis of ``$(``, ``<(`` or ``>(``; the offset behind it."""
        self._enter(at)
        pending, self._pending = self._pending, []
        comments = len(self.comments)
        end = self._list(at, _NONE, ")", [])
        del self.comments[comments:]
        if self._pending:
            raise Trouble(at, "a here-document in a substitution is not understood")
        self._pending = pending
        self.depth -= 1
        if not self.text.startswith(")", end):
            raise Trouble(at, "a substitution's parenthesis is not closed")
        return end + 1

    def array(self, at: int) -> int:
        """The words of ``NAME=( ... )``; the offset behind the closing parenthesis."""
        self._enter(at)
        start = at
        while True:
            at = self._space(at)
            if self.text.startswith(")", at):
                self.depth -= 1
                return at + 1
            end = word_end(self, at)
            if end == at:
                raise Trouble(start, "this array is not understood")
            at = end


def _ends_escaped(text: str, start: int, end: int) -> bool:
    count = 0
    while end - count > start and text[end - count - 1] == "\\":
        count += 1
    return count % 2 == 1


def _unquoted(raw: str) -> str:
    """A here-document's end mark without its quotes."""
    out: list[str] = []
    at = 0
    while at < len(raw):
        char = raw[at]
        if char == "\\":
            out.append(raw[at + 1 : at + 2])
            at += 2
        elif char in "'\"":
            end = raw.find(char, at + 1)
            out.append(raw[at + 1 : end])
            at = end + 1
        else:
            out.append(char)
            at += 1
    return "".join(out)

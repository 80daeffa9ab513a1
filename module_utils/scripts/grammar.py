# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A grammar of bash, as much as the reader of serve scripts needs: statements with their places.

It understands structure (what is a command, a comment, a here-document, a string, a condition), not
meaning; that is the business of the walk. What it does not understand raises :class:`Trouble`.
"""

from __future__ import annotations

import re
from typing import Optional

from .compounds import RESERVED, RESERVED_WORDS, Compounds
from .expansion import joined_lines
from .nodes import Command, Compound, Pipeline, Simple, Statement, Trouble, Word
from .words import EASY_WORD, EASY_WORDS, word_end

_OPENING = ("if", "while", "until", "for", "select", "case", "function", "coproc", "{", "[[")
_CLOSING_LETTERS = "tefd}"  # then, else, elif, esac, fi, do, done
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_NOT_EASY = ("if ", "for ", "while ", "case ", "{", "(", "[[", "until ", "function ")
_PLAIN_EXPORT = re.compile(
    r"""([A-Za-z_][A-Za-z0-9_]*)=(?:([^\\'"$`~{}*?\[\]()<>!\x00-\x20]*)|'([^']*)'|"([^"\\$`]*)")\Z"""
)
# The most frequent line of all, with nothing behind it but a comment.
_EXPORT_LINE = re.compile(
    r"""export[ \t]+([A-Za-z_][A-Za-z0-9_]*)=(?:([^\\'"$`~{}*?\[\]()<>!|&;#\x00-\x20]*)|'([^']*)'|"([^"\\$`]*)")"""
    r"(?=[ \t]*\n|[ \t]+#)"
)
_REDIRECT = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||<(?!\()|>(?!\())|(&>>|&>)")
_QUOTING = re.compile(r"[\\'\"]")
_NONE: frozenset[str] = frozenset()


class Grammar(Compounds):
    """Reads one text. ``program`` gives the statements; ``comments`` are collected on the way."""

    def program(self) -> list[Statement]:
        """All statements. At the first one that is not understood it stops and leaves ``trouble``."""
        return self.statements_from(0)

    def statements_from(self, at: int) -> list[Statement]:
        """All statements from a place on where nothing is open."""
        statements: list[Statement] = []
        try:
            self.list_of(at, _NONE, "", statements)
        except Trouble as trouble:
            self.trouble = trouble
        except RecursionError:
            start = statements[-1].end if statements else 0
            self.trouble = Trouble(start, "the script is nested too deeply")
        return statements

    # -- lists and pipelines

    def list_of(self, at: int, stops: frozenset[str], closer: str, statements: list[Statement]) -> int:
        """Statements up to a reserved word of ``stops``, to ``)`` or to ``;;``; neither is consumed."""
        text = self.text
        while True:
            at = self.space(at)
            if at >= self.size:
                return at
            char = text[at]
            if char == ")" and closer == ")":
                return at
            if char == ";" and closer == ";;" and text[at + 1 : at + 2] in (";", "&"):
                return at
            if stops and char in _CLOSING_LETTERS:
                reserved = RESERVED.match(text, at)
                if reserved and reserved.group() in stops:
                    return at
            if char == "e":
                plain = _EXPORT_LINE.match(text, at)
                if plain:
                    statements.append(_export(plain))
                    at = plain.end()
                    continue
            statement = self._statement(at)
            statements.append(statement)
            at = self.blanks(statement.end)
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

    def _quickly(self, at: int) -> Optional[Statement]:
        """The statement when it is one simple command of easy words, as most lines are; else None."""
        text = self.text
        line = EASY_WORDS.match(text, at)
        if line is None:
            return None
        end = line.end()
        if text.startswith("\\", end):
            return None  # the word may go on behind the line end
        after = self.blanks(end)
        char = text[after : after + 1]
        if char == ";":
            if text[after + 1 : after + 2] in (";", "&"):
                return None
        elif char != "\n" and after < self.size and (char != "#" or after == end):
            return None
        assigns: list[Word] = []
        words: list[Word] = []
        for match in EASY_WORD.finditer(text, at, end):
            raw = match.group()
            word = Word(match.start(), match.end(), raw)
            if words:
                words.append(word)
            elif "=" in raw and _ASSIGNMENT.match(raw):
                assigns.append(word)
            else:
                if raw in RESERVED_WORDS:
                    return None
                words.append(word)
        simple = Simple(at, end, assigns, words, [])
        if len(words) == 2 and not assigns and words[0].raw == "export":
            export = _PLAIN_EXPORT.match(words[1].raw)
            if export:
                simple.export = (export.group(1), export.group(export.lastindex or 2))
        return _one(simple)

    def _statement(self, at: int) -> Statement:
        if not self.text.startswith(_NOT_EASY, at):
            quick = self._quickly(at)
            if quick is not None:
                return quick
        start = at
        pipelines: list[Pipeline] = []
        operators: list[str] = []
        while True:
            pipeline, end = self._pipeline(at)
            pipelines.append(pipeline)
            at = self.blanks(end)
            operator = self.text[at : at + 2]
            if operator not in ("&&", "||"):
                statement = Statement(start, end, pipelines, operators)
                if operators:
                    statement.guards = [
                        self.text[each.commands[0].start : each.commands[-1].end] for each in pipelines[:-1]
                    ]
                only = statement.only()
                statement.simple = only if isinstance(only, Simple) else None
                return statement
            operators.append(operator)
            at = self.space(at + 2)

    def _pipeline(self, at: int) -> tuple[Pipeline, int]:
        text = self.text
        negated = False
        while True:
            reserved = RESERVED.match(text, at) if text.startswith(("!", "t"), at) else None
            if reserved is None or reserved.group() not in ("!", "time"):
                break
            negated = True
            at = self.blanks(reserved.end())
            if reserved.group() == "time" and text.startswith("-p", at):
                at = self.blanks(at + 2)
        commands: list[Command] = []
        while True:
            command = self.command(at)
            commands.append(command)
            at = self.blanks(command.end)
            if text[at : at + 1] != "|" or text[at + 1 : at + 2] == "|":
                return Pipeline(commands, negated), command.end
            at = self.space(at + (2 if text[at + 1 : at + 2] == "&" else 1))

    # -- commands

    def command(self, at: int) -> Command:
        text = self.text
        char = text[at : at + 1]
        if char == "(":
            return self.parenthesis(at)
        reserved = RESERVED.match(text, at)
        if reserved:
            word = reserved.group()
            if word in _OPENING:
                return self.compound(word, at)
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
            at = self.blanks(at)
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
                    at = end = self.redirect(redirect, redirects)
                    continue
                if char == "&":
                    break
            if char == "(":
                if len(words) == 1 and not assigns and not redirects:
                    closing = self.blanks(at + 1)
                    if text[closing : closing + 1] == ")":
                        return self.function(words[0].raw, start, closing + 1)
                raise Trouble(at, "a parenthesis is not expected here")
            word_stop = word_end(self, at)
            if word_stop == at:
                raise Trouble(at, f"{char!r} is not expected here")
            word = Word(at, word_stop, text[at:word_stop])
            if "\\\n" in word.raw:
                self._continued(word, not words)
                if text.startswith(("<", ">"), word_stop):
                    raise Trouble(at, "a redirection over two lines is not understood")
            if not words and _ASSIGNMENT.match(word.raw):
                assigns.append(word)
            else:
                words.append(word)
            at = end = word_stop
        return Simple(start, end, assigns, words, redirects)

    def _continued(self, word: Word, first: bool) -> None:
        """Refuse a word that means something else when its lines are joined, as bash does before all."""
        joined = joined_lines(word.raw)
        if (
            "$\\\n" in word.raw
            or (joined in RESERVED_WORDS and first)
            or (_ASSIGNMENT.match(joined) and not _ASSIGNMENT.match(word.raw))
        ):
            raise Trouble(word.start, "this word over two lines is not understood")

    def redirect(self, redirect: re.Match[str], redirects: list[Word]) -> int:
        operator = redirect.group(1) or redirect.group(2)
        at = self.blanks(redirect.end())
        end = word_end(self, at)
        if end == at:
            raise Trouble(at, f"a word was expected behind '{operator}'")
        raw = self.text[at:end]
        if operator in ("<<", "<<-"):
            if "$" in raw or "`" in raw or "\\\n" in raw:
                raise Trouble(at, "this here-document's end mark is not understood")
            self.pending.append((_unquoted(raw), operator == "<<-", _QUOTING.search(raw) is not None))
        redirects.append(Word(redirect.start(), end, self.text[redirect.start() : end]))
        return end

    def redirected(self, at: int, compound: Compound) -> Compound:
        """The redirections behind a compound command."""
        compound.end = at
        while True:
            at = self.blanks(at)
            redirect = _REDIRECT.match(self.text, at)
            if redirect is None:
                return compound
            at = compound.end = self.redirect(redirect, compound.redirects)

    # -- what the words need

    def substitution(self, at: int) -> int:
        """Commands up to the closing parenthesis of ``$(``, ``<(`` or ``>(``; the offset behind it."""
        self.enter(at)
        pending, self.pending = self.pending, []
        comments = len(self.comments)
        end = self.list_of(at, _NONE, ")", [])
        del self.comments[comments:]
        if self.pending:
            raise Trouble(at, "a here-document in a substitution is not understood")
        self.pending = pending
        self.depth -= 1
        if not self.text.startswith(")", end):
            raise Trouble(at, "a substitution's parenthesis is not closed")
        return end + 1

    def array(self, at: int) -> int:
        """The words of ``NAME=( ... )``; the offset behind the closing parenthesis."""
        self.enter(at)
        start = at
        while True:
            at = self.space(at)
            if self.text.startswith(")", at):
                self.depth -= 1
                return at + 1
            end = word_end(self, at)
            if end == at:
                raise Trouble(start, "this array is not understood")
            at = end


def _export(line: re.Match[str]) -> Statement:
    at, start, end = line.start(), line.start(1), line.end()
    simple = Simple(at, end, [], [Word(at, at + 6, "export"), Word(start, end, line.string[start:end])], [])
    simple.export = (line.group(1), line.group(line.lastindex or 2))
    return _one(simple)


def _one(simple: Simple) -> Statement:
    statement = Statement(simple.start, simple.end, [Pipeline([simple], False)], [])
    statement.simple = simple
    return statement


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

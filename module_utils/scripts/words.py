# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where a word of bash ends: quotes, expansions and substitutions, to any depth.

Written after bash 5.2's parse.y (read_token_word, parse_matched_pair, parse_comsub).
"""

from __future__ import annotations

import re
from typing import Optional, Protocol

from .nodes import Trouble

# Runs that need no further look: most words are one match of this.
_RUN = re.compile(r"""(?:[^ \t\n|&;()<>\\'"$`]+|'[^']*'|"[^"\\$`]*")+""")
# Words that end surely where these do: no escapes, no substitutions, only variables and plain defaults.
_NAMED = r"""\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+?][^"'`$\\{}\n]*)?\})"""
_IN_DOUBLE = r"""[^"\\$`]*"""
_EASY = r"""[^ \t\n|&;()<>\\'"$`]+|'[^']*'""" + rf"""|"{_IN_DOUBLE}(?:{_NAMED}{_IN_DOUBLE})*"|{_NAMED}"""
EASY_WORD = re.compile(rf"(?!#)(?:{_EASY})+")
EASY_WORDS = re.compile(rf"(?!#)(?:{_EASY})+(?:[ \t]+(?!#)(?:{_EASY})+)*")
_DOUBLE_RUN = re.compile(r'[^"\\$`]+')
_BRACE_HEAD = re.compile(r"\$\{[!#]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[-@*#?$!])(?:\[[^\]\n]*\])?")
_VALUE_OPERATOR = re.compile(r":?[-=?+]|\}|\Z")
_ARRAY_HEAD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]\n]*\])?\+?=\Z")
_AFTER_NAME = tuple("}:-=?+#%/^,@~*")
_ENDS = frozenset(" \t\n|&;()")
_DEEPEST = 50


class Scanner(Protocol):
    """What the grammar offers to the words in it."""

    text: str
    depth: int

    def substitution(self, at: int) -> int:
        """Read commands from ``at`` to the closing parenthesis; the offset behind it."""

    def array(self, at: int) -> int:
        """Read an array's words from behind its parenthesis; the offset behind the closing one."""


def word_end(scanner: Scanner, at: int) -> int:
    """The end of the word at ``at``; equal to ``at`` when there is none."""
    text = scanner.text
    size = len(text)
    here = at
    while here < size:
        run = _RUN.match(text, here)
        if run:
            here = run.end()
            if here >= size:
                break
        char = text[here]
        if char in _ENDS:
            if char != "(":
                break
            if here > at and text[here - 1] in "?*+@!" and _unquoted_before(text, at, here):
                here = _pattern_end(scanner, here)
            elif here > at and text[here - 1] == "=" and _ARRAY_HEAD.match(text[at:here]):
                here = scanner.array(here + 1)
            else:
                break
        elif char == "\\":
            here = min(here + 2, size)
        elif char == "'":
            here = single_end(text, here)
        elif char == '"':
            here = double_end(scanner, here)
        elif char == "$":
            here = dollar_end(scanner, here, False)
        elif char == "`":
            here = backtick_end(text, here)
        elif text.startswith("(", here + 1):  # <( and >(
            here = scanner.substitution(here + 2)
        else:
            break
    return here


def _unquoted_before(text: str, start: int, at: int) -> bool:
    return "'" not in text[start:at] and '"' not in text[start:at]


def _pattern_end(scanner: Scanner, at: int) -> int:
    """The end of an extended pattern such as ``@(a|b)``, from its parenthesis on."""
    text = scanner.text
    here = at + 1
    while here < len(text):
        char = text[here]
        if char == ")":
            return here + 1
        if char == "(":
            here = _pattern_end(scanner, here)
        elif char in "|&;<> \t\n":
            here += 1
        else:
            end = word_end(scanner, here)
            here = end if end > here else here + 1
    raise Trouble(at, "a pattern's parenthesis is not closed")


def single_end(text: str, at: int) -> int:
    end = text.find("'", at + 1)
    if end < 0:
        raise Trouble(at, "a single quote is not closed")
    return end + 1


def ansi_end(text: str, at: int) -> int:
    """``$'...'``, from the dollar sign on."""
    here = at + 2
    while here < len(text):
        if text[here] == "'":
            return here + 1
        here += 2 if text[here] == "\\" else 1
    raise Trouble(at, "a quote $' is not closed")


def double_end(scanner: Scanner, at: int) -> int:
    text = scanner.text
    size = len(text)
    here = at + 1
    while here < size:
        run = _DOUBLE_RUN.match(text, here)
        if run:
            here = run.end()
            if here >= size:
                break
        char = text[here]
        if char == '"':
            return here + 1
        if char == "\\":
            here += 2
        elif char == "$":
            here = dollar_end(scanner, here, True)
        else:
            here = backtick_end(text, here)
    raise Trouble(at, "a double quote is not closed")


def backtick_end(text: str, at: int) -> int:
    here = at + 1
    while here < len(text):
        if text[here] == "`":
            return here + 1
        here += 2 if text[here] == "\\" else 1
    raise Trouble(at, "a backtick is not closed")


def dollar_end(scanner: Scanner, at: int, quoted: bool) -> int:
    """The end of what a dollar sign begins; ``quoted``: inside double quotes."""
    text = scanner.text
    following = text[at + 1 : at + 2]
    if following == "(":
        if text.startswith("(", at + 2):
            end = arithmetic_end(scanner, at + 3)
            if end is not None:
                return end
        return scanner.substitution(at + 2)
    if following == "{":
        return brace_end(scanner, at, quoted)
    if following == "[":
        return _bracket_end(scanner, at)
    if following == "'" and not quoted:
        return ansi_end(text, at)
    if following == '"' and not quoted:
        return double_end(scanner, at + 1)
    if following and following in "$!?#@*-0123456789":
        return at + 2
    return at + 1


def brace_end(scanner: Scanner, at: int, quoted: bool) -> int:
    """The end of ``${...}``."""
    text = scanner.text
    head = _BRACE_HEAD.match(text, at)
    if head is None:
        raise Trouble(at, "this ${...} is not understood")
    if text[head.end() : head.end() + 1] not in _AFTER_NAME:
        raise Trouble(at, "this ${...} is not understood")
    # Inside double quotes a single quote in ${A:-it's} is a plain character, in ${A#'x'} it quotes.
    literal_single = quoted and _VALUE_OPERATOR.match(text, head.end()) is not None
    _deeper(scanner, at)
    here = head.end()
    while here < len(text):
        char = text[here]
        if char == "}":
            scanner.depth -= 1
            return here + 1
        if char == "\\":
            here += 2
        elif char == "'" and not literal_single:
            here = single_end(text, here)
        elif char == '"':
            here = double_end(scanner, here)
        elif char == "$":
            here = dollar_end(scanner, here, quoted)
        elif char == "`":
            here = backtick_end(text, here)
        elif char in "<>" and not quoted and text.startswith("(", here + 1):
            here = scanner.substitution(here + 2)
        else:
            here += 1
    raise Trouble(at, "a ${ is not closed")


def arithmetic_end(scanner: Scanner, at: int) -> Optional[int]:
    """The end of ``... ))`` from behind ``((``; None when the parentheses are two, not one double."""
    text = scanner.text
    depth = 0
    here = at
    while here < len(text):
        char = text[here]
        if char == "(":
            depth += 1
            here += 1
        elif char == ")":
            if depth == 0:
                return here + 2 if text.startswith("))", here) else None
            depth -= 1
            here += 1
        elif char == "\\":
            here += 2
        elif char == "'":
            here = single_end(text, here)
        elif char == '"':
            here = double_end(scanner, here)
        elif char == "$":
            here = dollar_end(scanner, here, True)
        elif char == "`":
            here = backtick_end(text, here)
        else:
            here += 1
    raise Trouble(at, "a (( is not closed")


def _bracket_end(scanner: Scanner, at: int) -> int:
    """``$[...]``, the old form of arithmetic."""
    text = scanner.text
    depth = 0
    here = at + 1
    while here < len(text):
        char = text[here]
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return here + 1
        elif char in "$`'\"\\":
            raise Trouble(at, "this $[...] is not understood")
        here += 1
    raise Trouble(at, "a $[ is not closed")


def _deeper(scanner: Scanner, at: int) -> None:
    scanner.depth += 1
    if scanner.depth > _DEEPEST:
        raise Trouble(at, "the script is nested too deeply")

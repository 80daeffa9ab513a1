# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Parsing a script again after one edit, without parsing what the edit cannot have touched."""

from __future__ import annotations

from typing import Optional

from .grammar import Grammar
from .nodes import Statement


def parsed_again(text: str, statements: list[Statement], start: int, end: int, new: str) -> Optional[list[Statement]]:
    """The statements after ``text[start:end]`` became ``new``: old ones, new ones, old ones again.

    The parser's state is plain where a statement of the top level begins on a line of its own: nothing is open,
    no here-document is awaited. So the text between two such places can be parsed by itself, if that ends
    in the same plain state. None when this cannot be made sure; then all must be parsed.
    """
    first = _last_before(text, statements, start)
    last = _first_behind(text, statements, end)
    if first is None or last is None:
        return None
    begin = statements[first].start
    finish = statements[last].start
    piece = text[begin:start] + new + text[end:finish]
    if not piece.endswith("\n") or piece.endswith("\\\n"):
        return None
    grammar = Grammar(text[:begin] + piece)
    between = grammar.statements_from(begin)
    if grammar.trouble is not None or grammar.open_ended or grammar.pending:
        return None
    return statements[:first] + between + statements[last:]


def _begins_a_line(text: str, statements: list[Statement], index: int) -> bool:
    return index == 0 or "\n" in text[statements[index - 1].end : statements[index].start]


def _last_before(text: str, statements: list[Statement], offset: int) -> Optional[int]:
    for index in range(_count_up_to(statements, offset - 1) - 1, -1, -1):
        if _begins_a_line(text, statements, index):
            return index
    return None


def _first_behind(text: str, statements: list[Statement], offset: int) -> Optional[int]:
    for index in range(_count_up_to(statements, offset), len(statements)):
        start = statements[index].start
        if _begins_a_line(text, statements, index) and text[start - 1] == "\n":
            return index
    return None


def _count_up_to(statements: list[Statement], offset: int) -> int:
    """How many statements begin at or before an offset."""
    low, high = 0, len(statements)
    while low < high:
        middle = (low + high) // 2
        if statements[middle].start <= offset:
            low = middle + 1
        else:
            high = middle
    return low

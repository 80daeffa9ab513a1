# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A text that a shell runs, walked as a script of its own: ``exec bash -c 'export A=1; exec python3 ...'``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grammar import Grammar
from .nodes import Word

if TYPE_CHECKING:
    from .walk import Walk

_TOLD = ("sourced", "eval", "unknown-names")


def changed_by(outer: Walk, text: str, word: Word, exporting: bool, make: type[Walk]) -> dict[str, bool]:
    """The names that are otherwise at the text's start of the engine than where the text is run, and whether each is
    only taken away; what is not understood is refused by the outer walk."""
    outside = {name: each for name, each in outer.state.variables.items() if each.exported is not False}
    grammar = Grammar(text)
    statements = grammar.program()
    for guessing in (False, True):
        walk = make(guessing, text)
        walk.state.variables = dict(outside)
        walk.allexport = exporting
        walk.top(statements)
        if walk.starts:
            break
    if grammar.trouble or walk.refusal or any(code == "cleared" for _, code, _ in walk.findings):
        outer.refuse(word.start, "What the shell that is run here does is not understood.")
    for _, code, sentence in walk.findings:
        if code in _TOLD:
            outer.finding(word.start, code, sentence)
    if walk.unclear:
        outer.any_name(word, "Which names the shell that is run here changes is only known at run time.")
    if walk.final:
        pictures = [walk.final.variables]
    else:
        pictures = [start.variables for start in walk.starts] or [walk.end_state]
    changed: dict[str, bool] = {}
    for picture in pictures:
        for name, now in picture.items():
            before = outer.state.get(name)
            if now[:3] != before[:3] and (now.exported is not False or before.exported is not False):
                changed[name] = changed.get(name, True) and now.set is False
    return changed

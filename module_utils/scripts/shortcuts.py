# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Edits that are right by what was read already, so that the script need not be walked again.

Most knobs are one ``export NAME=value`` of their own at the top level, and are named nowhere else. Nothing the walk
knows of any other name can then depend on them; what is left to check is that the edited line reads as meant.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Optional

from .analysis import Analysis
from .nodes import Statement
from .placing import Edit
from .reparsing import parsed_again
from .state import Place, Variable

_DEPENDING = re.compile(r"\$(?:\?|\{\?|\{![A-Za-z_]|\{?_(?![A-Za-z0-9_]))")  # on the command before, or on any name
_OWN_EXPORT = re.compile(r"\bexport[ \t\n]*\([ \t]*\)|\bfunction[ \t]+export\b")


def proven(before: Analysis, edit: Edit, name: str, value: Optional[str]) -> Optional[str]:
    """The edited text when the engine surely sees ``value`` (None: nothing) for the name by it, and all else as before;
    None when only another walk can tell."""
    if _DEPENDING.search(before.text):
        return None
    if any(code == "cleared" for _, code, _ in before.findings):
        return None
    if before.final is None or before.trouble or before.refusal or _OWN_EXPORT.search(before.text):
        return None
    variable = before.variables.get(name)
    uses = len(re.findall(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])", before.text))
    if variable is None:
        place, index = None, _between(before, edit)
        expected = uses == 0
    else:
        place = _plain(variable)
        index = _position(before.statements, place.statement) if place else None
        expected = uses == 1
    if index is None or not expected or (place is None and value is None):
        return None
    after = parsed_again(before.text, before.statements, *edit)
    if after is None:
        return None
    new = [] if value is None else [after[index]] if index < len(after) else []
    if value is not None and not (new and _exports(new[0], name, value)):
        return None
    rest = before.statements[index + (place is not None) :]
    behind = after[index + len(new) :]
    if len(behind) != len(rest):
        return None
    for one, other in zip(behind, rest):
        if one is other:
            break  # from here on nothing was parsed again
        if one.end - one.start != other.end - other.start:
            return None
    return before.text[: edit.start] + edit.text + before.text[edit.end :]


def _plain(variable: Variable) -> Optional[Place]:
    """The one place that decides the variable, when it is an export of its own that always runs."""
    place = variable.origin
    if place is None or variable.maybe or variable.exporters != (place,) or variable.array or variable.integer:
        return None
    if variable.exported is not True or variable.set is not True or variable.readonly is not False:
        return None
    if place.conditional or place.subshell or place.function or place.visits != 1:
        return None
    command, statement = place.command, place.statement
    if command is None or command.export is None or command.redirects or statement is None:
        return None
    return place if statement.simple is command and not statement.background else None


def _position(statements: list[Statement], statement: Optional[Statement]) -> Optional[int]:
    if statement is None:
        return None
    index = bisect_left(_starts(statements), statement.start)
    return index if index < len(statements) and statements[index] is statement else None


def _between(before: Analysis, edit: Edit) -> Optional[int]:
    """The number of statements of the top level before a line that is put in there, before the engine's start."""
    if edit.start != edit.end or (edit.start and before.text[edit.start - 1] != "\n") or before.final is None:
        return None
    statements = before.statements
    index = bisect_left(_starts(statements), edit.start)
    if index and statements[index - 1].end > edit.start:
        return None
    return index if edit.start <= before.final.outer[0] else None


def _starts(statements: list[Statement]) -> list[int]:
    return [statement.start for statement in statements]


def _exports(statement: Statement, name: str, value: str) -> bool:
    return statement.simple is not None and not statement.background and statement.simple.export == (name, value)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What may end a script before it starts the engine: tests under ``set -e`` or in front of an ``exit``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .commands import HARMLESS
from .nodes import Compound, Simple, Statement
from .state import State

_WORDS = re.compile(r"[\w.:-]+")
_ARITHMETIC = r"\(\(|\blet\b"
_TEST = re.compile(rf"case |(?:\[|\btest\b).*(?:[=<>]|\s-(?:eq|ne|lt|gt|le|ge|n|z)\b)|{_ARITHMETIC}", re.DOTALL)
_COMPARING = re.compile(rf"case |=|[^0-9&][<>]|\s-(?:eq|ne|lt|gt|le|ge)\b|{_ARITHMETIC}")
_TESTS = ("[", "test", "let", "expr")


def told_by(guard: str, functions: Mapping[str, tuple[tuple[Compound, ...], bool]]) -> str:
    """What a condition says, and what the functions in it say."""
    if not functions:
        return guard
    names = [name for name in dict.fromkeys(_WORDS.findall(guard)) if name in functions]
    for name in names:
        source = "\n".join(body.branches[0].guard for body in functions[name][0])
        guard += "\n" + source
        names += [each for each in dict.fromkeys(_WORDS.findall(source)) if each in functions and each not in names]
    return guard


def is_test(command: Simple) -> bool:
    return bool(command.words) and command.words[0].raw in _TESTS


def tests_of(statement: Statement, in_function: bool) -> list[str]:
    """The tests of a statement that end the script under ``set -e`` when they fail.

    These are the last command of the statement, and those in front of ``&&`` when the statement may be the last of
    a function, since its status is then that of the function's call (bash's manual, ``set -e``).
    """
    last = statement.pipelines[-1].commands[-1]
    tests = list(statement.guards) if in_function else []
    if isinstance(last, Compound):
        if last.kind in ("test", "arithmetic"):
            tests.append(last.head)
    elif is_test(last):
        tests.append(" ".join(word.raw for word in last.words))
    return tests


def what_ends(source: str, state: State) -> int:
    """What a test says and on what inputs, as one number; 0 for what is no test of values.

    Whether a file is there (``-d``, ``-f``) is not for the reader to judge: such tests are what a script has to tell
    a wrong value by.
    """
    if not _TEST.search(source):
        return 0
    if _COMPARING.search(source):
        return hash((source, state.mentioned(source)))
    return hash(
        (source, *((name, _is_empty(state, name)) for name in _WORDS.findall(source) if name in state.variables))
    )


def _is_empty(state: State, name: str) -> object:
    variable = state.get(name)
    known = variable.set is False or variable.value == "" or any(isinstance(part, str) for part in variable.value)
    return not variable.value or variable.set is False if known else variable.value


def may_be_left(command: Compound) -> bool:
    """Whether nothing of it runs when one of its redirections fails, and the script goes on behind it."""
    body = command.branches[-1].body if command.branches else []
    last: object = body[-1].simple if body else None
    if isinstance(last, Simple) and len(last.words) > 1 and last.words[0].raw == "exec":
        return False
    return any(not HARMLESS.match(redirect.raw) for redirect in command.redirects)

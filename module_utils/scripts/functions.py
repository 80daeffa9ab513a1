# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The functions of a script: which definitions a call may find, what is local in them."""

from __future__ import annotations

from functools import partial
from typing import Optional

from .commands import Commands
from .nodes import Compound, Statement
from .state import Variable, joined

_DEEPEST_CALLS = 12


class Functions(Commands):
    """The part of the walk that knows the functions."""

    def __init__(self) -> None:
        super().__init__()
        # the definitions that a call may find, and whether there may be none
        self.functions: dict[str, tuple[tuple[Compound, ...], bool]] = {}
        self.defined = 0
        self.perhaps: set[tuple[int, str]] = set()  # names that are local in a function on some ways only
        self.called: set[str] = set()

    # -- what the walk provides

    def statements(self, statements: list[Statement]) -> None:
        raise NotImplementedError

    def frame(self) -> Optional[tuple[str, dict[str, Variable]]]:
        return self.frames[-1] if self.frames else None

    def hidden(self) -> dict[str, Variable]:
        """What the locals of the function on the way hide, as it is now."""
        return dict(self.frames[-1][1]) if self.frames else {}

    def hide(self, hidden: dict[str, Variable]) -> None:
        if self.frames:
            self.frames[-1][1].clear()
            self.frames[-1][1].update(hidden)

    def is_function(self, name: str) -> bool:
        return name in self.functions

    def define(self, function: Compound) -> None:
        earlier, maybe = self.functions.get(function.name, ((), True))
        if not self.conditional:
            self.functions[function.name] = ((function,), False)
        elif function not in earlier:
            self.functions[function.name] = ((*earlier, function), maybe)
        self.defined += 1

    def forget_function(self, name: str, sure: bool) -> None:
        if name in self.functions:
            if sure and not self.conditional:
                del self.functions[name]
            else:
                self.functions[name] = (self.functions[name][0], True)
            self.defined += 1

    def call(self, name: str) -> bool:
        """Follow a call; False when there is no such function."""
        definition = self.functions.get(name)
        if definition is None:
            return False
        bodies, maybe = definition
        if any(frame[0] == name for frame in self.frames) or len(self.frames) >= _DEEPEST_CALLS:
            self.refuse(bodies[-1].start, f"The function {name} calls itself, which is not followed.")
            return True
        if not self.dead:
            self.called.add(name)
        statement, command = self.statement, self.command

        def run(function: Compound) -> None:
            hidden: dict[str, Variable] = {}
            self.frames.append((name, hidden))
            left, self.left = self.left, ""
            returns, arguments = self.returns, self.state.arguments
            if command is not None:
                self.state.arguments = hash(("call", arguments, *(word.raw for word in command.words)))
            self.statements(function.branches[0].body)
            self.left = left
            self.returns, self.state.arguments = returns, arguments
            self.frames.pop()
            depth = len(self.frames) + 1
            for local, before in hidden.items():
                if (depth, local) in self.perhaps:
                    # on the way on which it was not local, it is what it was made since
                    before = joined(before, [before, self.state.get(local)])
                self.state.put(local, before)
            self.perhaps = {each for each in self.perhaps if each[0] != depth}

        if maybe or len(bodies) > 1:
            self.branches([partial(run, body) for body in bodies], covered=not maybe, guard="")
        else:
            run(bodies[0])
        self.statement, self.command = statement, command
        return True

    def call_any(self) -> None:
        """A command whose name is not known: it may be any of the functions."""
        for name in list(self.functions):
            if not any(frame[0] == name for frame in self.frames):
                self.branches([partial(self._call_quietly, name)], covered=False, guard="")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A walk through a script in the order in which bash would run it, without running anything.

The walk keeps what is known of the variables (``State``), notes every place that may decide a knob, and
takes a picture of the state at each start of the engine. What stands under a condition is walked as one
way of several, and the ways are joined behind it.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, NamedTuple, Optional

from .ending import is_test, may_be_left, tests_of, told_by, what_ends
from .functions import Functions
from .inner import changed_by
from .nodes import Command, Compound, Pipeline, Simple, Statement, Word
from .sources import Sources
from .state import Variable, unknown

# A script of any honest size needs far fewer; the bound is against functions that call each other.
_MOST_STEPS = 200_000
_DEEPEST_LOOPS = 5


class Start(NamedTuple):
    """A command that starts the engine (or replaces the shell), and what it sees."""

    offset: int
    end: int
    outer: tuple[int, int]  # the statement of the script's top level that it is part of
    variables: dict[str, Variable]
    is_exec: bool
    certain: bool
    order: int
    nounset: bool
    files: str  # the source of its redirections


class Walk(Functions):
    def __init__(self, guessing: bool = False, text: str = "") -> None:
        super().__init__()
        self.text = text
        self.program: list[Statement] = []
        self.sources: Optional[Sources] = None
        self.guessing = guessing
        self.final: Optional[Start] = None
        self.starts: list[Start] = []
        self.steps = 0
        # for each name that is changed under a condition: what the conditions say, and on what inputs
        self.guarded: dict[str, list[int]] = {}
        self.asked: list[tuple[int, int]] = []  # the same of each test by which the script may end early, and its place
        self.asking = 0  # within a condition: what fails here ends nothing
        self.end_state: dict[str, Variable] = {}

    # -- statements

    def top(self, statements: list[Statement]) -> None:
        self.program = statements
        for statement in statements:
            self.outer = (statement.start, statement.end)
            self._statement(statement)
            self._end_reached()
        self.end_state = dict(self.state.variables)
        self.dead = True
        for name, (bodies, _) in list(self.functions.items()):
            if name not in self.called and bodies[-1].branches[0].telling:
                self.frames.append((name, {}))
                self.statements(bodies[-1].branches[0].body)
                self.frames.pop()

    def _end_reached(self) -> None:
        if self.ended:
            self.dead = True
            self.ended = False

    def statements(self, statements: list[Statement]) -> None:
        for index, statement in enumerate(statements):
            self._statement(statement)
            if self.ended and not self.dead:
                # the rest of this list never runs on this way
                self._dead_rest(statements[index + 1 :])
                return
            if self.left:
                rest = statements[index + 1 :]
                if self.left == "sure":
                    self._dead_rest(rest)
                elif rest:
                    self.branches([partial(self.statements, rest)], covered=False, guard="return")
                return

    def _dead_rest(self, rest: list[Statement]) -> None:
        if not rest:
            return
        before = (self.dead, self.ended, self.left)
        self.dead = True
        mark, hidden = self.state.mark(), self.hidden()
        for statement in rest:
            self._statement(statement)
        self.state.undo(mark)
        self.hide(hidden)
        self.dead, self.ended, self.left = before

    def _statement(self, statement: Statement) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise RecursionError
        if statement.simple is not None and not statement.background:
            self.statement = statement
            if self.errexit and not self.asking and not self.dead and is_test(statement.simple):
                self._ends_by(*tests_of(statement, False))
            self.simple(statement.simple)
        elif statement.background:
            self._apart(lambda: self._and_or(statement))
        else:
            self._and_or(statement)

    def _and_or(self, statement: Statement) -> None:
        self.statement = statement
        if self.errexit and not self.asking and not self.dead:
            self._ends_by(*tests_of(statement, bool(self.frames)))
        self._pipeline(statement.pipelines[0])
        for guard, pipeline in zip(statement.guards, statement.pipelines[1:]):
            if self.ended or self.left == "sure":
                span = Statement(statement.start, statement.end, [pipeline], [])
                self._dead_rest([span])
                continue
            self.statement = statement
            self.branches([partial(self._pipeline, pipeline)], covered=False, guard=guard)

    def _tag(self, guard: str) -> int:
        told = told_by(guard, self.functions)
        return hash((told, self.state.mentioned(told)))

    def _ends_by(self, *guards: str) -> None:
        for guard in guards:
            ends = what_ends(told_by(guard, self.functions), self.state)
            if ends:
                self.asked.append((ends, self.statement.start if self.statement else 0))

    def _pipeline(self, pipeline: Pipeline) -> None:
        if len(pipeline.commands) == 1:
            self._command(pipeline.commands[0])
            return
        for command in pipeline.commands:
            self._apart(partial(self._command, command))

    def _apart(self, run: Callable[[], None]) -> None:
        """In a subshell: nothing of it reaches the script."""
        before = (self.ended, self.left, self.allexport, self.nounset)
        functions, self.functions = self.functions, dict(self.functions)
        self.subshell += 1
        mark, hidden = self.state.mark(), self.hidden()
        run()
        self.state.undo(mark)
        self.hide(hidden)
        self.subshell -= 1
        self.functions = functions
        self.ended, self.left, self.allexport, self.nounset = before

    def branches(self, ways: list[Callable[[], None]], *, covered: bool, guard: str) -> None:
        """Ways of which at most one is taken (exactly one when ``covered``)."""
        outcomes: list[dict[str, Variable]] = [] if covered else [{}]
        switches = (self.allexport, self.nounset)
        after: list[tuple[Optional[bool], bool]] = [] if covered else [switches]
        left = self.left
        self.conditional += 1
        exits, last, statement = self.exits, self.state.last, self.statement
        hidden = self.hidden()
        found: dict[str, Variable] = dict(hidden)
        for way in ways:
            mark = self.state.mark()
            self.hide(hidden)
            self.left = ""
            way()
            changed = self.state.undo(mark)
            found = {**self.hidden(), **found}
            if not self.ended:
                outcomes.append(changed)
                after.append((self.allexport, self.nounset))
            if self.left:
                left = left or "maybe"
            self.ended = False
            self.allexport, self.nounset = switches
        self.conditional -= 1
        self.left = left
        # all ways are undone here: the condition is told by what it found
        before, self.state.last = self.state.last, last
        if self.exits > exits and not self.dead:
            self.statement = statement
            self._ends_by(guard)
        tag = self._tag(guard) if any(outcomes) else 0
        self.state.last = before
        self.hide(found)
        self.perhaps.update((len(self.frames), name) for name in found if name not in hidden)
        if not outcomes:
            self.ended = True
            return
        for name in self.state.join(outcomes):
            self.guarded.setdefault(name, []).append(tag)
        exports = {pair[0] for pair in after}
        self.allexport = exports.pop() if len(exports) == 1 else None
        self.nounset = any(pair[1] for pair in after)

    # -- commands

    def _command(self, command: Command) -> None:
        if isinstance(command, Simple):
            self.simple(command)
            return
        if command.redirects:
            self.numbered(command.redirects)
        source = command.head
        if "=" in source and "$" in source:
            self.hidden_defaults(command.head, command.start)
        if command.redirects and command.kind in ("group", "if", "case", "test", "arithmetic") and may_be_left(command):
            # where one of them fails nothing is run
            self.branches([partial(self._compound, command)], covered=False, guard="")
        else:
            self._compound(command)

    def _compound(self, command: Compound) -> None:
        kind = command.kind
        if kind == "group":
            self.statements(command.branches[0].body)
        elif kind in ("subshell", "coproc"):
            if kind == "coproc":
                for name, form in ((command.name, "array"), (command.name + "_PID", "command")):
                    self.fill(name, command.start, command.end, unknown("coproc", name), form)
            self._apart(lambda: self.statements(command.branches[0].body))
        elif kind == "if":
            self._if(command, 0)
        elif kind == "case":
            guard = "case " + command.head
            self.branches(
                [partial(self.statements, branch.body) for branch in command.branches],
                covered=command.covered,
                guard=guard,
            )
        elif kind in ("while", "until", "for", "select"):
            self._loop(command)
        elif kind == "function":
            self.define(command)
        elif kind == "test":
            self.tested(command.head, command.start)
        else:
            self.arithmetic(command.head, command.start)

    def _if(self, command: Compound, index: int) -> None:
        branch = command.branches[index]
        if not branch.condition:
            self.statements(branch.body)
            return
        self._ask(branch.condition)
        if self.ended or self.left == "sure":
            return
        guard = branch.guard
        ways: list[Callable[[], None]] = [lambda: self.statements(branch.body)]
        last = index + 1 == len(command.branches)
        if not last:
            ways.append(lambda: self._if(command, index + 1))
        self.branches(ways, covered=not last, guard=guard)

    def _ask(self, condition: list[Statement]) -> None:
        self.asking += 1
        self.statements(condition)
        self.asking -= 1

    def _loop(self, command: Compound) -> None:
        branch = command.branches[0]
        left, returns = self.left, self.returns
        guard = command.head
        if branch.condition:
            guard = branch.guard

        def once() -> None:
            self.loops += 1
            self.state.blind += 1
            if command.name:
                self.fill(command.name, command.start, command.end, unknown("loop", command.head), "command")
            if command.head.startswith("(("):
                self.arithmetic(command.head, command.start)
            self._ask(branch.condition)
            if not self.ended:
                self.statements(branch.body)
            self.state.blind -= 1
            self.loops -= 1
            self.left = ""

        def rounds() -> None:
            # a second round sees what the first has switched on; values are unknown in both
            switches = (self.allexport, self.nounset, self.defined)
            mark, starts = self.state.mark(), len(self.starts)
            once()
            if self.ended or self.loops >= _DEEPEST_LOOPS:
                return
            if switches != (self.allexport, self.nounset, self.defined) or self.state.switched(
                mark, len(self.starts) > starts
            ):
                once()

        if self.loops >= _DEEPEST_LOOPS:
            self.refuse(command.start, "Loops are nested too deeply here.")
        self.branches([rounds], covered=False, guard=guard)
        self.left = left or ("maybe" if self.returns > returns else "")

    # -- other texts

    def all_sources(self) -> Sources:
        if self.sources is None:
            self.sources = Sources(self.program, self.text)
        return self.sources

    def inner(self, text: str, word: Word, exporting: bool = False) -> dict[str, bool]:
        return changed_by(self, text, word, exporting, Walk)

    # -- starts

    def start(self, command: Simple, is_exec: bool) -> None:
        """The engine starts here, or the shell is replaced."""
        if self.dead:
            return
        variables = dict(self.state.variables)
        certain = not self.conditional
        files = " ".join(redirect.raw for redirect in command.redirects)
        start = Start(
            command.start, command.end, self.outer, variables, is_exec, certain, self.order, self.nounset, files
        )
        if self.guessing and not is_exec:
            self.starts = [start]
        else:
            self.starts.append(start)
        if is_exec:
            self.ended = True
            if certain and not self.subshell and self.final is None:
                self.final = start

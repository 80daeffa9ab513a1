# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a serve script exports, by bash's rules, without running it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Optional

from .analysis import Analysis, analyse, known, winning_value
from .state import Place


@dataclass(frozen=True)
class Export:
    """One place in the script that exports a name, or that would if it were reached.

    :ivar value: what bash would give; None when that is only known at run time. UTF-8, other bytes
        as surrogates (``os.fsdecode``); of a CRLF file's unquoted value the carriage return is part, as for bash.
    :ivar line: 1-based line of the assignment
    :ivar state: ``active``, ``overridden`` (a later one wins, or it is unset again), ``conditional``,
        ``dead`` (after the engine's start, in a subshell, in a function that is not called) or ``commented``
    :ivar form: ``export``, ``declare``, ``prefix`` (in front of the engine's command), ``env`` (``env A=1 python``)
        or ``assignment`` (``A=1`` of an exported name)
    :ivar text: the source line, not masked
    """

    name: str
    value: Optional[str]
    line: int
    state: str
    form: str
    text: str


@dataclass(frozen=True)
class Finding:
    """Something that people should know: ``duplicated``, ``conditional``, ``dead``, ``commented``, ``no-exec``,
    ``sourced``, ``eval``, ``carriage-return``, ``not-understood`` and others."""

    line: int
    code: str
    sentence: str


@dataclass(frozen=True)
class Reading:
    exports: tuple[Export, ...]
    exec_line: Optional[int]
    findings: tuple[Finding, ...]
    refusal: Optional[str] = None  # why no edit of this script is safe, if that is so
    _active: dict[str, Export] = field(default_factory=dict, repr=False, compare=False)

    def value(self, name: str) -> Optional[str]:
        """The value that the engine surely sees for a name; None when there is none or it is not known."""
        export = self._active.get(name)
        return export.value if export else None

    def active(self) -> dict[str, Export]:
        """The winning exports by name. An export that a later conditional one may replace has the value None."""
        return dict(self._active)


@lru_cache(maxsize=8)
def read_script(data: bytes) -> Reading:
    """Read a serve script: never raises, whatever the bytes are."""
    return present(analyse(data.decode("latin-1")))


def present(analysis: Analysis) -> Reading:
    text = analysis.text
    lines = text.split("\n")
    ends = list(accumulate(len(line) + 1 for line in lines))

    def line_of(offset: int) -> int:
        return bisect_right(ends, offset) + 1

    findings = [Finding(line_of(offset), code, sentence) for offset, code, sentence in analysis.findings]
    exports: list[Export] = []
    active: dict[str, Export] = {}
    counted: dict[str, int] = {}
    for place in analysis.places:
        state = analysis.state(place)
        line = line_of(place.start)
        source = lines[line - 1]
        export = Export(place.name, known(place.value), line, state, place.form, _shown(source))
        exports.append(export)
        findings += _said(analysis, place, state, line, counted)
        if state == "active":
            variable = analysis.variables[place.name]
            value = winning_value(variable, place.name)
            active[place.name] = Export(place.name, value, line, state, place.form, export.text)
    for name, count in counted.items():
        if count > 1:
            line = max(each.line for each in exports if each.name == name and each.state in ("active", "overridden"))
            findings.append(Finding(line, "duplicated", f"{name} is exported {count} times; the last one counts."))
    exec_line = None
    if analysis.starts and not analysis.guessed:
        exec_line = analysis.line((analysis.final or analysis.starts[-1]).offset)
    if analysis.final is None:
        last = text.count("\n") + 1
        findings.append(Finding(exec_line or last, "no-exec", _without_exec(analysis)))
    if "\r\n" in text and any("\r" in (export.value or "") for export in exports):
        findings.append(
            Finding(
                1, "carriage-return", "Lines end in CRLF: bash makes the carriage return a part of unquoted values."
            )
        )
    findings.sort(key=lambda each: (each.line, each.code))
    refusal = None
    if analysis.refusal:
        refusal = f"line {analysis.line(analysis.refusal[0])}: {analysis.refusal[1]}"
    return Reading(tuple(exports), exec_line, tuple(findings), refusal, active)


def _shown(source: str) -> str:
    return source.rstrip("\r").encode("latin-1").decode("utf-8", "replace")


def _said(analysis: Analysis, place: Place, state: str, line: int, counted: dict[str, int]) -> list[Finding]:
    name = place.name
    if state in ("active", "overridden"):
        counted[name] = counted.get(name, 0) + 1
        if place.element:
            return [Finding(line, "array", f"{name} is an array here, and bash exports no arrays.")]
        return []
    if state == "conditional":
        where = f"in the function {place.function}" if place.function else "under a condition"
        return [Finding(line, "conditional", f"{name} is exported {where}: only a run tells whether it counts.")]
    if state == "dead":
        if place.subshell:
            why = "in a subshell, which exports nothing to the engine"
        elif place.function and place.visits == 0:
            why = f"in the function {place.function}, which is not called before the engine's start"
        else:
            why = "where it has no effect: the engine is started before"
        return [Finding(line, "dead", f"{name} is exported {why}.")]
    return [Finding(line, "commented", f"{name} stands here in a comment.")]


def _without_exec(analysis: Analysis) -> str:
    if not analysis.starts:
        return "No exec and no start of an engine is found: the exports at the end of the script are taken."
    if analysis.guessed:
        line = analysis.line(analysis.starts[-1].offset)
        return f"No exec and no engine is recognized: the command in line {line} is taken for it."
    if any(start.is_exec for start in analysis.starts):
        return "Every exec is under a condition: what holds at each of them is taken."
    if len(analysis.starts) > 1:
        return "Several engines are started without exec: what holds at each of them is taken."
    return "The engine is started without exec: the service manager's signals go to the shell."

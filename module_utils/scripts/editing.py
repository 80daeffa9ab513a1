# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Setting and unsetting one knob in a serve script, keeping every byte that need not change.

A change is made only when the result, read again, gives exactly what was asked and leaves all else that the
engine sees as it was; otherwise :class:`EditRefused` names the line and what to do.
"""

from __future__ import annotations

import re
from typing import Optional

from ..knobs import check_name, check_value
from ..pdops_error import PdopsError
from .analysis import Analysis, analyse, analyse_edited
from .placing import new_exports, with_value, without
from .shortcuts import proven
from .state import COMPUTED, Place, Variable

_MOST_REMOVALS = 50
# What a name that is not set is no empty text for: an expansion without a default, and arithmetic.
_USE = (
    r"\$(?:NAME(?!\w)|\{[#!]?NAME(?=[\}#%/^,@\[]|:[^-=+?]))"
    r"|(?:\(\(|\$\[|\blet\s|\[\[|\$\{[!#]?\w+(?:\[|:(?![-=+?]))|(?<![\w$])\w+\[)[^\n]*?(?<![\w{$])NAME(?!\w|\+?=[^=])"
)


class EditRefused(PdopsError):
    """The script cannot be edited safely; the sentence names the line. ``details``: ``knob`` and ``line``."""


def set_knob(data: bytes, name: str, value: str) -> bytes:
    """The script with one knob set; the same bytes when the engine already sees this value.

    :param value: the text that the engine is to see (non-UTF-8 bytes as surrogates)
    :raises EditRefused: the winning export is conditional, made by eval, read or a loop, an array, or other exports
        depend on it; nothing is ever half done
    :raises PdopsError: the name or the value is none
    """
    check_name(name)
    checked = check_value(name, value)
    if checked is None:
        return unset_knob(data, name)
    wanted = checked.encode("utf-8", "surrogateescape").decode("latin-1")
    before = readable(data, name)
    variable = before.variables.get(name)
    if name in COMPUTED:
        raise _refused(name, 1, "bash computes this name itself, so no script can set it", "leave it alone")
    if _is_set(variable, wanted):
        return data
    if variable is not None and variable.exported is not False:
        refuse_unsure(before, name, variable)
    problem: Optional[EditRefused] = None
    origin = variable.origin if variable and variable.exported and variable.set is not False else None
    proposals = iter([with_value(before.text, origin, wanted)]) if origin else new_exports(before, name, wanted)
    for edit in proposals:
        short = proven(before, edit, name, wanted)
        if short is not None:
            return short.encode("latin-1")
        after = analyse_edited(before, *edit)
        found = difference(before, after, name)
        if found is None and not _is_set(after.variables.get(name), wanted):
            line = before.line(origin.start if origin else before.starts[-1].offset if before.starts else 0)
            found = _refused(name, line, "the value would not be in effect at the engine's start", "edit it by hand")
        if found is None:
            if not wanted:
                _refuse_required(before, name, r"\$\{" + name + r":\?")
            return after.text.encode("latin-1")
        problem = problem or found
    raise problem or _refused(name, 1, "there is no place where an export would be in effect", "add it by hand")


def unset_knob(data: bytes, name: str) -> bytes:
    """The script without the exports of one knob that take effect; the same bytes when there are none.

    :raises EditRefused: as for :func:`set_knob`; also when ``set -u`` is on and the script still uses the variable
    """
    check_name(name)
    before = analysis = readable(data, name)
    if before.unclear and (name not in before.variables or before.variables[name].exported is False):
        # what is named nowhere is not looked for in the files that such a command may read, as with ``source``
        why = f"only a run tells which names the command in line {before.line(before.unclear[1])} changes"
        _refuse_use(before, name, re.compile(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])"), why)
    for _ in range(_MOST_REMOVALS):
        variable = analysis.variables.get(name)
        place = _removable(analysis, name, variable) if variable else None
        if place is None:
            break
        problem: Optional[EditRefused] = None
        for edit in without(analysis.text, place):
            short = proven(before, edit, name, None) if analysis is before else None
            if short is not None:
                return short.encode("latin-1")
            after = analyse_edited(analysis, *edit)
            problem = difference(before, after, name)
            if problem is None:
                rest = after.variables.get(name)
                if rest is not None and rest.exported is not False:
                    after = analyse(after.text)  # now with the right offsets
                analysis = after
                break
        else:
            raise problem or _refused(
                name, analysis.line(place.start), "this export cannot be taken away alone", "remove it by hand"
            )
    if analysis is not before:
        _refuse_required(before, name, r"\$\{" + name + r":?\?")
        _refuse_unbound(before, analysis, name)
    return analysis.text.encode("latin-1")


def readable(data: bytes, name: str) -> Analysis:
    analysis = analyse(data.decode("latin-1"))
    if analysis.refusal:
        offset, sentence = analysis.refusal
        raise _refused(name, analysis.line(offset), _clause(sentence), "edit it by hand")
    return analysis


def _clause(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _refused(name: str, line: int, why: str, what_to_do: str) -> EditRefused:
    return EditRefused(f"{name} is left as it is: line {line}: {why}; {what_to_do}.", knob=name, line=line)


def _is_set(variable: Optional[Variable], wanted: str) -> bool:
    return (
        variable is not None
        and variable.exported is True
        and variable.set is True
        and not variable.array
        and variable.value == wanted
    )


def refuse_unsure(analysis: Analysis, name: str, variable: Variable) -> None:
    """Refuse when what decides the knob is not one plain assignment."""
    origin = variable.origin
    unsure = origin is not None and origin.conditional and origin.form not in ("prefix", "env")
    places = [*variable.maybe, *([origin] if origin and unsure else [])]
    if variable.exported is None and not places:
        places = [place for place in variable.exporters if place.conditional]
    if places and len(analysis.starts) > 1 and places[-1].form in ("prefix", "env"):
        line = analysis.line(places[-1].start)
        raise _refused(
            name, line, "several engines are started, and not all see this value", "change that line by hand"
        )
    if places:
        line = analysis.line(places[-1].start)
        raise _refused(name, line, "it is decided under a condition here", "change that line by hand, or move it out")
    if origin is None:
        return
    line = analysis.line(origin.start)
    if origin.element or variable.array:
        raise _refused(name, line, "it is an array here, which bash does not export", "change that line by hand")
    if variable.exported is None:
        raise _refused(name, line, "whether it is exported is only known when the script runs", "edit it by hand")
    if origin.form in ("command", "eval", "default"):
        raise _refused(name, line, "it gets its value from a command here", "change that line by hand")


def _removable(analysis: Analysis, name: str, variable: Variable) -> Optional[Place]:
    """The next place to take away; None when the engine does not see the name any more."""
    if variable.exported is False or variable.set is False or (variable.origin is None and not variable.exporters):
        if not variable.maybe:
            return None
        if variable.exported is False:
            return None
    if variable.origin is None or variable.origin.value_start >= 0 or variable.maybe or not variable.exporters:
        refuse_unsure(analysis, name, variable)
    origin = variable.origin
    if origin is not None and origin.form in ("export", "declare", "prefix", "env"):
        return origin
    for place in reversed(variable.exporters):
        if place.conditional:
            raise _refused(
                name, analysis.line(place.start), "it is exported under a condition here", "change that line by hand"
            )
        return place
    return origin


def difference(before: Analysis, after: Analysis, name: str) -> Optional[EditRefused]:
    """What an edit would change beyond the knob, as the refusal that says so."""
    if after.refusal:
        return _refused(name, after.line(after.refusal[0]), _clause(after.refusal[1]), "edit it by hand")
    if [start.is_exec for start in before.starts] != [start.is_exec for start in after.starts]:
        return _refused(name, 1, "the edit would change which command starts the engine", "edit it by hand")
    if [tag for tag, _ in before.asked] != [tag for tag, _ in after.asked]:
        ends = [one for one, other in zip(before.asked, after.asked) if one[0] != other[0]] or before.asked[-1:]
        line = before.line(ends[0][1]) if ends else 1
        return _refused(name, line, f"whether the script ends here depends on {name}", "edit it by hand")
    old, new = before.exported(), after.exported()
    for other in dict.fromkeys((*old, *new)):
        if other == name:
            continue
        left, right = old.get(other), new.get(other)
        same = left is not None and right is not None and left[:3] == right[:3]
        if not same or before.guarded.get(other) != after.guarded.get(other):
            place = (left.origin or (left.maybe[-1] if left.maybe else None)) if left else None
            line = before.line(place.start) if place else 1
            return _refused(
                name, line, f"the value of {other} depends on {name} and would change with it", "change both by hand"
            )
    return None


def _refuse_unbound(before: Analysis, after: Analysis, name: str) -> None:
    """A use of a variable that is gone ends the script under ``set -u``, and as a log's name everywhere."""
    variable = after.variables.get(name)
    if variable is not None and variable.set:
        return
    anywhere = rf"(?<!\w){name}(?!\w)" if "${!" in before.text else _USE.replace("NAME", name)
    use = re.compile(anywhere)
    if any(use.search(start.files) for start in before.starts):
        line = before.line(before.starts[-1].offset)
        raise _refused(name, line, f"the engine's output goes to a file named by ${name}", "change that line first")
    if not any(start.nounset for start in after.starts) or not use.search(after.text):
        return
    _refuse_use(before, name, use, f"'set -u' is on and the script uses ${name} here, so it would stop")


def _refuse_required(before: Analysis, name: str, use: str) -> None:
    """``${NAME:?}`` ends the script when there is nothing in NAME."""
    _refuse_use(before, name, re.compile(use), f"the script stops here when there is nothing in ${name}")


def _refuse_use(before: Analysis, name: str, use: re.Pattern[str], why: str) -> None:
    own = [(comment.start, comment.end) for comment in before.comments]
    own += [(place.start, place.end) for place in before.places if place.name == name]
    limit = max((start.end for start in before.starts), default=len(before.text))
    for match in use.finditer(before.text, 0, limit):
        if not any(start <= match.start() < end for start, end in own):
            raise _refused(name, before.line(match.start()), why, "change that line first")

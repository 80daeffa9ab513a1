# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Taking one knob over from another version of a script, as it is written there and not only by its value.

A value that only a run tells (``$(nproc)``, ``${X:-8}``) can be put back in no other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from .analysis import Analysis, analyse_edited
from .deciding import knob_line, line_span, same_knob
from .diffing import knobs_changed, lines_beyond
from .editing import EditRefused, difference, readable, refuse_unsure, unset_knob
from .nodes import Statement
from .placing import REST_OF_LINE, Edit, is_alone, new_exports
from .state import Place, Variable


def take_knob(data: bytes, name: str, source: bytes) -> bytes:
    """The script with one knob as ``source`` has it: its line (with the comment behind it), or its text of the value
    when other things are on the line. A knob that ``source`` has not is unset.

    :raises EditRefused: the knob would not become what it is by ``source``, or something else would change with it;
        the sentence shows the former line
    """
    if same_knob(data, source, name):
        return data
    if set(knobs_changed(data, source)) == {name} and not lines_beyond(data, source, {name}):
        return source  # they differ in nothing else, so every byte comes back
    theirs = readable(source, name)
    wanted = theirs.exported().get(name)
    if wanted is None:
        return unset_knob(data, name)
    before = readable(data, name)
    have = before.variables.get(name)
    if have is not None and have.exported is not False:
        refuse_unsure(before, name, have)
    place = wanted.origin
    if place is not None and place.value_start >= 0 and not wanted.maybe and not wanted.array:
        for edit in _ways(before, name, theirs, place):
            after = analyse_edited(before, *edit)
            if difference(before, after, name) is None and _same(after.exported().get(name), wanted):
                return after.text.encode("latin-1")
    line = theirs.line(place.start) if place else 1
    raise EditRefused(
        f"{name} is left as it is: its former line cannot be put back by itself so that it means the same, "
        f"line {line} of the former script: {knob_line(source, name)}; edit it by hand.",
        knob=name,
        line=line,
    )


def _same(one: Optional[Variable], other: Variable) -> bool:
    return one is not None and one[:3] == other[:3]


def _own_line(text: str, place: Place) -> Optional[tuple[int, int]]:
    """The line of a place, when the place is alone on it but for a comment."""
    command, statement = place.command, place.statement
    if command is None or not isinstance(statement, Statement) or statement.only() is not command:
        return None
    if not is_alone(command, place) or command.redirects:
        return None
    start, end = line_span(text, statement.start)
    rest = REST_OF_LINE.match(text, statement.end)
    if text[start : statement.start].strip(" \t") or rest is None or rest.end() != end:
        return None
    return start, end


def _ways(before: Analysis, name: str, theirs: Analysis, place: Place) -> Iterator[Edit]:
    text = before.text
    line = _own_line(theirs.text, place)
    variable = before.exported().get(name)
    now = variable.origin if variable else None
    assigned = theirs.text[place.name_end : place.end]
    if now is not None:
        own = _own_line(text, now)
        if own and line:
            yield Edit(*own, theirs.text[slice(*line)])
        if now.value_start >= 0 and now.name_end > now.start and place.name_end > place.start:
            yield Edit(now.name_end, now.end, assigned)
        return
    for edit in new_exports(before, name, "0"):
        indentation, _, rest = edit.text.partition(f"export {name}=0")
        if line and place.form in ("export", "declare"):
            yield Edit(edit.start, edit.end, indentation + theirs.text[slice(*line)].strip(" \t\r") + rest)
        elif place.name_end > place.start:
            yield Edit(edit.start, edit.end, f"{indentation}export {name}{assigned}{rest}")

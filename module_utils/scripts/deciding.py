# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What decides a knob at the engine's start: whether there is anything, its line, and the comment behind it."""

from __future__ import annotations

from typing import Optional

from .analysis import Analysis, analyse
from .diffing import knobs_changed
from .state import Place


def has_knob(data: bytes, name: str) -> bool:
    """Whether the engine sees the name because of the script, surely or perhaps."""
    return name in analyse(data.decode("latin-1")).exported()


def same_knob(one: bytes, other: bytes, name: str) -> bool:
    """Whether the engine sees the same of a name by both scripts; what only a run tells is the same when it is
    written in the same way and depends on the same inputs."""
    return name not in knobs_changed(one, other)


def knob_line(data: bytes, name: str) -> str:
    """The source line that decides a knob, for people and not masked; empty when there is none."""
    analysis = analyse(data.decode("latin-1"))
    place = _deciding(analysis, name)
    if place is None:
        return ""
    start, end = line_span(analysis.text, place.start)
    return _shown(analysis.text[start:end])


def comment_behind(data: bytes, name: str) -> tuple[int, str]:
    """The 1-based line of the place that decides a knob, and the comment behind it on that line, not masked;
    ``(0, "")`` when there is none, or nothing in it."""
    analysis = analyse(data.decode("latin-1"))
    place = _deciding(analysis, name)
    if place is not None:
        _, end = line_span(analysis.text, place.end)
        for comment in analysis.comments:
            if not comment.alone and place.end <= comment.start < end:
                told = _shown(analysis.text[comment.start : comment.end])
                return (analysis.line(place.start), told) if told.strip("# \t") else (0, "")
    return 0, ""


def line_span(text: str, offset: int) -> tuple[int, int]:
    """From a line's first character to its line feed."""
    end = text.find("\n", offset)
    return text.rfind("\n", 0, offset) + 1, len(text) if end < 0 else end


def _deciding(analysis: Analysis, name: str) -> Optional[Place]:
    variable = analysis.exported().get(name)
    places = (variable.origin, *variable.maybe) if variable else ()
    return next((each for each in reversed(places) if each is not None), None)


def _shown(source: str) -> str:
    return source.strip().encode("latin-1").decode("utf-8", "replace")

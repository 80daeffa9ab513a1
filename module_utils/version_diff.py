# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What two contents of a script differ in, and what one exports, as people may see it: secrets masked on both sides."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Optional

from . import knobs
from .script_differences import masked_difference, shown_lines
from .script_views import masked_beside, masked_text, masked_value
from .scripts.diffing import changed_lines, knobs_changed, lines_beyond
from .scripts.reading import read_script
from .store.sources import Source

#: What a knob has on one side: a value, None when it is not exported; a value that only a run tells is told so.
UNKNOWN = "(known only at run time)"

Values = dict[str, dict[str, Optional[str]]]


@lru_cache(maxsize=256)  # a knob that goes back and forth gives the same two contents again and again
def _differences(before: bytes, after: bytes) -> tuple[tuple[tuple[str, Optional[str], Optional[str]], ...], int]:
    both = (before, after)
    old, new = read_script(before), read_script(after)
    changed = knobs_changed(before, after)
    rows = []
    for name, (was, becomes) in changed.items():
        left = UNKNOWN if was is None and name in old.active() else masked_value(both, name, was)
        right = UNKNOWN if becomes is None and name in new.active() else masked_value(both, name, becomes)
        rows.append((name, left, right))
    others = lines_beyond(before, after, set(changed))
    return tuple(rows), max(sum(line.kind == kind for line in others) for kind in "+-")


def knob_differences(before: bytes, after: bytes) -> tuple[Values, int]:
    """The knobs whose export differs, masked, and how many lines differ besides.

    A knob with another secret value has ``********`` on both sides: it is here because it differs.
    """
    if before == after:
        return {}, 0
    rows, others = _differences(before, after)
    return {name: {"before": was, "after": becomes} for name, was, becomes in rows}, others


def knob_values(content: bytes) -> dict[str, str]:
    """The knobs that a content exports, masked; :data:`UNKNOWN` for a value that only a run tells."""
    return {
        name: UNKNOWN if export.value is None else str(masked_value([content], name, export.value))
        for name, export in read_script(content).active().items()
    }


def findings(content: bytes) -> list[dict[str, Any]]:
    """What the reader found worth telling of a content, masked."""
    return [
        {"line": item.line, "code": item.code, "said": masked_beside([content], item.sentence)}
        for item in read_script(content).findings
    ]


def difference(path: str, before: Source, after: Source) -> dict[str, Any]:
    """Ansible's ``diff``, the changed ``lines``, the ``unified`` difference and the ``knobs`` that differ."""
    shown = masked_difference(path, before.content, after.content)
    shown.update(before_header=before.told, after_header=after.told)
    values, others = knob_differences(before.content, after.content)
    return {
        "diff": shown,
        "lines": shown_lines(before.content, after.content, changed_lines(before.content, after.content)),
        "unified": _unified(shown),
        "knobs": values,
        "other_lines": others,
    }


def _unified(shown: dict[str, str]) -> list[str]:
    def lines(text: str) -> Iterable[str]:
        return text.split("\n")[: None if not text.endswith("\n") else -1]

    return list(
        difflib.unified_diff(
            list(lines(shown["before"])),
            list(lines(shown["after"])),
            shown["before_header"],
            shown["after_header"],
            lineterm="",
        )
    )


def shown_source(source: Source) -> dict[str, Any]:
    """A whole content for people: the text, the knobs and what was found in it."""
    return {
        **source.as_dict(),
        "content": masked_text(source.content),
        "knobs": knob_values(source.content),
        "findings": findings(source.content),
    }


def knob_text(name: str, values: dict[str, Optional[str]]) -> str:
    """``NAME: 512 -> 768``; what is not exported is ``unset``."""

    def told(value: Optional[str]) -> str:
        return "unset" if value is None else value if value else '""'

    if values["before"] == values["after"] == knobs.MASK:
        return f"{name}: another value (masked)"
    return f"{name}: {told(values['before'])} -> {told(values['after'])}"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two fingerprints compared: whether what was measured under one still holds under the other, and what differs.

A fingerprint is texts by name, as :mod:`.identity` makes them on the machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from . import command_lines

#: What could not be seen says nothing: evidence does not become unverified because somebody had no permission.
NOT_SEEN = "not observable"
_MOST = 90


def same(one: Optional[Mapping[str, str]], other: Optional[Mapping[str, str]]) -> bool:
    """Whether nothing is known to differ. Without a fingerprint nothing is known."""
    if not one or not other:
        return True
    return not _differing(one, other)


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return [
        name
        for name in sorted(one.keys() & other.keys())
        if one[name] != other[name]
        and NOT_SEEN not in (one[name], other[name])
        and not (_of_arguments(name) and command_lines.alike(one[name], other[name]))
    ]


def difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """``engine: sglang 0.5.22 -> sglang 0.5.23; driver: 580.65 -> 580.82``; '' when nothing differs."""
    told = []
    for name in _differing(one, other):
        if _of_arguments(name):
            before, after = _apart(*command_lines.differing(one[name], other[name]))
        else:
            before, after = _apart(one[name], other[name])
        told.append(f"{name}: {before} -> {after}")
    return "; ".join(told)


def _of_arguments(name: str) -> bool:
    return name.split(" ")[-1] == "arguments"


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two texts, of long ones only the part from where they differ."""
    if max(len(one), len(other)) <= _MOST:
        return one, other
    begin = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    # From the word that differs on, unless it is so long that what differs in it would be cut off.
    begin = max(one.rfind(" ", 0, begin) + 1, begin - _MOST // 3)
    return _cut(one[begin:], begin), _cut(other[begin:], begin)


def _cut(text: str, begin: int) -> str:
    text = text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
    return f"…{text}" if begin else text or "(nothing)"


def is_simulation(fingerprint: Optional[Mapping[str, Any]]) -> bool:
    """The lab's engines say it in their version; their figures must never pass for an engine's."""
    return any("-simulation" in str(item) for item in (fingerprint or {}).values())

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A knob that the unit sets too is not unset when the script sets it no more: the process has the unit's value then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import knobs
from .deployment import Instance
from .unit_environment.report import unit_environment


def _gone(edit: Mapping[str, Any]) -> set[str]:
    """Names that an edit takes off the script."""
    if edit.get("refused"):
        return set()
    if "expect" in edit:
        return {name for name, value in edit["expect"].items() if value is None}
    return {edit["knob"]} if edit["after"] is None and edit["line_after"] is None else set()


def leave_to_unit(instance: Instance, edits: list[dict[str, Any]]) -> None:
    """Put into ``expect`` of each edit what the unit sets, or into ``left`` of an edit of one knob, with a warning that says so.

    The unit is asked only when something is taken off a script.
    """
    names = {name for edit in edits for name in _gone(edit)}
    if not names:
        return
    values = unit_environment(instance).values
    for edit in edits:
        left = {name: values[name] for name in _gone(edit) if name in values and not knobs.is_secret(name)}
        if not left:
            continue
        if "expect" in edit:
            edit["expect"] = {**edit["expect"], **left}
        else:
            edit["left"] = left[edit["knob"]]
        told = ", ".join(f"{name}={value}" for name, value in sorted(left.items()))
        edit["warnings"] = [
            *edit["warnings"],
            f"{instance.name}: its unit sets {told} too, so that is what it has then",
        ]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Values of knobs as they leave a machine. A URL with a password in it stands under a name that is no secret's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .secret_masking import mask_value


def shown(values: Mapping[str, Optional[str]]) -> dict[str, Optional[str]]:
    """The same knobs with what is secret in their values masked."""
    return {name: mask_value(name, value) for name, value in values.items()}


def stale_rows(found: Iterable[tuple[str, Optional[str], Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Knob, value in the script and what the process has, which were compared as they are, told without what is secret in them."""
    return [
        {
            "knob": name,
            "script": mask_value(name, value),
            "running": mask_value(name, seen["value"]),
            "evidence": seen["evidence"],
        }
        for name, value, seen in found
    ]


def hide(edit: dict[str, Any]) -> None:
    """Mask, in place, the values of an edit where they only tell. What it is to write stays; a source is restored without them."""
    name = edit["knob"]
    for field in ("before", "after", "left"):
        if edit.get(field) is not None:
            edit[field] = mask_value(name, edit[field])
    if "expect" in edit:
        edit["expect"] = shown(edit["expect"])
    if "other_values" in edit:
        edit["other_values"] = {str(mask_value(name, value)): where for value, where in edit["other_values"].items()}
    request = edit.get("request") or {}
    if request.get("state") == "restored":
        request["knobs"] = {
            knob: value if mask_value(knob, value) == value else None for knob, value in request["knobs"].items()
        }

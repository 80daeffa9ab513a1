# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One edit of one script that sets several knobs: they belong together, so going back is one step, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .deployment import Instance
from .knob_edit import EditRequest, masked_diff, plan_edit
from .pdops_error import PdopsError
from .script_differences import shown_lines
from .scripts.diffing import changed_lines
from .store.store import Store


def edit_of_several(instance: Instance, wanted: Mapping[str, Any], label: str, store: Store) -> dict[str, Any]:
    """Work the edit out as :mod:`.observe` does one of a single knob; a refusal is part of the answer.

    :param wanted: name to value; None unsets. What the engine has then is in ``expect``, what changes in ``knobs``
    """
    path = instance.serve_script
    knobs = {str(name): None if value is None else str(value) for name, value in wanted.items()}
    answer: dict[str, Any] = {
        "instance": instance.name,
        "path": path,
        "knob": "",
        "before": None,
        "after": None,
        "line_after": None,
        "source": None,
        "label": label,
        "request": {
            "path": path,
            "knobs": knobs,
            "state": "present",
            "from_version": None,
            "from_backup": None,
            "expect_only": True,
            "lines_only": False,
        },
        "expect": dict(knobs),
        "refused": None,
    }
    try:
        plan = plan_edit(EditRequest(path=path, knobs=knobs), store)
    except PdopsError as error:
        return {**answer, "refused": str(error), **error.details}
    return {
        **answer,
        "sha256_before": plan.sha256_before,
        "sha256_after": plan.sha256_after,
        "changed": plan.changed,
        "changed_lines": shown_lines(plan.before, plan.after, changed_lines(plan.before, plan.after)),
        "knobs": {name: both for name, both in plan.knobs.items() if both["before"] != both["after"]},
        "diff": masked_diff(plan),
        "warnings": list(plan.warnings),
        "other_lines": list(plan.other_lines),
    }

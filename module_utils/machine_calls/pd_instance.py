# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_instance`` takes and answers; ``library/pd_instance.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..change.stepping import act_alone, take_step
from ..gates.api_key import optional_key
from ..machine_arguments import STATE
from ..services.choosing import manager_for
from ..services.instance import Request, bring
from ..store.store import Store

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        "unit": {"type": "str", "required": True},
        "manager": {"type": "str", "choices": ["systemd", "supervisor"], "default": "systemd"},
        "supervisor_config": {"type": "path"},
        "state": {"type": "str", "choices": ["started", "stopped", "restarted", "status"], "default": "status"},
        "drain_s": {"type": "float", "default": 30},
        "idle_first": {"type": "bool", "default": False},
        "url": {"type": "str"},
        "metrics_url": {"type": "str"},
        "api_key_file": {"type": "path", "no_log": False},
        "change_id": {"type": "str"},
        "instance": {"type": "str"},
        "actor": {"type": "str", "default": ""},
        "budget_s": {"type": "float", "default": 120},
        **STATE,
        "ports": {"type": "list", "elements": "int", "default": []},
    },
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Start, stop, restart or look at one instance, as a step of a change or alone."""
    noted: list[str] = []
    request = Request(
        given["unit"],
        given["state"],
        given["drain_s"],
        given["url"],
        tuple(given["ports"]),
        metrics_url=given["metrics_url"],
        idle_first=given["idle_first"],
        # A key that cannot be read only hides how many requests a stop loses.
        api_key=optional_key(given["api_key_file"]),
    )
    request.check()
    manager = manager_for(given["manager"], given["supervisor_config"])
    if given["change_id"] and given["state"] != "status" and not check_mode:
        verb = {"started": "start", "stopped": "stop", "restarted": "restart"}[given["state"]]
        name = given["instance"] or given["unit"]
        _record, noted = take_step(Store(given["state_dir"]), given["change_id"], verb, name, "", given["budget_s"])
    if given["change_id"] or check_mode:
        result = bring(manager, request, check_mode)
    else:
        line = {
            "verb": "pd_instance",
            "state": given["state"],
            "instance": given["instance"] or given["unit"],
            "actor": given["actor"],
        }
        result, noted = act_alone(Store(given["state_dir"]), line, lambda only_look: bring(manager, request, only_look))
    return {**result, "warnings": [*noted, *result.get("warnings", [])]}

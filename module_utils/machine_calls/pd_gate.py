# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_gate`` takes and answers; ``library/pd_gate.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..gates.base import GATES, SIZES
from ..gates.ladder import check_gates, run_ladder, state_from_dict
from ..gates.request import expectations_from, target_from

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "role": {"type": "str", "choices": ["prefill", "decode", "router"], "required": True},
        "unit": {"type": "str", "required": True},
        "manager": {"type": "str", "choices": ["systemd", "supervisor"], "default": "systemd"},
        "supervisor_config": {"type": "path"},
        "url": {"type": "str", "required": True},
        "bootstrap_port": {"type": "int"},
        "metrics_url": {"type": "str"},
        "serve_script": {"type": "path"},
        "gates": {"type": "list", "elements": "str", "choices": list(GATES), "default": ["unit", "port", "health"]},
        "required": {"type": "list", "elements": "str", "choices": list(GATES)},
        "expectations": {"type": "dict"},
        "not_process": {"type": "dict"},
        "started_after": {"type": "float"},
        "workers": {"type": "list", "elements": "str", "default": []},
        "watched": {"type": "list", "elements": "dict", "default": []},
        "peers": {"type": "list", "elements": "dict", "default": []},
        "may_differ": {"type": "list", "elements": "str", "choices": list(SIZES), "default": []},
        "longest_prompt_tokens": {"type": "int", "default": 20480, "no_log": False},
        "kernels_serve": {"type": "bool", "default": False},
        "model": {"type": "str"},
        "api_key": {"type": "str", "no_log": True},
        "api_key_file": {"type": "path", "no_log": False},
        "request_timeout_s": {"type": "float", "default": 60},
        "timeout_s": {"type": "float", "default": 900},
        "slice_s": {"type": "float", "default": 2},
        "log_lines": {"type": "int", "default": 20},
        "resume": {"type": "dict"},
    },
    "mutually_exclusive": [("api_key", "api_key_file")],
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Climb the ladder for one slice; ``resume`` is for the next."""
    target = target_from(given)
    expectations = expectations_from(given["expectations"])
    check_gates(target, given["gates"], given["required"] or ())
    gates = given["gates"]
    if "kernels" in gates:
        # Most calls ask nothing of kernels, and imports are most of what a call costs.
        from ..gates import kernels

        gates = kernels.applicable(target, gates)
    state = state_from_dict(given["resume"])
    if check_mode:
        waits = f"{target.name}: would wait at most {given['timeout_s']:g} s for {', '.join(gates)}"
        return {"changed": False, "skipped": True, "msg": waits}
    state = run_ladder(
        target,
        gates,
        expectations,
        given["slice_s"],
        state,
        remaining_s=given["timeout_s"],
        required=given["required"],
        log_lines=given["log_lines"],
    )
    return {
        "changed": False,
        "log_tail": list(state.log_tail),
        "resume": state.as_dict(),
        **state.summary(),
    }

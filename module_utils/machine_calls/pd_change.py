# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_change`` takes and answers; ``library/pd_change.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..change import verbs
from ..machine_arguments import MACHINE

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        "verb": {
            "type": "str",
            "choices": ["begin", "renew", "apply", "confirm", "rollback", "status", "report"],
            "required": True,
        },
        "change_id": {"type": "str", "required": True},
        **MACHINE,
        "deployment": {"type": "str"},
        "intent": {"type": "str"},
        "summary": {"type": "str"},
        "edits": {"type": "list", "elements": "dict", "default": []},
        "leader": {"type": "dict", "default": {}},
        "elsewhere": {"type": "list", "elements": "dict", "default": []},
        "scope": {"type": "str", "choices": ["none", "co", "decode", "router", "rolling"], "default": "co"},
        "restart": {"type": "list", "elements": "str", "default": []},
        "why": {"type": "dict", "default": {}},
        "finishes": {"type": "dict", "default": {}},
        "touches": {"type": "list", "elements": "str", "default": []},
        "evidence": {"type": "bool", "default": False},
        "alone": {"type": "bool", "default": False},
        "take_over": {"type": "str"},
        "step": {"type": "str", "default": "renew"},
        "budget_s": {"type": "float", "default": 60.0},
        "slack_s": {"type": "float", "default": 15.0},
        "said": {"type": "str", "default": ""},
        "events": {"type": "list", "elements": "dict", "default": []},
        "all_instances": {"type": "list", "elements": "dict", "default": []},
        "outage_s": {"type": "float"},
        "ids": {"type": "list", "elements": "str", "default": []},
        "timeout": {"type": "float", "default": 1800.0},
    },
    "required_if": [("verb", "begin", ("deployment", "intent", "summary"))],
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Carry out one verb of the change; see :func:`..change.verbs.run`."""
    result = verbs.run(given, check_mode=check_mode)
    if given["verb"] == "confirm" and given["evidence"] and not check_mode:
        # Here and not above: V(begin) packs for the guard all that is imported, and a guard never testifies.
        from ..record.machine import testimony_or_trouble

        result["evidence"] = testimony_or_trouble(given["instances"], given["state_dir"])
    return result

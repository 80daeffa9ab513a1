# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_worker`` takes and answers; ``library/pd_worker.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..change.stepping import act_alone, take_step
from ..gates.api_key import read_key
from ..machine_arguments import STATE
from ..router_workers import WorkerRequest, bring_worker
from ..store.store import Store

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        "router_url": {"type": "str", "required": True},
        "url": {"type": "str", "required": True},
        "role": {"type": "str", "choices": ["prefill", "decode"], "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "least": {"type": "int", "default": 0},
        "bootstrap_port": {"type": "int"},
        "wait_s": {"type": "float", "default": 60},
        "api_key_file": {"type": "path", "no_log": False},
        "change_id": {"type": "str"},
        "instance": {"type": "str"},
        "actor": {"type": "str", "default": ""},
        **STATE,
    },
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Register a worker at a router, or take it out, as a step of a change or alone."""
    noted: list[str] = []
    wanted = WorkerRequest(
        given["router_url"],
        given["url"],
        given["role"],
        given["state"],
        given["bootstrap_port"],
        given["wait_s"],
        read_key(given["api_key_file"]) if given["api_key_file"] else None,
        given["least"],
    )
    wanted.check()
    if given["change_id"] and not check_mode:
        verb = "take out" if given["state"] == "absent" else "register"
        # Noted as a step of the router, so that a rollback restarts it, which registers its workers anew; of a rolling restart
        # the guard registers the worker itself.
        store, name = Store(given["state_dir"]), given["instance"] or ""
        _record, noted = take_step(store, given["change_id"], verb, name, given["url"], given["wait_s"])
    if given["change_id"] or check_mode:
        result = bring_worker(wanted, check_mode)
    else:
        line = {
            "verb": "pd_worker",
            "state": given["state"],
            "instance": given["instance"],
            "router_url": given["router_url"],
            "url": given["url"],
            "actor": given["actor"],
        }
        result, noted = act_alone(Store(given["state_dir"]), line, lambda only_look: bring_worker(wanted, only_look))
    return {**result, "warnings": noted}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Checks what was asked for, and prints the state that the module found; a list in the result would bury it."""

from __future__ import annotations

import re
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed, result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.asked import limit_of, read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import instance_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.knobs import check_name
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.taken import check_taken

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = {name: value for name, value in self._task.args.items() if value not in (None, "", [])}
        typed = context.CLIARGS.get("args", ())
        try:
            extra = load_extra_vars(self._loader)
            _check(args, extra, limit_of(extra, task_vars))
        except PdopsError as error:
            return {**result, "failed": True, "msg": as_typed(str(error), typed)}
        result.update(result_as_typed(self._execute_module(module_args=args, task_vars=task_vars), typed))
        for line in result.get("lines", []):
            display.display(as_typed(plain(f"  [{self._label(task_vars or {})}] {line}"), typed), color="cyan")
        return result

    def _label(self, task_vars: dict[str, Any]) -> str:
        return str(task_vars.get("change_deployment") or task_vars.get("inventory_hostname", ""))


def _check(args: dict[str, Any], extra: dict[str, Any], limit: str = "") -> None:
    """What an operator may have typed wrong, before a machine is asked."""
    check_taken("status", extra)
    given = args.get("all_instances") or args.get("instances") or []
    read_asked(
        "verify",
        {"instance": args.get("instance"), "role": args.get("role")},
        [instance_from_dict(item) for item in given],
        limit,
    )
    knob = args.get("knob")
    if knob:
        typed = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)=.*", str(knob))
        if typed:
            raise PdopsError(f"status sets nothing; type -e knob={typed[1]} to see it.")
        check_name(str(knob))

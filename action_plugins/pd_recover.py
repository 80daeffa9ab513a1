# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Checks what was asked for, and prints what the module found; a list in the result would bury it."""

from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed, result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.change.survey import FINISHES
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
            _check(args, load_extra_vars(self._loader))
        except PdopsError as error:
            return {**result, "failed": True, "msg": as_typed(str(error), typed)}
        result.update(result_as_typed(self._execute_module(module_args=args, task_vars=task_vars), typed))
        label = (task_vars or {}).get("change_deployment") or (task_vars or {}).get("inventory_hostname", "")
        for line in result.get("lines", []):
            display.display(as_typed(plain(f"  [{label}] {line}"), typed), color="cyan")
        return result


def _check(args: dict[str, Any], extra: dict[str, Any]) -> None:
    """What an operator may have typed wrong, before a machine is asked."""
    check_taken("recover", extra)
    finish = str(args.get("finish", ""))
    if finish and finish not in FINISHES:
        raise PdopsError(
            f"finish={finish} is unknown; it must be back (the old state comes back) or forward (the new one is proved and kept)."
        )
    if args.get("take_over") and not finish:
        raise PdopsError("take_over= only looks without finish=; add -e finish=back or -e finish=forward.")

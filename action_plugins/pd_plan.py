# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Runs M(pdops.sglang.pd_plan) and prints the plan at once; display.debug of a list would bury it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        result.update(self._execute_module(task_vars=task_vars))
        deployment = self._task.args.get("deployment", "")
        for line in result.get("lines", []):
            display.display(f"  [{deployment}] {line}", color="cyan")
        # The lines were just printed; in the result they would only be printed again by -v.
        result.pop("invocation", None)
        return result

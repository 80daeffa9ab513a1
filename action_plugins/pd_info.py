# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Runs the module of the same name, whose refusals name playbooks, and names them as this run's operator types them."""

from __future__ import annotations

from typing import Any

from ansible import context
from ansible_collections.pdops.sglang.plugins.action.pd_machine import OneModule
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed


class ActionModule(OneModule):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        result.update(self._execute_module(module_args=self.arguments(), task_vars=task_vars))
        return result_as_typed(result, context.CLIARGS.get("args", ()))

    def arguments(self) -> dict[str, Any]:
        """What the module is given."""
        return dict(self._task.args)

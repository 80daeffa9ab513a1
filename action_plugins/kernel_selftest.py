# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Prints what the self-test of a kernel package found; a list in the result would bury it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = {name: value for name, value in self._task.args.items() if value is not None}
        args.setdefault("actor", operator())
        instance = args.get("instance")
        name = str(instance.get("name", "")) if isinstance(instance, Mapping) else ""
        answer = self._execute_module(module_name="pdops.sglang.kernel_selftest", module_args=args, task_vars=task_vars)
        answer.pop("invocation", None)
        for line in answer.get("lines", []):
            display.display(plain(f"  {name}  {line}"), color="red" if " failed in " in line else "cyan")
        return result_as_typed({**result, **answer, "name": name}, context.CLIARGS.get("args", ()))

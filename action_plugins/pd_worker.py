# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Says who registers a worker or takes it out, and names playbooks as this run's operator types them."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.pdops.sglang.plugins.action import pd_info
from ansible_collections.pdops.sglang.plugins.action.pd_machine import cut_off
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator


class ActionModule(pd_info.ActionModule):
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """A machine that is not reached is a failure."""
        try:
            return super().run(tmp, task_vars)
        except AnsibleConnectionFailure as error:
            return cut_off(str(self._task.delegate_to or ""), error, task_vars)

    def arguments(self) -> dict[str, Any]:
        return {"actor": operator(), **super().arguments()}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Base of the actions whose modules run on a machine as one, ``pd_machine``, with code that the machine keeps.

Ansible packs a module with all that it imports when a run first calls it, parsing each file (half a second of the controller), and
sends all of that with every call. So what is packed is one small module for all of these, and the code is sent where it is missing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from typing import Any

import ansible.constants as C
from ansible.plugins.action import ActionBase
from ansible_collections.pdops.sglang.plugins.module_utils import sent_code

PACKED_AS = "pdops.sglang.pd_machine"
#: Those with a file in ``module_utils/machine_calls``.
TOGETHER = frozenset({"pd_change", "pd_evidence", "pd_gate", "pd_info", "pd_instance", "pd_journal", "pd_worker"})

# When Ansible first loads it, before it forks for each task.
_ARCHIVE = sent_code.archive_of(os.path.dirname(sent_code.__file__))
_NAME = sent_code.name_of(_ARCHIVE)


@functools.cache
def _to_send() -> str:
    return sent_code.to_send(_ARCHIVE)


def cut_off(who: str, error: object, task_vars: dict[str, Any] | None) -> dict[str, Any]:
    """Failed, since Ansible runs no rescue for unreachable, and in one sentence.

    :param who: the instance or the machine
    """
    named = who or str((task_vars or {}).get("inventory_hostname", ""))
    return {"failed": True, "cut_off": True, "msg": f"{named} became unreachable: {' '.join(str(error).split())}"}


class OneModule(ActionBase):
    _send_code = False

    def _execute_module(self, *given: Any, **named: Any) -> dict[str, Any]:
        task_vars = named.get("task_vars")
        was_sent = os.path.exists(self._mark(task_vars, "sent"))
        result = super()._execute_module(*given, **named)
        if not result.get("code_missing"):
            return result
        if was_sent or not result.get("code_kept"):
            self._set(task_vars, "none")
        self._send_code = True
        try:
            result = super()._execute_module(*given, **named)
        finally:
            self._send_code = False
        self._set(task_vars, "sent")
        return result

    def _configure_module(self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> Any:
        # The arguments have the name of the module that was called by now, and keep it. Were this method of Ansible another one day,
        # each module would be packed by itself again, and do the same.
        if module_name.rpartition(".")[2] not in TOGETHER:
            return super()._configure_module(module_name=module_name, module_args=module_args, task_vars=task_vars)
        code = {"name": _NAME}
        if self._send_code or os.path.exists(self._mark(task_vars, "none")):
            code["sent"] = _to_send()
        named = {**module_args, "_pdops_code": code}
        return super()._configure_module(module_name=PACKED_AS, module_args=named, task_vars=task_vars)

    def _mark(self, task_vars: dict[str, Any] | None, what: str) -> str:
        """For the rest of this run: this machine was ``sent`` the code, or keeps ``none`` (a full disk), so it is not asked first."""
        host = str(self._task.delegate_to or (task_vars or {}).get("inventory_hostname", ""))
        return os.path.join(C.DEFAULT_LOCAL_TMP, f"pdops-{what}-{hashlib.sha256(host.encode()).hexdigest()}")

    def _set(self, task_vars: dict[str, Any] | None, what: str) -> None:
        with contextlib.suppress(OSError), open(self._mark(task_vars, what), "wb"):  # without it only more is asked
            pass


class ActionModule(OneModule):
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """A task called it, which the module refuses."""
        result = super().run(tmp, task_vars)
        result.update(self._execute_module(task_vars=task_vars))
        return result

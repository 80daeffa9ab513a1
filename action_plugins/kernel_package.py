# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Carries a wheel of kernels to a machine, once it was read and checked on the controller; and prints what differs."""

from __future__ import annotations

import os
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.kernel_package.wheel import read_wheel
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.serving.inventory_folders import (
    inventory_folders,
    refuse_inside,
)

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = {name: value for name, value in self._task.args.items() if value is not None}
        machine = str(args.get("machine") or "machine")
        args.setdefault("actor", operator())
        try:
            if args.get("state", "present") == "present" and args.get("wheel"):
                sources = (task_vars or {}).get("ansible_inventory_sources") or ()
                args.update(self._carried(str(args["wheel"]), args.get("sha256"), inventory_folders(sources)))
            answer = self._execute_module(
                module_name="pdops.sglang.kernel_package", module_args=args, task_vars=task_vars
            )
        except PdopsError as error:
            return {**result, "failed": True, "msg": f"{error} Nothing was changed.", **error.details}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        answer.pop("invocation", None)
        for line in answer.get("lines", []):
            display.display(plain(f"  [{machine}] {line}"), color="cyan")
        return result_as_typed({**result, **answer, "machine": machine}, context.CLIARGS.get("args", ()))

    def _carried(self, path: str, sha256: str | None, inventories: tuple[str, ...]) -> dict[str, str]:
        """Options for the module: the copy on the machine, what it is called, and the hash that was seen here."""
        path = os.path.abspath(os.path.expanduser(path))
        refuse_inside("the wheel", path, inventories)
        wheel = read_wheel(path, sha256)
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        target = self._connection._shell.join_path(self._connection._shell.tmpdir, "kernels.whl")
        there = self._transfer_file(path, target)
        self._fixup_perms2((self._connection._shell.tmpdir, there))
        return {"wheel": str(there), "wheel_name": os.path.basename(path), "sha256": wheel.sha256}

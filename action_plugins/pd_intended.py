# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes down on the controller what a confirmed change left as the knobs of managed scripts."""

from __future__ import annotations

import time
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.action.serve_script import plain_value
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import instance_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.serving.confirmed import Confirmed, catch_up, write_down

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = False
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "folder": {"type": "path", "required": True},
                "deployment": {"type": "str", "required": True},
                "instances": {"type": "list", "elements": "dict", "required": True},
                "plan": {"type": "dict"},
                "infos": {"type": "list", "elements": "dict", "required": True},
                "pair_knobs": {"type": "list", "elements": "str", "default": []},
                "actor": {"type": "str", "default": ""},
            }
        )
        given = plain_value(given)
        plan = given["plan"] or {}
        try:
            written = (write_down if plan else catch_up)(
                given["folder"],
                Confirmed(
                    deployment=given["deployment"],
                    instances=tuple(instance_from_dict(item) for item in given["instances"]),
                    edits=tuple(plan.get("edits") or ()),
                    infos=tuple(given["infos"]),
                    pair_names=tuple(given["pair_knobs"]),
                    change_id=str(plan.get("change_id") or ""),
                    actor=given["actor"],
                    taken_over=plan.get("take_over"),
                    at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                ),
            )
        except PdopsError as error:
            # The change is confirmed: what could not be written down must not make a failure of it.
            said = f"the change holds, but its values are not written down for the next deploy: {error}"
            said = as_typed(said, context.CLIARGS.get("args", ()))
            display.warning(plain(said))
            return {**result, "changed": False, "written": [], "warning": said}
        if written:
            told = f"written down as intended: {', '.join(written)} (in {given['folder']})"
            if not plan:
                told += ", which an earlier run confirmed and did not write down"
            elif plan["verb"] != "deploy":
                told += "; write it into the inventory's variables, too, or the next deploy takes it back"
            display.display(plain(f"  [{given['deployment']}] {told}"), color="cyan")
        return {**result, "changed": bool(written), "written": written, "warning": ""}

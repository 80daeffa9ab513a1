# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Checks which histories are wanted, and prints them at once; a list in the result would bury them."""

from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.asked import limit_of, read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance, instance_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.history_text import history_lines
from ansible_collections.pdops.sglang.plugins.module_utils.knobs import check_name
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.taken import check_taken

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "deployment": {"type": "str", "required": True},
                "instances": {"type": "list", "elements": "dict", "required": True},
                "instance": {"type": "raw"},
                "role": {"type": "str"},
                "knob": {"type": "str"},
                "results": {"type": "list", "elements": "dict"},
            }
        )
        knob, typed = given["knob"] or None, context.CLIARGS.get("args", ())
        try:
            extra = load_extra_vars(self._loader)
            wanted = _wanted(given, extra, knob, limit_of(extra, task_vars))
        except PdopsError as error:
            return {**result, "failed": True, "msg": as_typed(str(error), typed)}
        result.update(changed=False, wanted=[item.as_dict() for item in wanted])
        if given["results"] is None:
            return result
        lines: list[str] = []
        choice = False
        trouble: dict[str, list[str]] = {}  # names by sentence
        silent: dict[str, tuple[str, list[str]]] = {}  # by machine: why, and names
        for item, listing in zip(wanted, given["results"]):
            if "versions" in listing:
                lines += history_lines(item.name, item.role, listing, knob)
                choice = choice or bool(listing["versions"] or listing["backups"])
            elif listing.get("unreachable"):
                silent.setdefault(item.machine, (str(listing.get("msg") or "no answer"), []))[1].append(item.name)
            else:
                trouble.setdefault(str(listing.get("msg") or "its machine did not answer"), []).append(item.name)
        if choice:
            lines.append("take one with -e from=, by sha256, label or file name, as in")
            lines.append("  ansible-playbook restore_knob.yml -e knob=NAME -e from=SHA256")
        for line in lines:
            display.display(as_typed(plain(f"  [{given['deployment']}] {line}"), typed), color="cyan")
        told = [
            f"{machine} is unreachable ({said.rstrip('.')}), so the versions of {', '.join(names)} are not known"
            for machine, (said, names) in silent.items()
        ]
        told += [f"{', '.join(names)}: {said.rstrip('.')}" for said, names in trouble.items()]
        if told:
            shown = "what is shown above holds for the others" if lines else "nothing is shown"
            result.update(failed=True, msg=as_typed(f"{'; '.join(told)}; {shown}.", typed))
        return {**result, "lines": lines}


def _wanted(given: dict[str, Any], extra: dict[str, Any], knob: str | None, limit: str) -> list[Instance]:
    """The instances that were asked for; what an operator may have typed wrong is refused before a machine is asked."""
    check_taken("history", extra)
    if knob is not None:
        if "=" in knob:
            raise PdopsError(f"knob= takes a name alone; type -e knob={knob.partition('=')[0]}.")
        check_name(knob)
    instances = [instance_from_dict(item) for item in given["instances"]]
    asked = read_asked("verify", {"instance": given["instance"], "role": given["role"]}, instances, limit)
    return [item for item in instances if asked.wants(item)]

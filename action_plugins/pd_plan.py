# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Decides on the controller what a verb does, and prints the plan at once; a list in the result would bury it."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import time
from typing import Any

from ansible import constants, context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.asked import (
    VERBS,
    check_templates,
    check_typed,
    limit_of,
    read_asked,
)
from ansible_collections.pdops.sglang.plugins.module_utils.change.record import new_change_id
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import instance_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.expected import cost_lines
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.plan import Plan
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import decide
from ansible_collections.pdops.sglang.plugins.module_utils.record import folder, planned, reasons
from ansible_collections.pdops.sglang.plugins.module_utils.record.documents import markdown_files
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import fold
from ansible_collections.pdops.sglang.plugins.module_utils.record.place import evidence_folder
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import debt_lines
from ansible_collections.pdops.sglang.plugins.module_utils.secret_masking import mask_text
from ansible_collections.pdops.sglang.plugins.module_utils.serving.names import unknown_names
from ansible_collections.pdops.sglang.plugins.module_utils.taken import check_slips, check_taken

display = Display()

#: Verbs that plan nothing, and of which only what was asked for is checked here.
_ONLY_CHECKED = ("probe", "register_worker")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        began, typed = time.time(), context.CLIARGS.get("args", ())
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "deployment": {"type": "str", "required": True},
                "instances": {"type": "list", "elements": "dict", "required": True},
                "verb": {"type": "str", "choices": [*VERBS, *_ONLY_CHECKED], "required": True},
                # Whose words are on the command line, where a verb is led by another one.
                "typed": {"type": "str", "choices": [*VERBS, *_ONLY_CHECKED]},
                "asked": {"type": "dict", "default": {}},
                "infos": {"type": "list", "elements": "dict"},
                "made": {"type": "list", "elements": "dict", "default": []},
                "take_over": {"type": "str"},
                "step_budget_s": {"type": "float", "default": 60.0},
                "slack_s": {"type": "float", "default": 15.0},
                "evidence_dir": {"type": "path"},
            }
        )
        try:
            extra = load_extra_vars(self._loader)
            words_of = given["typed"] or given["verb"]
            if given["verb"] in _ONLY_CHECKED:
                check_taken(words_of, extra)
                return {**result, "changed": False}
            check_slips(words_of, extra)
            check_templates(extra, {**given["asked"], "take_over": given["take_over"]})
            if given["verb"] == "set":
                check_typed(text for text in context.CLIARGS.get("extra_vars", ()) if isinstance(text, str))
            instances = [instance_from_dict(item) for item in given["instances"]]
            asked = read_asked(given["verb"], given["asked"], instances, limit_of(extra, task_vars))
            reason = reasons.check(given["verb"], given["asked"], _today())
            check_taken(words_of, extra)
            _check_docs(extra.get("docs"))
            if given["infos"] is None:
                return {**result, "changed": False}
            infos = [{**info, "obstacles": _obstacles(info, given["made"])} for info in given["infos"]]
            plan = decide(given["deployment"], instances, infos, asked, given["take_over"] or None)
        except PdopsError as error:
            error.details.pop("mistakes", None)  # the message has each already, and Ansible prints both
            return {**result, "failed": True, "msg": as_typed(str(error), typed), **error.details}
        costs = cost_lines(plan, instances, given["infos"], given["step_budget_s"], given["slack_s"])
        lines = plan_lines(plan, instances, costs)
        recorded, debts = self._record(given, plan, reason)
        lines += recorded
        hostvars = (task_vars or {}).get("hostvars", {})
        for item in instances:
            if item.name in hostvars:
                lines += [f"warning: {said}" for said in unknown_names(item.name, hostvars[item.name])]
        lines = [as_typed(mask_text(plain(line)), typed) for line in lines]
        for line in lines:
            display.display(f"  [{given['deployment']}] {line}", color="cyan")
        result.update(
            # In a run the steps that follow report their changes; in check mode there are none.
            changed=plan.changed and self._task.check_mode,
            plan={**plan.as_dict(), "change_id": new_change_id(given["verb"], _known(infos))},
            lines=lines,
            debt=debts,
            reason=dataclasses.asdict(reason) if reason else {},
            began=began,
            would_change=plan.changed,
        )
        if self._task.diff:
            result["diff"] = [edit["diff"] for edit in plan.edits]
        return result

    def _record(self, given: dict[str, Any], plan: Plan, reason: reasons.Reason | None) -> tuple[list[str], list[str]]:
        """What the record adds, and its open debts. A record that cannot be read hinders no change: a mitigation must not wait."""
        try:
            place = evidence_folder(given["evidence_dir"], constants.CONFIG_FILE, os.getcwd())
            reading = folder.read(place, given["deployment"])
            if not reading.entries and not reading.problems and plan.verb != "revert":
                return [], []
            folded = fold(reading.entries)
            infos = json.loads(json.dumps(given["infos"], default=str))
            today = _today().isoformat()
            lines = planned.lines_of(folded, reading.problems, plan.verb, plan.edits, infos, reason, today)
            return lines, debt_lines(folded, today)
        except PdopsError as error:
            return [f"record: {error}"], []
        except Exception as error:  # whatever somebody wrote into a record, the change goes on without it
            told = f"{type(error).__name__}: {error}"[:200]
            return [
                f"record: it cannot be read ({told}), so nothing of it is shown; see ansible-playbook record.yml -e show=check"
            ], []


def _known(infos: list[dict[str, Any]]) -> list[str]:
    """Ids of changes that the machines told of."""
    seen = [one for info in infos for one in (info.get("open_change"), *info.get("ended", [])) if one]
    return [str(one["id"]) for one in seen]


def _obstacles(info: dict[str, Any], made: list[dict[str, Any]]) -> list[str]:
    """What the machine of ``info`` has against a deploy, each with its name; the plan tells it with the rest."""
    said = list(info.get("obstacles", []))
    for one in made:
        if one.get("serve_machine") == info.get("change_machine") and one.get("msg") and "tasks" not in one:
            said += one.get("mistakes") or [one["msg"]]
    return [f"{info.get('change_machine')}: {each}" for each in said]


def _check_docs(docs: Any) -> None:
    """Documents that are to follow the change: that there are none is to be known before it, not after."""
    if docs:
        markdown_files(
            os.path.expanduser(path.strip()) for path in (docs.split(",") if isinstance(docs, str) else docs)
        )


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()

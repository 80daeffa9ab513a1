# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Reads all instances of the inventory, and refuses a deployment that could not be deployed. Controller only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.pdops.sglang.plugins.action.serve_script import described
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import VARIABLES as LAUNCH
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import launch_of
from ansible_collections.pdops.sglang.plugins.module_utils.mistakes import Mistakes
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving.clashes import listens_of, refuse_clashes
from ansible_collections.pdops.sglang.plugins.module_utils.serving.inventory_folders import (
    inventory_folders,
    refuse_inside,
)
from ansible_collections.pdops.sglang.plugins.module_utils.serving.names import lacks_python, unknown_names
from ansible_collections.pdops.sglang.plugins.module_utils.serving.settings import (
    VARIABLES,
    Serving,
    controller_path,
    serving_of,
)
from ansible_collections.pdops.sglang.plugins.module_utils.serving.unit_file import service_of
from ansible_collections.pdops.sglang.plugins.module_utils.serving.wheel_set import WheelSet, read_wheels


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = False
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        _validation, given = self.validate_argument_spec(
            argument_spec={"deployment": {"type": "str", "required": True}}
        )
        reader = _Reader(variables)
        groups = variables.get("groups", {})
        wrong = Mistakes()
        ours: list[Serving] = []
        others, notes = [], []
        try:
            for name in groups.get(f"{given['deployment']}_instances", []):
                ours += wrong.take(lambda name=name: [reader.read(name)], [])
            for deployment in groups.get("pd_deployments", []):
                for name in groups.get(f"{deployment}_instances", []) if deployment != given["deployment"] else []:
                    try:
                        others.append(reader.read(name, wheels=False))
                    except PdopsError as error:
                        notes.append(f"{name} of {deployment} could not be compared: {error}")
            machines = {item.instance.machine for item in ours}
            near = [*ours, *(item for item in others if item.instance.machine in machines)]
            wrong.take(lambda: refuse_clashes(near), None)
            wrong.join(groups.get(f"{given['deployment']}_instances", []))
            wrong.refuse()
        except PdopsError as error:
            error.details.pop("mistakes", None)  # the message has each already, and Ansible prints both
            return {**result, "failed": True, "msg": str(error), **error.details}
        for note in notes:
            self._display.warning(note)
        return {
            **result,
            "changed": False,
            "instances": {item.instance.name: {**item.as_dict(), "service": service_of(item)} for item in ours},
            "notes": notes,
        }


class _Reader:
    """Instances by name; each folder of wheels is read once."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.sets: dict[tuple[str, str], WheelSet] = {}
        self.inventories = inventory_folders(variables.get("ansible_inventory_sources") or ())

    def read(self, name: str, wheels: bool = True) -> Serving:
        wrong = Mistakes()
        wrong.add(*unknown_names(name, self.variables["hostvars"][name]))
        found = wrong.take(lambda: described(name, self.variables, (*LAUNCH, *VARIABLES)), None)
        if found is None:
            wrong.refuse()
        instance, peers, mine = found
        wrong.add(*lacks_python(name, mine))
        folder = str(self.variables["hostvars"][name].get("inventory_dir") or os.getcwd())
        of = wrong.take(lambda: self._wheels(name, mine, folder), None) if wheels and mine.get("pd_wheels") else None
        serving = wrong.take(lambda: serving_of(instance, mine, of, folder), None)
        # With what is wrong in the settings left out, the command can be looked at all the same.
        venv, cache = (serving.venv, serving.cache) if serving else (None, None)
        for key in serving.keys if serving else ():
            what = f"{name}: src of pd_key_files"
            wrong.take(lambda what=what, key=key: refuse_inside(what, key.source, self.inventories), None)
        launch = wrong.take(lambda: launch_of(instance, peers, {**mine, "pd_venv": venv}, cache), None)
        wrong.refuse()
        gpus = launch.exports.get("CUDA_VISIBLE_DEVICES")
        host = next(words[1] for words in launch.arguments if words[0] == "--host")
        return replace(serving, gpus=tuple(gpus.split(",") if gpus else ()), listens=listens_of(instance, host))

    def _wheels(self, name: str, mine: Mapping[str, Any], folder: str) -> WheelSet:
        if not isinstance(mine["pd_wheels"], str):
            raise PdopsError(f"{name}: pd_wheels is {mine['pd_wheels']!r}; give one folder on the controller.")
        path, install = controller_path(folder, mine["pd_wheels"]), mine.get("pd_wheels_install")
        refuse_inside(f"{name}: pd_wheels", path, self.inventories)
        key = (path, repr(install))
        if key not in self.sets:
            self.sets[key] = read_wheels(path, install, name)
        return self.sets[key]

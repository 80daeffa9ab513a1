# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Renders a serve script on the controller and sends it as a file; the module of the same name puts it in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

import ansible_collections.pdops.sglang as collection
from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template
from ansible_collections.pdops.sglang.plugins.filter.instances import instances
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance, instance_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.left_by_dead import clear_folders, folder_of_mine
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import VARIABLES, Launch, launch_of
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

#: What the module is not told: it is used up here.
_OURS = ("instance", "template")


def rendered_folder() -> str:
    """Where templates are rendered, in Ansible's own folder of this run. Those of runs that were killed are taken away, since scripts
    are not for others to find."""
    runs = os.path.dirname(C.DEFAULT_LOCAL_TMP)
    for run in os.listdir(runs):
        clear_folders(os.path.join(runs, run), "rendered")
    return folder_of_mine(C.DEFAULT_LOCAL_TMP, "rendered")


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        given = dict(self._task.args)
        local = rendered_folder()
        try:
            for name in ("src", "secret_files"):
                if name in given:
                    raise PdopsError(f"{name} is set by serve_script itself; give template and variables instead.")
            instance, launch = _launch(given, variables)
            template = given.get("template") or f"serve_{instance.role}.sh.j2"
            rendered = self._rendered(template, {"pd_launch": launch.as_dict()}, variables)
            path = os.path.join(local, "serve_script.sh")
            with open(path, "wb") as file:
                file.write(os.fsencode(rendered))
            src = self._transfer_file(path, self._connection._shell.join_path(self._connection._shell.tmpdir, "src.sh"))
            self._fixup_perms2((self._connection._shell.tmpdir, src))
            given = {name: value for name, value in given.items() if name not in _OURS}
            given.update(src=src, secret_files=list(launch.secret_files))
            given.setdefault("path", instance.serve_script)
            if given.get("knobs") is None:
                given["knobs"] = launch.knobs
            return {
                **result,
                # The full name: the action's own is asked for with it, too.
                **self._execute_module(module_name="pdops.sglang.serve_script", module_args=given, task_vars=variables),
            }
        except PdopsError as error:
            return {**result, "failed": True, "msg": str(error), **error.details}
        finally:
            # In a finally: an error here would hide what happened. The folder is private and in Ansible's own tmp.
            shutil.rmtree(local, ignore_errors=True)
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _rendered(self, name: str, ours_to_it: Mapping[str, Any], variables: dict[str, Any]) -> str:
        """The template with ``pd_launch`` or ``pd_service`` in the variables; found as those of ansible.builtin.template, then in the collection."""
        ours = os.path.join(os.path.realpath(next(iter(collection.__path__))), "templates")
        try:
            source = self._find_needle("templates", name)
        except AnsibleError:
            source = os.path.join(ours, name)
            if os.path.dirname(name) or not os.path.isfile(source):
                raise PdopsError(
                    f"there is no template {name} beside the playbook or role, nor in {ours}; correct the name."
                ) from None
        folders = [os.path.dirname(source), ours]
        templar = self._templar.copy_with_new_env(searchpath=folders, available_variables={**variables, **ours_to_it})
        text = templar.template(
            trust_as_template(self._loader.get_text_file_contents(source)),
            escape_backslashes=False,
            overrides={"trim_blocks": True, "lstrip_blocks": False, "newline_sequence": "\n"},
        )
        return str(text or "")


def _launch(given: Mapping[str, Any], variables: Mapping[str, Any]) -> tuple[Instance, Launch]:
    name = str(given.get("instance") or variables["inventory_hostname"])
    instance, peers, mine = described(name, variables, VARIABLES)
    return instance, launch_of(instance, peers, mine)


def described(
    name: str, variables: Mapping[str, Any], names: tuple[str, ...]
) -> tuple[Instance, list[Instance], dict[str, Any]]:
    """An instance of the inventory, all instances of its deployment, and its variables of ``names``."""
    hostvars = variables["hostvars"]
    if name not in hostvars:
        raise PdopsError(f"instance={name} is no host of the inventory; correct the name.")
    mine = templated(hostvars[name], ("pd_deployment", *names))
    deployment, groups = mine.get("pd_deployment"), variables.get("groups", {})
    if not deployment:
        raise PdopsError(
            f"{name} has no pd_deployment, so it is no instance; give instance=NAME, or set pd_deployment in the inventory."
        )
    if name not in groups.get(f"{deployment}_instances", []):
        raise PdopsError(
            f"{name} is not in the group {deployment}_instances, from which its peers are known; see pd_deployment and the inventory."
        )
    answer = instances(hostvars, str(deployment), groups, errors="return")
    if isinstance(answer, str):
        raise PdopsError(answer)
    peers = [instance_from_dict(item) for item in answer]
    return next(item for item in peers if item.name == name), peers, mine


def templated(variables: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Only these are templated: others may hold secrets, or fail."""
    return {name: plain_value(variables[name]) for name in names if name in variables}


def plain_value(value: Any) -> Any:
    """Without Ansible's tags, lazy containers and string types."""
    if isinstance(value, Mapping):
        return {plain_value(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Renders the scripts and units of one machine on the controller and sends them as files, with keys, to be looked at or staged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible_collections.pdops.sglang.plugins.action.serve_script import ActionModule as Renderer
from ansible_collections.pdops.sglang.plugins.action.serve_script import described, rendered_folder
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.managed.intended import check_folder, read_intended
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import VARIABLES, launch_of
from ansible_collections.pdops.sglang.plugins.module_utils.managed.three_way import base_of
from ansible_collections.pdops.sglang.plugins.module_utils.mistakes import Mistakes
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

_OURS = ("settings", "intended_dir")


class ActionModule(Renderer):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super(Renderer, self).run(tmp, task_vars)
        variables = task_vars or {}
        given = dict(self._task.args)
        local = rendered_folder()
        try:
            sent: dict[str, str] = {}
            wrong = Mistakes("obstacles on the controller")
            wrong.take(lambda: check_folder(str(given["intended_dir"])), None)
            items = [
                wrong.take(
                    lambda number=number, name=instance["name"]: self._item(
                        name, given, local, number, variables, sent, wrong
                    ),
                    {},
                )
                for number, instance in enumerate(given["instances"])
            ]
            wrong.refuse()
            module_args = {name: value for name, value in given.items() if name not in _OURS}
            answer = self._execute_module(
                module_name="pdops.sglang.pd_deploy", module_args={**module_args, "items": items}, task_vars=variables
            )
            return result_as_typed({**result, **answer}, context.CLIARGS.get("args", ()))
        except PdopsError as error:
            return {**result, "failed": True, "msg": str(error), **error.details}
        finally:
            # In a finally: an error here would hide what happened. The folder is private and in Ansible's own tmp.
            shutil.rmtree(local, ignore_errors=True)
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _item(
        self,
        name: str,
        given: Mapping[str, Any],
        local: str,
        number: int,
        variables: dict[str, Any],
        sent: dict[str, str],
        wrong: Mistakes,
    ) -> dict[str, Any]:
        setting = given["settings"][name]
        instance, peers, mine = described(name, variables, VARIABLES)
        launch = launch_of(instance, peers, {**mine, "pd_venv": setting["venv"]}, setting["cache"])
        template = setting["serve_template"] or f"serve_{instance.role}.sh.j2"
        script = self._rendered(template, {"pd_launch": launch.as_dict()}, variables)
        item: dict[str, Any] = {
            "instance": name,
            "script": self._sent(local, f"script-{number}", script),
            "knobs": launch.knobs,
            "secret_files": list(launch.secret_files),
            # Others than root must be able to read what they run.
            "mode": "0750" if setting["user"] == "root" else "0755",
            "keys": [
                {
                    "path": path,
                    "user": user,
                    "src": wrong.take(lambda source=source: self._sent_key(name, source, sent), ""),
                }
                for path, (user, source) in keys_of(name, given, launch.secret_files).items()
            ],
        }
        if setting["unit_path"]:
            template = setting["unit_template"] or "serve.service.j2"
            unit = self._rendered(template, {"pd_service": setting["service"]}, variables)
            item.update(unit=self._sent(local, f"unit-{number}", unit), unit_path=setting["unit_path"])
        folder = given["intended_dir"]
        own = read_intended(folder, "instance", name)
        pair = read_intended(folder, "pair", setting["deployment"]) if instance.role != "router" else None
        confirmed = base_of(pair.knobs if pair else None, own.knobs if own else None)
        newest = own or pair
        item.update(confirmed=confirmed, confirmed_change=newest.change_id if newest else None)
        return item

    def _sent(self, local: str, name: str, text: str) -> str:
        path = os.path.join(local, name)
        with open(path, "wb") as file:
            file.write(os.fsencode(text))
        return self._carried(path, name)

    def _sent_key(self, name: str, source: str, sent: dict[str, str]) -> str:
        if source not in sent:
            try:
                # May be vaulted; then the loader gives the name of a decrypted copy, which it removes at the end.
                real = self._loader.get_real_file(source)
                with open(real, "rb"):
                    pass
            except (AnsibleError, OSError) as error:
                raise PdopsError(
                    f"{name}: {source} (src of pd_key_files) cannot be read on the controller "
                    f"({' '.join(str(getattr(error, 'strerror', '') or error).split())}); put that right, nothing was written."
                ) from None
            sent[source] = self._carried(real, f"key-{len(sent)}")
        return sent[source]

    def _carried(self, path: str, name: str) -> str:
        there = self._transfer_file(path, self._connection._shell.join_path(self._connection._shell.tmpdir, name))
        self._fixup_perms2((self._connection._shell.tmpdir, there))
        return str(there)


def keys_of(name: str, given: Mapping[str, Any], secret_files: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The files of keys that an instance names, path on the machine to user and source on the controller.

    Its own ``pd_key_files``, and those of its neighbors that it reads by ``pd_engine_config`` or ``pd_api_key_file``.
    """
    reads = {
        os.path.normpath(path) for path in (*secret_files, given["settings"][name]["instance"]["api_key_file"]) if path
    }
    found: dict[str, tuple[str, str]] = {}
    for instance in given["instances"]:
        setting = given["settings"][instance["name"]]
        for key in setting["keys"]:
            if instance["name"] == name or key["path"] in reads:
                found.setdefault(key["path"], (setting["user"], key["source"]))
    return found

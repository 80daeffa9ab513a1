# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Carries wheels to a machine; the module of the same name makes folders and virtual environments of them."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.serving.venv import digest_of

display = Display()


class ActionModule(ActionBase):
    _supports_check_mode = True
    _supports_diff = True
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        settings = list(self._task.args.get("settings") or [])
        try:
            wanted = wanted_of(settings)
            looked = self._ask("look", settings, wanted, task_vars)
            if looked.get("failed") or self._task.check_mode or not looked.get("tasks"):
                return {**result, **self._told(looked)}
            begun = any(looked["lacking"].values())
            if begun:
                # Wheels are gigabytes: the journal tells of them also when this run dies while it carries them.
                noted = self._ask("begin", settings, wanted, task_vars)
                if noted.get("failed"):
                    return {**result, **self._told(noted)}
            try:
                for item in wanted["venvs"]:
                    self._carry_wheels(item, looked["lacking"].get(item["source"], []))
            except PdopsError as error:
                with contextlib.suppress(AnsibleError):  # why it stopped is told in any case
                    self._ask("stop", settings, wanted, task_vars, said=str(error))
                raise
            return {**result, **self._told(self._ask("make", settings, wanted, task_vars, begun))}
        except PdopsError as error:
            return {**result, "failed": True, "msg": str(error), **error.details}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _ask(
        self,
        phase: str,
        settings: list[Any],
        wanted: Mapping[str, Any],
        task_vars: dict[str, Any] | None,
        begun: bool = False,
        said: str = "",
    ) -> dict[str, Any]:
        more = {"state_dir": self._task.args["state_dir"]} if self._task.args.get("state_dir") else {}
        return self._execute_module(
            module_name="pdops.sglang.serve_machine",
            module_args={
                "settings": settings,
                "machine": self._task.args.get("machine"),
                "phase": phase,
                "wanted": wanted,
                "actor": operator(),
                "begun": begun,
                "said": said,
                **more,
            },
            task_vars=task_vars,
        )

    def _told(self, answer: dict[str, Any]) -> dict[str, Any]:
        answer.pop("invocation", None)
        answer["machine"] = str(self._task.args.get("machine") or "machine")
        for task in answer.get("tasks", []) if self._task.check_mode else ():
            display.display(plain(f"  [{answer['machine']}] {task['said']}"), color="cyan")
        return answer

    def _carry(self, source: str, name: str) -> str:
        folder = self._connection._shell.tmpdir
        try:
            target = self._transfer_file(source, self._connection._shell.join_path(folder, name))
        except AnsibleConnectionFailure:
            raise
        except AnsibleError as error:  # a full disk, most of the time
            said = " ".join(str(error).split())[-300:].rstrip(".")
            raise PdopsError(
                f"{name} could not be carried into {folder}: {said}; what serves was not touched, put that right and run again."
            ) from None
        self._fixup_perms2((folder, target))
        return str(target)

    def _carry_wheels(self, item: Mapping[str, Any], names: Iterable[str]) -> None:
        """Each is put into place when it is there whole, so that a second run carries only the rest."""
        seen = {file["name"]: file["sha256"] for file in item["wheels"]["files"]}
        for name in names:
            path = os.path.join(item["wheels"]["folder"], name)
            if digest_of(path) != seen[name]:
                raise PdopsError(
                    f"{path} was changed or taken away on the controller while this run was at work; what serves was not touched, "
                    "run again when the folder is as it is to be."
                )
            display.display(plain(f"  [machine] carrying {name} ({os.path.getsize(path) / 1e6:.1f} MB)"), color="cyan")
            carried = shlex.quote(self._carry(path, name))
            # A copy, since what was carried belongs to the user who logged in.
            target = os.path.join(item["source"], name)
            # Into place whole: another run may install from there at this moment.
            half = shlex.quote(f"{target}.{os.path.basename(self._connection._shell.tmpdir.rstrip('/'))}")
            # What did not fit must not keep a full disk full.
            done = self._low_level_execute_command(
                f"install -D -m 0644 {carried} {half} && mv -f {half} {shlex.quote(target)} && rm -f {carried}"
                f" || {{ rm -f {half}; exit 1; }}"
            )
            if done["rc"] != 0:
                said = " ".join(done["stderr"].split())[-300:].rstrip(".")
                raise PdopsError(
                    f"{name} could not be put into {item['source']}: {said}; what serves was not touched, put that right and run again."
                )


def wanted_of(settings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the instances of one machine need together, each thing once; parents before what is in them."""
    folders: dict[str, str] = {}
    venvs: dict[str, dict[str, Any]] = {}
    keys: dict[str, dict[str, Any]] = {}
    for item in settings:
        folders.setdefault(item["root"], "root")
        folders.setdefault(f"{item['root']}/run", "root")
        folders.setdefault(item["run"], item["user"])
        folders.setdefault(os.path.dirname(item["instance"]["serve_script"]), "root")
        if item["cache"]:
            folders.setdefault(item["cache"], item["user"])
        if item["wheels"]:
            source = f"{item['root']}/wheels/{item['wheels']['key']}"
            venvs.setdefault(
                item["venv"],
                {
                    "path": item["venv"],
                    "base_python": item["base_python"],
                    "wheels": item["wheels"],
                    "source": source,
                },
            )
        for key in item["keys"]:
            folders.setdefault(os.path.dirname(key["path"]), "root")
            keys.setdefault(key["path"], {"path": key["path"], "user": item["user"]})
    return {
        "folders": [{"path": path, "user": user} for path, user in folders.items()],
        "venvs": list(venvs.values()),
        "keys": list(keys.values()),
    }

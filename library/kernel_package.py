#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_package
short_description: Install a wheel of kernels into its own folder on a machine
version_added: 0.1.0
description:
  - Installs a wheel of pure Python into C(<root>/<version>-<first 8 of its sha256>/), whole or not at all, and never into an
    environment that engines run from. No pip and no compiler is needed. Each file is checked against the wheel's RECORD, and read
    again after it was written.
  - What is installed or removed is written into the journal of the machine, before and after.
  - A serve script selects a package by its C(PYTHONPATH), so going back is restoring the script; this module touches no script.
  - The action plugin of the same name carries the wheel from the controller.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.state
attributes:
  check_mode:
    description: Everything is looked at and refused as otherwise, nothing is written.
    support: full
  diff_mode:
    description: Shows files that are added, removed and changed against the package that is in use, or else the newest one.
    support: full
  action:
    description: Has an action plugin that carries O(wheel) to the machine and prints.
    support: full
options:
  state:
    description:
      - V(present) installs O(wheel); V(absent) removes the folder O(name), unless something refers to it; V(status) says what is
        there; V(prune) removes packages that nothing refers to any more.
      - Something refers to a package when it is one of the O(keep) newest (V(prune) only), or a serve script, a backup beside one, any
        stored version of any script, an open change, or the environment or command of a running process names its folder.
      - Kernels that were compiled of it, in O(caches), go with the last package of their version.
    type: str
    choices: [present, absent, status, prune]
    default: present
  wheel:
    description: Path of the wheel on the controller. Needed for O(state=present).
    type: path
  wheel_name:
    description: File name of the wheel, when O(wheel) is a copy; the action sets this.
    type: str
  sha256:
    description: What the wheel's sha256 must be.
    type: str
  name:
    description: Name of the folder to remove, for O(state=absent).
    type: str
  root:
    description: Folder of kernel packages.
    type: path
    default: /opt/pdops/kernels
  scripts:
    description: Serve scripts of this machine, of which it is looked at what they select.
    type: list
    elements: path
    default: []
  keep:
    description: How many of the newest packages stay in any case, for O(state=prune).
    type: int
    default: 2
  caches:
    description: Folders below which instances have their compiled kernels, C(<cache root>/<instance>/triton), for O(state=prune) and
      O(state=absent).
    type: list
    elements: path
    default: []
  machine:
    description: What the machine is called where its packages are told.
    type: str
  actor:
    description: Who does this, for the journal. The action sets this.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Install kernels beside those that serve
  pdops.sglang.kernel_package:
    wheel: dist/pdops_kernels-0.1.0-py3-none-any.whl
    scripts: [/root/serve_dsv4_decode.sh]

- name: Remove kernels that no script, no stored version and no process refers to
  pdops.sglang.kernel_package:
    state: prune
    scripts: [/root/serve_dsv4_prefill.sh, /root/serve_dsv4_decode.sh]
"""

RETURN = r"""
package:
  description: C(name), C(version), C(sha256), C(folder) (its name), C(requires_python), C(requires) and C(files) of the wheel.
  returned: with O(state=present)
  type: dict
path:
  description: The folder of the package on the machine.
  returned: with O(state=present)
  type: str
missing:
  description: Whether it had, or has, to be installed.
  returned: with O(state=present)
  type: bool
against:
  description: The package that it was compared with, V(null) for none.
  returned: with O(state=present)
  type: dict
files:
  description: Files C(added), C(removed) and C(changed) against that one.
  returned: with O(state=present)
  type: dict
installed:
  description: The packages on the machine, the newest first, each with C(name), C(path), C(version) and C(sha256).
  returned: success
  type: list
  elements: dict
selected:
  description: By serve script, the folder that it selects, V(null) for none.
  returned: success
  type: dict
removed:
  description: The folders that were removed, those of compiled kernels among them.
  returned: with O(state=prune) and O(state=absent)
  type: list
  elements: str
kept:
  description: Folders that stayed, each with C(path) and C(reason).
  returned: with O(state=prune)
  type: list
  elements: dict
machine:
  description: O(machine).
  returned: through the action plugin
  type: str
lines:
  description: What was found or done, as it is printed.
  returned: success
  type: list
  elements: str
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.kernel_package import installing
from ..module_utils.kernel_package.folders import compare, installed_in
from ..module_utils.kernel_package.pruning import plan_pruning
from ..module_utils.kernel_package.scripts_say import selected_by
from ..module_utils.kernel_package.selection import FOLDER
from ..module_utils.kernel_package.wheel import read_wheel
from ..module_utils.machine_arguments import STATE
from ..module_utils.pdops_error import PdopsError
from ..module_utils.store.doing import journaled
from ..module_utils.store.store import Store


def present(module, root, selected):
    given = module.params
    wheel = read_wheel(given["wheel"], given["sha256"], given["wheel_name"])
    todo = installing.plan(wheel, root)
    used = {path for path in selected.values() if path}
    others = [folder for folder in installed_in(root) if folder.name != wheel.folder]
    against = next((folder for folder in others if folder.path in used), others[0] if others else None)
    files = compare(against.files if against else {}, wheel.hashes)
    lines = [todo or f"{wheel.name} {wheel.version} is there ({wheel.folder})"]
    if todo and against is not None:
        lines += [
            f"against {against.name}: {len(files.lines())} of {len(wheel.files)} files differ",
            *files.lines()[:40],
        ]
    elif todo:
        lines.append(f"{len(wheel.files)} files; no other one is there to compare with")
    path = os.path.join(root, wheel.folder)
    if todo:
        check_journal(module)
    if todo and not module.check_mode:
        with noted(module, path=path, sha256=wheel.sha256, said=todo):
            installing.install(wheel, root)
    package = wheel.as_dict()
    return {
        "changed": bool(todo),
        "missing": bool(todo),
        "package": package,
        "path": path,
        "against": against.as_dict() if against else None,
        "files": {"added": list(files.added), "removed": list(files.removed), "changed": list(files.changed)},
        "lines": lines,
        "diff": {
            "before_header": against.path if against else f"{root} (none)",
            "after_header": path,
            "before": listing(against.files if against else {}),
            "after": listing(wheel.hashes),
        },
    }


def check_journal(module):
    # Also in check mode, as all that would be refused.
    Store(module.params["state_dir"]).check_usable()


@contextlib.contextmanager
def noted(module, **row):
    given = module.params
    line = {"verb": "kernel_package", "state": given["state"], **row, "actor": given["actor"]}
    with journaled(Store(given["state_dir"]), line) as doing:
        yield
    for trouble in doing.trouble:
        module.warn(trouble)


def listing(files):
    return "".join(f"{sha256[:16]}  {name}\n" for name, sha256 in sorted(files.items()))


def removal(module, root, keep, only):
    given = module.params
    pruning = plan_pruning(root, keep, Store(given["state_dir"]), given["scripts"], given["caches"], only)
    held = next((reason for folder, reason in pruning.kept if folder.name == only), None)
    if held:
        raise PdopsError(f"{os.path.join(root, only)} is not removed: {held}.")
    gone = [folder.path for folder in pruning.gone]
    removed = [*gone, *pruning.caches]
    if removed:
        check_journal(module)
    if removed and not module.check_mode:
        with noted(module, removed=removed):
            for path in gone:
                installing.remove(path)
            for path in pruning.caches:
                installing.remove_compiled(path)
    return {
        "changed": bool(removed),
        "removed": removed,
        "kept": [{"path": folder.path, "reason": reason} for folder, reason in pruning.kept],
        "lines": [
            *(f"remove {path}, to which nothing refers" for path in gone),
            *(f"remove {path}, compiled of a package that is gone" for path in pruning.caches),
        ],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "status", "prune"], "default": "present"},
            "wheel": {"type": "path"},
            "wheel_name": {"type": "str"},
            "sha256": {"type": "str"},
            "name": {"type": "str"},
            "root": {"type": "path", "default": "/opt/pdops/kernels"},
            "scripts": {"type": "list", "elements": "path", "default": []},
            "keep": {"type": "int", "default": 2},
            "caches": {"type": "list", "elements": "path", "default": []},
            "machine": {"type": "str"},
            "actor": {"type": "str", "default": ""},
            **STATE,
        },
        required_if=[("state", "present", ("wheel",)), ("state", "absent", ("name",))],
        supports_check_mode=True,
    )
    given = module.params
    root = os.path.normpath(given["root"])
    try:
        selected = {path: selected_by(path) for path in given["scripts"]}
        if given["state"] == "present":
            answer = present(module, root, selected)
        elif given["state"] == "prune":
            answer = removal(module, root, given["keep"], None)
        elif given["state"] == "absent":
            if not FOLDER.fullmatch(given["name"]):
                raise PdopsError(f"name {given['name']!r} is no folder of a kernel package, as 0.1.0-0a1b2c3d is.")
            answer = removal(module, root, 0, given["name"])
        else:
            answer = {"changed": False, "lines": [f"{folder.name} ({folder.path})" for folder in installed_in(root)]}
        if not module._diff:
            answer.pop("diff", None)
        installed = [folder.as_dict() for folder in installed_in(root)]
        module.exit_json(installed=installed, selected=selected, **answer)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)


if __name__ == "__main__":
    main()

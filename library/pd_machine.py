#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_machine
short_description: What several modules of this collection are on a machine
version_added: 0.1.0
description:
  - Not for tasks, which call M(pdops.sglang.pd_change), M(pdops.sglang.pd_evidence), M(pdops.sglang.pd_gate), M(pdops.sglang.pd_info),
    M(pdops.sglang.pd_instance), M(pdops.sglang.pd_journal) and M(pdops.sglang.pd_worker). Their actions send this file in place of the
    module. It does what that one does, with its options and its results.
  - Ansible packs a module with all that it imports, once per run for each, and sends that with every call. The code of this collection
    comes to a machine once instead, into C(~/.cache/pdops/bytecode) of the user that the task runs as, under its sha256.
author:
  - the pdops authors (@pdops)
attributes:
  check_mode:
    description: As of the module that the task names.
    support: full
  diff_mode:
    description: As of the module that the task names.
    support: partial
options: {}
seealso:
  - module: pdops.sglang.pd_instance
  - module: pdops.sglang.pd_change
"""

EXAMPLES = r"""
# None: a task calls pdops.sglang.pd_instance, for example, and that is what runs on the machine.
- name: Look at the decode
  pdops.sglang.pd_instance:
    unit: sglang-dsv4-decode.service
"""

RETURN = r"""
{}
"""

import importlib

from ansible.module_utils.basic import AnsibleModule, _load_params

from ..module_utils import sent_code

#: Of the arguments, the one that the action adds: C(name) of the code, and the code in C(sent) where it is known to be missing.
CODE = "_pdops_code"


class ModuleOfTask(AnsibleModule):
    def _load_params(self) -> None:
        super()._load_params()
        self.params.pop(CODE, None)


class NoTask(AnsibleModule):
    """Answers before it is known what the arguments mean."""

    def __init__(self) -> None:
        super().__init__(argument_spec={}, supports_check_mode=True)

    def _load_params(self) -> None:
        super()._load_params()
        self.params = {name: value for name, value in self.params.items() if name.startswith("_ansible_")}


def main() -> None:
    given = _load_params() or {}
    code = given.get(CODE)
    if not code:
        NoTask().fail_json(
            msg="pd_machine is not for tasks; call pd_instance, pd_gate or another module of pdops.sglang."
        )
    try:
        here = sent_code.attach(code["name"], code.get("sent"))
    except ValueError as error:
        NoTask().fail_json(msg=f"{error}; nothing was done, run it again")
    if not here:
        NoTask().exit_json(**sent_code.missing())
    # Ansible tells every module its name, which is how these are told apart: parameters, results and messages stay those of the task.
    # By name, since Ansible would pack what it sees imported; and each alone: imports are most of what a call costs.
    calls = f"{sent_code.__name__.rpartition('.')[0]}.machine_calls"
    call = importlib.import_module(f"{calls}.{given['_ansible_module_name'].rpartition('.')[2]}")
    importlib.import_module(f"{calls}.ending").end(ModuleOfTask(**call.INTERFACE), call.answer)


if __name__ == "__main__":
    main()

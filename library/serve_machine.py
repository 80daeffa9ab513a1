#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: serve_machine
short_description: Make a machine ready to run the instances of a deployment
version_added: 0.1.0
description:
  - Makes, once for all instances of a machine, their folders, a virtual environment from wheels that the controller carries over, and folders for
    what engines compile. A file of keys that is there is made private (mode 0600); what it holds is written by M(pdops.sglang.pd_deploy) and
    M(pdops.sglang.pd_change).
  - What is made is written into the journal of the machine, before and after.
  - Only adds. A virtual environment and a cache are named by the content of the wheels, so scripts of former versions go on using theirs.
  - Nothing is fetched from the internet. The base Python needs C(ensurepip) (on Debian the package python3-venv), or the wheels a pip.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.state
attributes:
  check_mode:
    description: Everything is looked at and refused as otherwise, nothing is written.
    support: full
  diff_mode:
    description: Names what is made.
    support: full
options:
  settings:
    description: What RV(pdops.sglang.serve_check#module:instances) says of the instances on this machine.
    type: list
    elements: dict
    required: true
  machine:
    description: What the machine is called where its tasks are told.
    type: str
  phase:
    description: The action sets this; it looks first, and makes in the end. Between them it begins, when wheels are to be carried over,
      and stops when they cannot be.
    type: str
    choices: [look, begin, stop, make]
    default: make
  wanted:
    description: What is to be there. The action sets this from O(settings).
    type: dict
    default: {}
  actor:
    description: Who does this, for the journal. The action sets this.
    type: str
    default: ""
  begun:
    description: Whether the journal says already that this is begun. The action sets this.
    type: bool
    default: false
  said:
    description: Why O(phase=stop), for the journal. The action sets this.
    type: str
    default: ""
seealso:
  - module: pdops.sglang.serve_check
"""

EXAMPLES = r"""
- name: Make the machine of this deployment ready
  pdops.sglang.serve_machine:
    settings: "{{ checked.instances.values() | list }}"
  delegate_to: dsv4-prefill
"""

RETURN = r"""
tasks:
  description: What was missing, each with C(kind) (V(folder), V(venv), V(key)), C(path) and C(said).
  returned: success
  type: list
  elements: dict
  sample: [{kind: folder, path: /opt/pdops, said: make folder /opt/pdops}]
machine:
  description: O(machine).
  returned: through the action plugin
  type: str
lacking:
  description: Wheels that are still to be carried over, by the folder on the machine; of use to the action.
  returned: with O(phase=look)
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_arguments import STATE
from ..module_utils.pdops_error import PdopsError
from ..module_utils.serving import venv
from ..module_utils.serving.machine import carry_out, plan_machine
from ..module_utils.store.doing import journaled, note
from ..module_utils.store.store import Store


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "list", "elements": "dict", "required": True},
            "machine": {"type": "str"},
            "phase": {"type": "str", "choices": ["look", "begin", "stop", "make"], "default": "make"},
            "wanted": {"type": "dict", "default": {}},
            "actor": {"type": "str", "default": ""},
            "begun": {"type": "bool", "default": False},
            "said": {"type": "str", "default": ""},
            **STATE,
        },
        supports_check_mode=True,
    )
    given, wanted = module.params, module.params["wanted"]
    if not wanted:
        module.fail_json(msg="serve_machine was called without its action; call it as pdops.sglang.serve_machine.")
    try:
        tasks = plan_machine(wanted)
        result = {"changed": bool(tasks), "tasks": [task.as_dict() for task in tasks]}
        if tasks:
            # Also when it only looks, as all that would be refused.
            Store(given["state_dir"]).check_usable()
        if given["phase"] == "look":
            result["lacking"] = {
                str(task.details["source"]): venv.lacking(task.details["wheels"], str(task.details["source"]))
                for task in tasks
                if task.kind == "venv"
            }
        elif tasks and not module.check_mode:
            store = Store(given["state_dir"])
            line = {"verb": "serve_machine", "tasks": [task.said for task in tasks], "actor": given["actor"]}
            if given["phase"] == "begin":
                note(store, {**line, "step": "begin"})
            elif given["phase"] == "stop":
                note(store, {**line, "step": "failed", "said": given["said"]})
            else:
                with journaled(store, line, begun=given["begun"]) as doing:
                    carry_out(tasks)
                for trouble in doing.trouble:
                    module.warn(trouble)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)
    if module._diff and tasks:
        result["diff"] = {
            "before_header": "machine",
            "after_header": "machine",
            "before": "",
            "after": "".join(f"{task.said}\n" for task in tasks),
        }
    module.exit_json(**result)


if __name__ == "__main__":
    main()

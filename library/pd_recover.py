#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_recover
short_description: Say what is where on one machine after a crash
version_added: 0.1.0
description:
  - Looks for changes that nobody brought to an end. Those are changes that are open or rolling back, and changes whose rollback
    failed while no later change of the same instances ended well.
  - For each it says who led it since when, its last step, its lease, whether its guard lives, and whether each of its files has
    the old, the new or somebody else's content; and of each instance what the service manager says.
  - Changes nothing. With O(finish) it also says in RV(finish) which change is to be brought to an end here, and refuses when a
    controller may still lead that one.
  - Its action plugin prints what it finds.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
  - pdops.sglang.machine.looks
  - pdops.sglang.machine.prints
options:
  finish:
    description:
      - V(back) asks for the change whose old state is to be put back, V(forward) for the one whose new state is to be proved and kept.
      - Empty only looks.
    type: str
    choices: ["", back, forward]
    default: ""
  take_over:
    description: Id of a change that is to be ended although its controller may be alive.
    type: str
"""

EXAMPLES = r"""
- name: What became of the change on this machine
  pdops.sglang.pd_recover:
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
  delegate_to: dsv4-decode
"""

RETURN = r"""
changes:
  description: Changes that nobody ended, the newest first.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: Its identity.
      type: str
      returned: always
    state:
      description: V(open), V(rolling-back) or V(rollback-failed).
      type: str
      returned: always
    controller:
      description: V(gone), V(living) or V(unknown).
      type: str
      returned: always
    guard_alive:
      description: Whether its guard lives.
      type: bool
      returned: always
    files:
      description:
        - Its files. RV(ignore:now) is V(old), V(new), V(between) (of a change that it took over), V(gone), V(foreign) or V(unreadable).
      type: list
      returned: always
newest:
  description: The last change that ended; none when there is none.
  returned: success
  type: dict
ended:
  description: The newest ones that ended, with what their files have now.
  returned: success
  type: list
  elements: dict
unreadable:
  description: A sentence per record that cannot be read.
  returned: success
  type: list
  elements: str
units:
  description: What the service manager says of each instance, by its name.
  returned: success
  type: dict
leftovers:
  description: Temporary files beside the scripts, left by a write that a crash cut short.
  returned: success
  type: list
  elements: str
finish:
  description: The change to be brought to an end here; none when there is none, or O(finish) is empty.
  returned: success
  type: dict
lines:
  description: All this as it is printed.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.change.survey import survey, to_finish
from ..module_utils.change.survey_text import survey_lines
from ..module_utils.deployment import instance_from_dict
from ..module_utils.machine_arguments import MACHINE
from ..module_utils.pdops_error import PdopsError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **MACHINE,
            "finish": {"type": "str", "choices": ["", "back", "forward"], "default": ""},
            "take_over": {"type": "str"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        here = [instance_from_dict(item) for item in given["instances"]]
        found = survey(here, given["state_dir"], given["take_over"] or None)
        found["lines"] = survey_lines(found)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)
    try:
        found["finish"] = to_finish(found, given["take_over"] or None) if given["finish"] else None
    except PdopsError as error:
        module.fail_json(msg=str(error), **found)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()

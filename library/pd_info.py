#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_info
short_description: Look at the instances of a deployment on one machine
version_added: 0.1.0
description:
  - Reads the serve scripts, their stored versions and the backups beside them, the running processes and the open
    change of the instances that share a machine, and works out the edits that a verb would make.
  - Changes nothing. Values of knobs with secret-looking names are never returned.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
  - pdops.sglang.machine.everyone
attributes:
  check_mode:
    description: Runs in check mode just the same.
    support: full
  diff_mode:
    description: Returns differences as data, never as a diff.
    support: none
options:
  verb:
    description: The verb for which edits are worked out.
    type: str
    choices: [restore, set, revert, restart, verify, recover, rollback, deploy, kernels]
    default: verify
  asked:
    description:
      - What narrows the verb, as an operator gives it with C(-e). Keys are V(knob), V(value), V(from), V(instance), V(role), V(scope), V(state),
        V(expect_only), V(one_sided), V(new_knob), V(overlap), V(change) of V(rollback), V(take) of V(deploy); all of them may be left out.
      - V(pair_knobs) are the names of knobs that prefill and decode have alike, and V(kernels) of the verb V(kernels) is what the role
        pdops.sglang.change makes of the package.
      - V(reason) and V(review_by) are read by M(pdops.sglang.pd_plan).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: What is on the machine of this deployment
  pdops.sglang.pd_info:
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
  delegate_to: dsv4-decode
  register: seen
"""

RETURN = r"""
instances:
  description: One report per instance, by its name.
  returned: success
  type: dict
  contains:
    script:
      description: Path, sha256 and findings of the serve script.
      type: dict
      returned: when the script can be read
    intended:
      description: Knobs that the script exports with a value that can be known without running it, without secrets.
      type: dict
      returned: when the script can be read
    running:
      description: What the running process has of them, with the evidence. A state is V(set), V(absent) or V(unknown).
      type: dict
      returned: when the script can be read
    stale:
      description: Knobs that the process is known not to have as the script says.
      type: list
      returned: always
    sources:
      description: Stored versions and backups of the script, the newest first.
      type: list
      returned: when the script can be read
    edits:
      description: Edits that the verb would make, each with its diff, or with the sentence why it is refused.
      type: list
      returned: always
    error:
      description: Why the instance could not be looked at.
      type: str
      returned: when it could not
open_change:
  description: The change that is open on this machine for these instances.
  returned: success
  type: dict
timings:
  description: How long former changes and rollbacks of these instances took.
  returned: success
  type: list
undo:
  description: The confirmed change that V(rollback) puts back.
  returned: success
  type: dict
unreported:
  description: Changes that a guard rolled back and of which no run has told yet.
  returned: success
  type: list
ended:
  description: The newest changes of these instances that have ended, with what their files have now.
  returned: success
  type: list
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_info
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_info.INTERFACE), pd_info.answer)


if __name__ == "__main__":
    main()

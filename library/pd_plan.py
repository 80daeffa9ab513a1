#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_plan
short_description: Decide what a verb does to a deployment
version_added: 0.1.0
description:
  - Takes what M(pdops.sglang.pd_info) saw on the machines of a deployment and decides which script changes, which
    instances restart in which order and why, or says why nothing is to be done, or refuses with one sentence.
  - Reads and writes nothing, and runs on the controller, in its action plugin, which also prints the plan.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.controller
attributes:
  check_mode:
    description: Runs in check mode just the same; the plan is the same one that a run would follow.
    support: full
  diff_mode:
    description: Returns the differences of the scripts that the plan changes.
    support: full
options:
  deployment:
    description: Name of the deployment.
    type: str
    required: true
  instances:
    description: All instances of the deployment, as the filter P(pdops.sglang.instances#filter) returns them.
    type: list
    elements: dict
    required: true
  verb:
    description: What is to be done. Of V(probe) and V(register_worker) only the extra variables of the command line are checked.
    type: str
    choices: [restore, set, revert, restart, verify, recover, rollback, deploy, kernels, probe, register_worker]
    required: true
  typed:
    description: The verb that was typed, whose words the command line is checked for, where another one leads this one. The same unless it is given.
    type: str
    choices: [restore, set, revert, restart, verify, recover, rollback, deploy, kernels, probe, register_worker]
  asked:
    description: What narrows the verb; see M(pdops.sglang.pd_info).
    type: dict
    default: {}
  infos:
    description:
      - One result of M(pdops.sglang.pd_info) per machine. Without it only O(asked) is checked, before any machine is looked at.
    type: list
    elements: dict
  made:
    description:
      - For a deploy, what M(pdops.sglang.serve_machine) says of each machine in check mode, with C(serve_machine); what one has against it is told
        with all other obstacles.
    type: list
    elements: dict
    default: []
  take_over:
    description: Id of an open change that this run takes over.
    type: str
  step_budget_s:
    description: Seconds for a step that loads nothing, for the plan's worst case.
    type: float
    default: 60
  slack_s:
    description: Seconds that the guard waits beyond a step's time, for the plan's worst case.
    type: float
    default: 15
  evidence_dir:
    description:
      - Folder of the record, of which open debts and what a revert costs are shown; see M(pdops.sglang.pd_record).
    type: path
"""

EXAMPLES = r"""
- name: Decide what to restore
  pdops.sglang.pd_plan:
    deployment: dsv4
    instances: "{{ pd_instances }}"
    verb: restore
    infos: "{{ pd_infos }}"
  register: plan
"""

RETURN = r"""
plan:
  description: The plan.
  returned: when O(infos) is given
  type: dict
  contains:
    change_id:
      description: Identity for the change that follows this plan.
      type: str
      returned: always
    summary:
      description: What will have been done, in one sentence.
      type: str
      returned: always
    edits:
      description: The edits of scripts.
      type: list
      returned: always
    restart:
      description: Names of the instances that restart, in start order.
      type: list
      returned: always
    scope:
      description: V(co), V(decode), V(router), V(rolling) or V(none).
      type: str
      returned: always
    why:
      description: Why each instance restarts, by its name.
      type: dict
      returned: always
    expect:
      description: What each process must have afterwards.
      type: dict
      returned: always
    found:
      description: What earlier runs left behind.
      type: list
      returned: always
    finishes:
      description: The interrupted change that is carried through, with C(id), C(verb) and C(why); empty when it is none.
      type: dict
      returned: always
    nothing:
      description: Why there is nothing to do.
      type: str
      returned: always
lines:
  description: The plan as it is printed.
  returned: when O(infos) is given
  type: list
  elements: str
debt:
  description: Open debts of the record, one line each.
  returned: when O(infos) is given
  type: list
  elements: str
reason:
  description: Why a knob is reverted, with C(text), C(suspicion) and C(review_by); empty when no reason was given.
  returned: when O(infos) is given
  type: dict
began:
  description: When the planning began, in seconds since the epoch on the controller.
  returned: when O(infos) is given
  type: float
would_change:
  description: Whether following the plan changes anything.
  returned: when O(infos) is given
  type: bool
"""

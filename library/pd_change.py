#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_change
short_description: Lead one machine's part of a change
version_added: 0.1.0
description:
  - A change is a transaction over one deployment. On each of its machines it is opened, applied, and confirmed or rolled
    back, once per machine.
  - An open change is the lock against a second operator. It has a lease; when the lease runs out because the controller
    is gone, a guard on the machine puts the old scripts back and restarts the instances that the change touched.
  - Every verb is re-entrant by O(change_id), so a repeated call has no second effect.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
attributes:
  check_mode:
    description: In check mode nothing is done; V(status) works as ever.
    support: full
  diff_mode:
    description: V(apply) returns the differences of the scripts that it changed, without secrets.
    support: full
options:
  verb:
    description:
      - V(begin) opens the change and starts its guard. V(apply) changes the scripts. V(renew) gives the current step more time.
        V(confirm) ends the change for good. V(rollback) asks the guard to put the old state back now. V(status) only looks.
        V(report) marks changes that a guard rolled back as told.
    type: str
    choices: [begin, renew, apply, confirm, rollback, status, report]
    required: true
  change_id:
    description: Identity of the change.
    type: str
    required: true
  deployment:
    description: Name of the deployment; needed by V(begin).
    type: str
  intent:
    description: The verb that the operator used, for the record; needed by V(begin).
    type: str
  summary:
    description: What the change does, in one sentence; needed by V(begin).
    type: str
  edits:
    description: The plan's edits of scripts on this machine, as M(pdops.sglang.pd_plan) returns them; for V(begin) and V(apply).
    type: list
    elements: dict
    default: []
  leader:
    description: The controller process that leads the change; its action plugin fills this in.
    type: dict
    default: {}
  elsewhere:
    description:
      - The deployment's instances on other machines; for V(begin). Its guard asks them on its way back, where their O(ignore:url) is
        no loopback address.
    type: list
    elements: dict
    default: []
  scope:
    description: What the plan restarts; of V(rolling) only what was touched goes back. For V(begin).
    type: str
    choices: [none, co, decode, router, rolling]
    default: co
  restart:
    description: Names of all instances, of all machines, that the plan restarts; for V(begin).
    type: list
    elements: str
    default: []
  why:
    description: Why it is wanted, as M(pdops.sglang.pd_plan) returns it in RV(pdops.sglang.pd_plan#module:reason); kept for the record. For V(begin).
    type: dict
    default: {}
  finishes:
    description: The interrupted change that this one carries through, as the plan names it; kept for the record. For V(begin).
    type: dict
    default: {}
  touches:
    description:
      - Instances that the next step stops, starts or takes out of a router by a step of another machine; for V(renew). A pair that
        was taken apart on one machine meets afresh on all of them.
    type: list
    elements: str
    default: []
  evidence:
    description:
      - For V(confirm), to read in the same call what M(pdops.sglang.pd_evidence) reads, once the change is confirmed. Of several
        machines none is asked to, since the others would wait for it.
    type: bool
    default: false
  alone:
    description:
      - For V(rollback), that other machines are gone back with before or after this one, so its guard waits for none of them.
    type: bool
    default: false
  take_over:
    description: Id of an open change to take over.
    type: str
  step:
    description: What is about to happen, for the record; for V(renew).
    type: str
    default: renew
  budget_s:
    description: Seconds that the next step may take before the guard acts.
    type: float
    default: 60
  slack_s:
    description: Seconds that the guard waits after the end of a step's budget; for V(begin).
    type: float
    default: 15
  said:
    description: Reason or closing sentence, for V(confirm) and V(rollback).
    type: str
    default: ""
  events:
    description: For V(confirm), what was done so far, out of which the action works out O(outage_s).
    type: list
    elements: dict
    default: []
  all_instances:
    description: For V(confirm), names and roles of all instances of the deployment; used by the action.
    type: list
    elements: dict
    default: []
  outage_s:
    description: For V(confirm), the seconds for which the deployment did not answer; the next plan expects as many. The action sets this.
    type: float
  ids:
    description: Changes to mark as told; for V(report).
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds for which the action plugin watches a V(rollback) before it gives up watching; the guard goes on.
    type: float
    default: 1800
"""

EXAMPLES = r"""
- name: Open the change
  pdops.sglang.pd_change:
    verb: begin
    change_id: "{{ plan.plan.change_id }}"
    deployment: dsv4
    intent: restore
    summary: "{{ plan.plan.summary }}"
    instances: "{{ pd_each.instances }}"
    edits: "{{ plan.plan.edits }}"
  delegate_to: "{{ pd_each.host }}"
"""

RETURN = r"""
cut_off:
  description: The machine was not reached any more, which the action plugin makes a failure of, except with V(rollback), V(status) and V(report).
  returned: when it was not
  type: bool
change:
  description: The change as it stands now.
  returned: when the change exists
  type: dict
  contains:
    id:
      description: Its identity.
      type: str
      returned: always
    state:
      description: V(open), V(rolling-back), V(confirmed), V(rolled-back), V(rollback-failed) or V(superseded).
      type: str
      returned: always
    last_step:
      description: The last step that was begun.
      type: str
      returned: always
    lease_left_s:
      description: Seconds until the guard acts.
      type: float
      returned: always
    out_before:
      description: Of a change that took over another, the steps (C(at), C(step), C(instance)) by which that one had stopped instances.
      type: list
      elements: dict
      returned: always
evidence:
  description: What M(pdops.sglang.pd_evidence) returns; without a fingerprint when that could not be read.
  returned: with V(confirm) and O(evidence)
  type: dict
guard_alive:
  description: Whether the guard of the change lives.
  returned: with V(status)
  type: bool
skipped_effect:
  description: What a run would do, in one sentence.
  returned: in check mode, except with V(status)
  type: str
applied:
  description: One entry per script that was changed, with the sha256 before and after.
  returned: with V(apply)
  type: list
guard:
  description: What was written for the guard (a unit of systemd), or why it would not survive a reboot.
  returned: with V(begin)
  type: list
  elements: str
kind:
  description: O(verb).
  returned: through the action plugin
  type: str
began:
  description: When the task began, in seconds since the epoch on the controller.
  returned: through the action plugin
  type: float
ended:
  description: When the task ended, in seconds since the epoch on the controller.
  returned: through the action plugin
  type: float
said:
  description: What became of the old state, in one sentence.
  returned: with V(rollback)
  type: str
steps:
  description: All steps so far.
  returned: with V(status) and V(rollback)
  type: list
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_change
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_change.INTERFACE), pd_change.answer)


if __name__ == "__main__":
    main()

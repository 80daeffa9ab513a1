#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_intended
short_description: Write down what a confirmed change left as the knobs of managed scripts
version_added: 0.1.0
description:
  - Writes one file per instance, and one per pair, on the controller. C(deploy.yml) compares with them, so that an edit on the machine is told from a
    change of the inventory.
  - Only scripts that were rendered from a template (M(pdops.sglang.serve_script), C(deploy.yml)) have intended values.
  - Runs after a change was confirmed, so it never fails; what could not be written is a warning. Runs in its action plugin.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.controller
attributes:
  check_mode:
    description: Not called in check mode, in which no change is confirmed.
    support: none
  diff_mode:
    description: Does not return differences.
    support: none
options:
  folder:
    description: Where the files lie.
    type: path
    required: true
  deployment:
    description: Name of the deployment, and of its pair's file.
    type: str
    required: true
  instances:
    description: All instances of the deployment, as the filter P(pdops.sglang.instances#filter) returns them.
    type: list
    elements: dict
    required: true
  plan:
    description:
      - The plan that was carried out, as M(pdops.sglang.pd_plan) returns it.
      - Without it only that is written which the machines confirmed later than what is written down, as after the death of a controller.
    type: dict
  infos:
    description: What was seen before the change, one result of M(pdops.sglang.pd_info) or M(pdops.sglang.pd_deploy) per machine.
    type: list
    elements: dict
    required: true
  pair_knobs:
    description: Names of the knobs of the pair.
    type: list
    elements: str
    default: []
  actor:
    description: Who made the change.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Write down what is intended now
  pdops.sglang.pd_intended:
    folder: "{{ inventory_dir }}.intended"
    deployment: dsv4
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
    plan: "{{ plan.plan }}"
    infos: "{{ seen.results }}"
    actor: ops@desk
"""

RETURN = r"""
written:
  description: Files that were written.
  returned: always
  type: list
  elements: str
warning:
  description: Why nothing was written, otherwise empty.
  returned: always
  type: str
"""

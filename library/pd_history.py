#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_history
short_description: Print the versions of the serve scripts of a deployment
version_added: 0.1.0
description:
  - Takes what M(pdops.sglang.serve_version) listed for each instance and prints a table per instance. It shows versions with time, who,
    label and sha256, the knobs that each one changed, and the backups beside the script; so an operator sees what C(from=) of
    C(restore_knob.yml) and C(revert_knob.yml) may be.
  - Without O(results) it only checks what was asked for, and returns the instances that are meant.
  - Reads and writes nothing, and runs on the controller, in its action plugin.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.looks
  - pdops.sglang.machine.controller
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
  instance:
    description: Names of instances, as a list or separated by commas; if empty, all.
    type: raw
  role:
    description: V(prefill), V(decode) or V(router); if empty, all.
    type: str
  knob:
    description: The knob that the histories were narrowed to.
    type: str
  results:
    description: One result of M(pdops.sglang.serve_version) for each instance in RV(wanted), in that order.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Print the histories
  pdops.sglang.pd_history:
    deployment: dsv4
    instances: "{{ pd_instances }}"
    role: decode
    results: "{{ pd_listed.results }}"
"""

RETURN = r"""
wanted:
  description: The instances that were asked for.
  returned: success
  type: list
  elements: dict
lines:
  description: The histories as they are printed.
  returned: when O(results) is given
  type: list
  elements: str
"""

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Groups instances by the machine that they share."""

from __future__ import annotations

DOCUMENTATION = r"""
name: machines
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: The machines of a deployment, each with its instances
description:
  - Groups what the filter P(pdops.sglang.instances#filter) returns by machine, sorted by the machine's name,
    so that two operators who take several machines take them in the same order.
options:
  _input:
    description: Instances in start order.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Look at each machine once
  pdops.sglang.pd_info:
    instances: "{{ machines[item].instances }}"
  delegate_to: "{{ machines[item].host }}"
  loop: "{{ machines.keys() }}"
  vars:
    machines: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) | pdops.sglang.machines }}"
"""

RETURN = r"""
_value:
  description:
    - By the machine's name, a dictionary with V(host) (the inventory host to delegate to), V(names), V(instances) and
      V(state_dir).
  type: dict
"""

from typing import Any


def machines(instances: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """See DOCUMENTATION."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for instance in instances:
        grouped.setdefault(str(instance["machine"]), []).append(instance)
    return {
        machine: {
            "host": grouped[machine][0]["name"],
            "names": [item["name"] for item in grouped[machine]],
            "instances": grouped[machine],
            "state_dir": grouped[machine][0]["state_dir"],
        }
        for machine in sorted(grouped)
    }


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"machines": machines}

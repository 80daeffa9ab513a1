# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Finds out which hosts of a play lead a deployment."""

from __future__ import annotations

DOCUMENTATION = r"""
name: leaders
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: The hosts of a play that lead a deployment
description:
  - A deployment (a host in the group C(pd_deployments)) leads itself when it is in the play. When a limit named instances only,
    the first of them leads in its place and the verb is limited to them.
  - Every other host leads nothing.
positional: _input, groups
options:
  _input:
    description: Hosts of the play, C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  groups:
    description: The C(groups).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Go on only on hosts that lead
  ansible.builtin.meta: end_host
  when: inventory_hostname not in (ansible_play_hosts_all | pdops.sglang.leaders(groups))
"""

RETURN = r"""
_value:
  description: By the leading host's name, a dictionary with V(deployment) and V(limited_to).
  type: dict
"""

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils.deployment import leaders


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"leaders": leaders}

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
positional: _input, groups, wave, forks
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
  wave:
    description:
      - How many deployments are changed at the same time; V(3), V(20%), or several such as V(1,5,20%). Each is given its C(wave).
      - Fails when a wave is wider than O(forks).
    type: str
  forks:
    description: How many hosts Ansible works on at the same time.
    type: int
"""

EXAMPLES = r"""
- name: Go on only on hosts that lead
  ansible.builtin.meta: end_host
  when: inventory_hostname not in (ansible_play_hosts_all | pdops.sglang.leaders(groups))
"""

RETURN = r"""
_value:
  description: By the leading host's name, a dictionary with V(deployment) and V(limited_to), and V(wave) if O(wave) is given.
  type: dict
"""

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.pdops.sglang.plugins.module_utils import (
    bytecode,  # noqa: F401 - what is imported after it is kept compiled
    deployment,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.waves import waves


def leaders(
    hosts: list[str], groups: dict[str, list[str]], wave: Any = None, forks: int = 0
) -> dict[str, dict[str, Any]]:
    """See DOCUMENTATION."""
    found = deployment.leaders(hosts, groups)
    try:
        return found if wave is None else waves(found, wave, forks)
    except PdopsError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"leaders": leaders}

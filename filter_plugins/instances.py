# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Filters that turn inventory variables into what pdops works with."""

from __future__ import annotations

DOCUMENTATION = r"""
name: instances
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: The instances of a deployment, checked and in start order
description:
  - Reads the C(pd_*) variables of the named inventory hosts and returns one dictionary per instance,
    in the order in which they start (prefill, decode, router).
  - Fails with one sentence that names host and variable when something is missing, wrong, or clashes.
positional: _input, deployment
options:
  _input:
    description: The C(hostvars).
    type: raw
    required: true
  deployment:
    description: Name of the deployment; its instances are the hosts in the group C(<deployment>_instances).
    type: str
    required: true
  groups:
    description: The C(groups).
    type: dict
    required: true
  limit:
    description: The C(ansible_limit), of which no name may be unknown.
    type: str
  errors:
    description: V(raise) fails; V(return) returns the sentence, for a task that fails with it and nothing else.
    type: str
    choices: [raise, return]
    default: raise
"""

EXAMPLES = r"""
- name: Show the instances of the deployment dsv4
  ansible.builtin.debug:
    msg: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
"""

RETURN = r"""
_value:
  description: One dictionary per instance, in start order.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import (
    check_deployment,
    check_limit,
    instance_from_variables,
)
from ansible_collections.pdops.sglang.plugins.module_utils.mistakes import Mistakes
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

_READ = (
    "pd_role",
    "pd_unit",
    "pd_serve_script",
    "pd_url",
    "pd_machine",
    "pd_service_manager",
    "pd_supervisor_config",
    "pd_bootstrap_port",
    "pd_metrics_url",
    "pd_api_key_file",
    "pd_load_timeout_s",
    "pd_drain_s",
    "pd_state_dir",
    "pd_pair_knobs",
    "pd_knobs",
    "ansible_host",
    "ansible_port",
    "ansible_connection",
    "group_names",
)


def instances(
    hostvars: Any, deployment: str, groups: dict[str, list[str]], errors: str = "raise", limit: str = ""
) -> list[dict[str, Any]] | str:
    """See DOCUMENTATION. Only the variables named in ``_READ`` are templated: others may hold secrets."""
    try:
        check_limit(limit, groups)
        found, wrong = [], Mistakes()
        for name in groups.get(f"{deployment}_instances", []):
            variables = hostvars[name]
            given = {key: variables[key] for key in _READ if key in variables}
            if "pd_state_dir" not in given and deployment in hostvars:
                # It may be said of the deployment as a whole.
                given["pd_state_dir"] = hostvars[deployment].get("pd_state_dir")
            found += wrong.take(lambda name=name, given=given: [instance_from_variables(name, given)], [])
        wrong.refuse()
        return [instance.as_dict() for instance in check_deployment(deployment, found)]
    except PdopsError as error:
        if errors == "return":
            return str(error)
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"instances": instances}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""An inventory of a lab, whatever its shape: `ansible-playbook -i FOLDER/inventory.json`; several -i make several deployments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def of_lab(lab: Mapping[str, Any]) -> dict[str, Any]:
    """Of the content of lab.json. Machines are reached by the lab's own connection, which can be cut."""
    name = str(lab["name"])
    hosts: dict[str, dict[str, Any]] = {role: {} for role in ("prefill", "decode", "router")}
    python = "{{ ansible_playbook_python }}"
    stores = {told["state_dir"] for told in lab["instances"].values()}
    for instance, told in lab["instances"].items():
        hosts[told["role"]][instance] = {
            "ansible_connection": "pdops_lab",
            "ansible_python_interpreter": python,
            "pdops_lab_cut": lab["cut"][told["machine"]],
            "pd_deployment": name,
            "pd_machine": told["machine"],
            "pd_state_dir": told["state_dir"],
            "pd_service_manager": "supervisor",
            "pd_supervisor_config": lab["supervisor_config"],
            "pd_unit": told["unit"],
            "pd_serve_script": told["serve_script"],
            "pd_url": told["url"],
            "pd_load_timeout_s": lab["load_timeout_s"],
            "pd_drain_s": 10,
            **({"pd_bootstrap_port": told["bootstrap_port"]} if told["role"] == "prefill" else {}),
            **({"pd_metrics_url": told["metrics_url"]} if told["role"] == "router" else {}),
        }
    lead = {
        "ansible_connection": "local",
        "ansible_python_interpreter": python,
        "pd_proxy_url": lab.get("proxy", {}).get("url", ""),
        "pd_report_dir": f"{lab['dir']}/reports",
        "pd_evidence_dir": f"{lab['dir']}/evidence",
        # What leads a change looks here too; without it a lab's changes would be kept in the machine's own store.
        **({"pd_state_dir": stores.pop()} if len(stores) == 1 else {}),
    }
    roles = {role: {"hosts": members} for role, members in hosts.items()}
    return {
        "all": {
            "children": {
                "pd_deployments": {"hosts": {name: lead}},
                "instances": {"children": roles},
                f"{name}_instances": {"hosts": {instance: {} for instance in lab["instances"]}},
            }
        }
    }

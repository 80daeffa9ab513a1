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
            # By another variable, as an operator's ProxyJump often is: what a rescue keeps of a result must not need it.
            "pdops_lab_cut": "{{ lab_cut }}",
            "lab_cut": lab["cut"][told["machine"]],
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
            "pd_python": lab["python"],
            "pd_serve_root": f"{lab['dir']}/root",
            "pd_intended_dir": f"{lab['dir']}/intended",
            "pd_gpu_arch": 120,
            "pd_kernel_checks": ["import", "plan"],
            **({"pd_bootstrap_port": told["bootstrap_port"]} if told["role"] == "prefill" else {}),
            **({"pd_metrics_url": told["metrics_url"]} if told["role"] == "router" else {}),
        }
    engine = {
        "pd_engine_module": "lab.engine",
        "pd_model_path": "/models/DeepSeek-V4-Flash",
        "pd_pair_arguments": {
            "disaggregation-transfer-backend": "nixl",
            "served-model-name": lab["model"],
            "tp-size": lab["tensor_parallel"],
            "trust-remote-code": True,
        },
        "pd_pair_knobs": {"SGLANG_EXPOSE_OWN_ENV_VARS": 1, "UCX_TLS": "rc_x,cuda_copy,cuda_ipc,tcp"},
    }
    described = {
        "prefill": {**engine, "pd_gpus": [0, 1, 2, 3]},
        "decode": {**engine, "pd_gpus": [4, 5, 6, 7], "pd_knobs": {"SGLANG_SM120_MMA_TARGET_CTAS": 512}},
        "router": {
            "pd_arguments": {"cb-timeout-duration-secs": 5, "log-level": "warn", "worker-startup-check-interval": 1}
        },
    }
    lead = {
        "ansible_connection": "local",
        "ansible_python_interpreter": python,
        "pd_proxy_url": lab.get("proxy", {}).get("url", ""),
        "pd_report_dir": f"{lab['dir']}/reports",
        "pd_evidence_dir": f"{lab['dir']}/evidence",
        "pd_intended_dir": f"{lab['dir']}/intended",
        # What leads a change looks here too; without it a lab's changes would be kept in the machine's own store.
        **({"pd_state_dir": stores.pop()} if len(stores) == 1 else {}),
    }
    roles = {role: {"hosts": members, "vars": described.get(role, {})} for role, members in hosts.items()}
    return {
        "all": {
            "children": {
                "pd_deployments": {"hosts": {name: lead}},
                "instances": {"children": roles},
                f"{name}_instances": {"hosts": {instance: {} for instance in lab["instances"]}},
            }
        }
    }

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes PDOPS_MOLECULE_DIR/inventory and PDOPS_MOLECULE_DIR/wheels: site.py [--without-the-knob] FOLDER_OF_WHEELS...

One deployment per machine of PDOPS_MOLECULE_DIR/addresses: gpu12 has dsv4, gpu13 has dsv4b. JSON is YAML, too.
Without the knob of the story it is left to set_knob.yml.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ["PDOPS_MOLECULE_DIR"])
DEPLOYMENTS = {"dsv4": "gpu12", "dsv4b": "gpu13"}
FAULTS = "/etc/pdops-simulation-faults.json"
ENGINE = "pdops_lab-0.0.0"


def engine_wheel(path: Path) -> None:
    """The simulated engine as a wheel; the same bytes whenever it is made."""
    info = f"{ENGINE}.dist-info"
    files = [file for file in sorted((ROOT / "lab").rglob("*")) if file.is_file() and file.parent.name != "__pycache__"]
    members = {str(file.relative_to(ROOT)): file.read_bytes() for file in files}
    members[f"{info}/METADATA"] = (
        b"Metadata-Version: 2.1\nName: pdops-lab\nVersion: 0.0.0\n"
        b"Requires-Dist: aiohttp\nRequires-Dist: setproctitle\nRequires-Dist: PyYAML\n"
    )
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: pdops\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)


def wheels(sources: list[str]) -> None:
    folder = STATE / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in sources:
        for wheel in Path(source).glob("*.whl"):
            shutil.copy(wheel, folder)
    engine_wheel(folder / f"{ENGINE}-py3-none-any.whl")


def instances(deployment: str, with_knob: bool) -> dict[str, dict[str, Any]]:
    """By group: the variables of each instance, with the field's ports and folders."""

    def base(role: str, port: int) -> dict[str, Any]:
        return {
            "pd_unit": f"sglang-{deployment}-{role}",
            "pd_serve_script": f"/root/serve_{deployment}_{role}.sh",
            "pd_url": f"http://127.0.0.1:{port}",
        }

    knobs: dict[str, Any] = {"SGLANG_SM120_FLASHMLA_BACKEND": "triton"}
    if with_knob:
        knobs["SGLANG_SM120_MMA_TARGET_CTAS"] = 512
    return {
        "prefill": {**base("prefill", 30000), "pd_bootstrap_port": 8998, "pd_gpus": [0, 1, 2, 3]},
        "decode": {**base("decode", 30001), "pd_gpus": [4, 5, 6, 7], "pd_knobs": knobs},
        "router": {**base("router", 8000), "pd_metrics_url": "http://127.0.0.1:29000/metrics"},
    }


def inventory(with_knob: bool) -> dict[str, Any]:
    addresses = dict(line.split() for line in (STATE / "addresses").read_text().splitlines())
    deployments = {name: machine for name, machine in DEPLOYMENTS.items() if machine in addresses}
    leads = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    children: dict[str, Any] = {
        "pd_deployments": {
            "hosts": dict.fromkeys(deployments, leads),
            "vars": {"pd_report_dir": str(STATE / "reports"), "pd_evidence_dir": str(STATE / "evidence")},
        },
        "instances": {
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(STATE / "key"),
                "ansible_ssh_common_args": f"-o UserKnownHostsFile={STATE}/known_hosts -o StrictHostKeyChecking=yes",
                "pd_wheels": "../wheels",
                "pd_wheels_install": ["pdops-lab", "sglang-router"],
                "pd_engine_module": "lab.engine",
                "pd_model_path": "/models/DeepSeek-V4-Flash",
                "pd_load_timeout_s": 60,
                "pd_drain_s": 5,
                "pd_longest_generation_s": 20,
                # No GPU and no Triton: a simulated engine imports the kernels and plans with them, and runs none.
                "pd_gpu_arch": 120,
                "pd_kernel_checks": ["import", "plan"],
                "pd_pair_arguments": {
                    "disaggregation-transfer-backend": "nixl",
                    "tp-size": 4,
                    "trust-remote-code": True,
                    "served-model-name": "dsv4",
                },
                "pd_pair_knobs": {
                    "SGLANG_EXPOSE_OWN_ENV_VARS": 1,
                    "PDOPS_LAB_LOAD_S": "0.4",
                    "PDOPS_LAB_HEALTH_S": "0.2",
                    "PDOPS_LAB_FAULTS": FAULTS,
                },
            },
            "children": {role: {"hosts": {}} for role in ("prefill", "decode", "router")},
        },
    }
    for deployment, machine in deployments.items():
        members = children[f"{deployment}_instances"] = {
            "vars": {"pd_deployment": deployment, "pd_machine": machine, "ansible_host": addresses[machine]},
            "hosts": {},
        }
        for role, given in instances(deployment, with_knob).items():
            children["instances"]["children"][role]["hosts"][f"{deployment}-{role}"] = given
            members["hosts"][f"{deployment}-{role}"] = {}
    return {"all": {"children": children}}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--without-the-knob", action="store_true")
    parser.add_argument("wheels", nargs="+")
    given = parser.parse_args()
    wheels(given.wheels)
    folder = STATE / "inventory"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text(json.dumps(inventory(not given.without_the_knob), indent=1) + "\n")


if __name__ == "__main__":
    main()

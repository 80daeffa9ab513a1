# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_info`` takes and answers; ``library/pd_info.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..asked import read_asked
from ..deployment import instance_from_dict
from ..machine_arguments import EVERYONE, MACHINE
from ..observe import observe

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        **MACHINE,
        "verb": {
            "type": "str",
            "choices": [
                "restore",
                "set",
                "revert",
                "restart",
                "verify",
                "recover",
                "rollback",
                "deploy",
                "kernels",
            ],
            "default": "verify",
        },
        "asked": {"type": "dict", "default": {}},
        **EVERYONE,
    },
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What is on the machine and what the verb would edit; see :func:`..observe.observe`."""
    instances = [instance_from_dict(item) for item in given["instances"]]
    everyone = [instance_from_dict(item) for item in given["all_instances"]] or instances
    asked = read_asked(given["verb"], given["asked"], everyone)
    return {"changed": False, **observe(instances, asked, given["state_dir"])}

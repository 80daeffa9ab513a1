# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_evidence`` takes and answers; ``library/pd_evidence.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..deployment import instance_from_dict
from ..machine_arguments import MACHINE
from ..record.machine import testimony

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        **MACHINE,
    },
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the machine testifies; see :func:`..record.machine.testimony`."""
    here = [instance_from_dict(item) for item in given["instances"]]
    return {"changed": False, **testimony(here, given["state_dir"])}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the module ``pd_journal`` takes and answers; ``library/pd_journal.py`` says it in words."""

from __future__ import annotations

from typing import Any

from ..machine_arguments import MACHINE
from ..record.findings import note
from ..store.store import Store

LINE = ("verb", "by", "deployment", "actor", "instance", "found", "said", "entry")

#: What ``AnsibleModule`` takes.
INTERFACE: dict[str, Any] = {
    "argument_spec": {
        **MACHINE,
        "verb": {"type": "str", "choices": ["found", "over"], "required": True},
        "by": {"type": "str", "required": True},
        "deployment": {"type": "str", "required": True},
        "actor": {"type": "str", "default": ""},
        "instance": {"type": "str", "default": ""},
        "found": {"type": "str", "default": ""},
        "said": {"type": "str", "default": ""},
        "entry": {"type": "str", "default": ""},
    },
    "supports_check_mode": True,
}


def answer(given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Keep a finding, or that it is over, in the journal of the machine."""
    line = {name: given[name] for name in LINE}
    return {"changed": False, "noted": note(Store(given["state_dir"]), line, dry=check_mode)}

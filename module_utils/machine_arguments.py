# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The options that several modules share, as ``argument_spec`` takes them; their words are in
``doc_fragments/machine.py``."""

from __future__ import annotations

from typing import Any

STATE: dict[str, dict[str, Any]] = {"state_dir": {"type": "path", "default": "/var/lib/pdops"}}
MACHINE: dict[str, dict[str, Any]] = {
    "instances": {"type": "list", "elements": "dict", "required": True},
    **STATE,
}
#: For modules that take words which name instances of the whole deployment (fragment ``everyone``).
EVERYONE: dict[str, dict[str, Any]] = {"all_instances": {"type": "list", "elements": "dict", "default": []}}

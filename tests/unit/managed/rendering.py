# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Renders the templates as the action plugin does (plain Jinja with the same settings), for tests that need it thousands of times."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import fill
from ansible_collections.pdops.sglang.plugins.module_utils.managed.launch_line import Launch, launch_of

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"

PAIR = {
    "pd_deployment": "dsv4",
    "pd_venv": "/opt/sglang/venv",
    "pd_model_path": "/models/DeepSeek-V4-Flash",
    "pd_pair_arguments": {
        "disaggregation-transfer-backend": "nixl",
        "tp-size": 4,
        "page-size": 64,
        "kv-cache-dtype": "fp8_e4m3",
        "trust-remote-code": True,
    },
}
PREFILL = {**PAIR, "pd_gpus": "0,1,2,3", "pd_numa_node": 0, "pd_arguments": {"chunked-prefill-size": 8192}}
DECODE = {**PAIR, "pd_gpus": [4, 5, 6, 7], "pd_numa_node": 1, "pd_arguments": {"max-running-requests": 96}}
ROUTER = {"pd_deployment": "dsv4", "pd_venv": "/opt/sglang/venv"}
VARIABLES: dict[str, dict[str, Any]] = {"prefill": PREFILL, "decode": DECODE, "router": ROUTER}

INSTANCES = [
    Instance(f"dsv4-{role}", role, f"sglang-{role}", f"/srv/serve_{role}.sh", f"http://127.0.0.1:{port}", "gpu1")
    for role, port in (("prefill", 30000), ("decode", 30001), ("router", 8000))
]
BY_ROLE = {item.role: item for item in INSTANCES}


@lru_cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    return environment


def base_of(launch: Launch) -> bytes:
    template = _environment().get_template(f"serve_{launch.role}.sh.j2")
    return os.fsencode(template.render(pd_launch=launch.as_dict()))


def launch(role: str, peers: Sequence[Instance] = INSTANCES, **changed: Any) -> Launch:
    """A launch of the example deployment with some variables changed."""
    return launch_of(BY_ROLE[role], peers, {**VARIABLES[role], **changed})


def rendered(role: str, knobs: Mapping[str, str] | None = None, **changed: Any) -> bytes:
    """The whole script; ``knobs`` instead of those of the variables."""
    made = launch(role, **changed)
    return fill(base_of(made), made.knobs if knobs is None else knobs)

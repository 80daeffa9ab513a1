# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The names of inventory variables: those that begin with ``pd_`` are pdops' own, and one that is unknown is a slip of the pen."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ..managed.launch_line import VARIABLES as LAUNCH
from .settings import VARIABLES as SERVING

#: All that an inventory may give.
KNOWN = frozenset(
    (
        *LAUNCH,
        *SERVING,
        # what an instance is
        "pd_role", "pd_unit", "pd_serve_script", "pd_url", "pd_machine", "pd_service_manager", "pd_supervisor_config",
        "pd_bootstrap_port", "pd_metrics_url", "pd_api_key_file", "pd_load_timeout_s", "pd_drain_s", "pd_state_dir",
        # what a verb does
        "pd_overlap", "pd_probe", "pd_proxy_url", "pd_proxy_api_key_file", "pd_require_gates", "pd_reconnect_s",
        "pd_prefill_down_s", "pd_may_differ", "pd_report", "pd_report_dir", "pd_evidence_dir", "pd_intended_dir",
        # kernels
        "pd_gpu_arch", "pd_kernel_wheel", "pd_kernel_python", "pd_kernel_sha256", "pd_kernel_keep", "pd_kernel_heads",
        "pd_kernel_knobs", "pd_kernel_checks", "pd_kernel_sources", "pd_kernel_bench_band",
    )
)  # fmt: skip


def unknown_names(who: str, names: Iterable[str]) -> list[str]:
    """One sentence per name that begins with ``pd_`` and that pdops does not read."""
    told = []
    for name in sorted(name for name in names if name.startswith("pd_") and name not in KNOWN):
        close = difflib.get_close_matches(name, sorted(KNOWN), n=1, cutoff=0.7)
        hint = (
            f"did you mean {close[0]}?" if close else "names that begin with pd_ are pdops' own; name yours otherwise."
        )
        told.append(f"{who}: {name} is unknown; {hint}")
    return told


def lacks_python(who: str, variables: Mapping[str, Any]) -> list[str]:
    """One sentence when nothing says with which Python the instance runs: whatever ``python`` the unit's PATH has would be taken."""
    names = ("pd_wheels", "pd_venv", "pd_python")
    if any(variables.get(name) for name in names):
        return []
    return [
        f"{who}: none of {', '.join(names)} is given; pd_wheels makes a virtual environment, the others name one or its python."
    ]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a plan is made of in tests: an instance as a machine reports it, and an edit that it offers."""

from __future__ import annotations

from typing import Any

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


def report(role: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "edits": [], "stale": [], "intended": {}, "running": {}, **more}


def edit(instance: str = "decode", knob: str = KNOB, after: str | None = "512", **more: Any) -> dict[str, Any]:
    return {
        "instance": instance,
        "path": f"/root/{instance}.sh",
        "knob": knob,
        "before": None,
        "after": after,
        "source": {"kind": "backup", "told": "backup serve.sh.pretgt_revert_2025.bak"},
        "changed_lines": [{"sign": "+", "line": 12, "text": f"export {knob}={after}"}],
        "sha256_before": "a" * 64,
        "sha256_after": "b" * 64,
        "refused": None,
        "in_effect": False,
        "warnings": [],
        **more,
    }

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record as plain data, for results of a module and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .folder import Kept
from .standing import Knob, measured_verdict
from .text import debt_line, elsewhere_lines, figure


def entry_data(kept: Kept) -> dict[str, Any]:
    return {**kept.data, "id": kept.id, "file": kept.file}


def knob_data(knob: Knob, today: str) -> dict[str, Any]:
    return {
        "knob": knob.name,
        "deployed": dict(sorted(knob.deployed.items())),
        "value": knob.value,
        "verdict": knob.verdict,
        "cause": knob.cause,
        "verdicts": [
            {"value": value, "verdict": one.verdict, "cause": one.cause}
            for value, one in knob.standings.items()
            if one.verdict != "unknown"
        ],
        "measured": [
            {"id": kept.id, "said": figure(kept.data), "verdict": measured_verdict(kept.data)}
            for kept in knob.measured(knob.value)
        ],
        "elsewhere": [{"id": entry, "said": said} for said, entry in elsewhere_lines(knob)],
        "unverified_since": knob.unverified_since,
        "unverified_why": knob.unverified_why,
        "debt": "; ".join(debt_line(knob, debt, today) for debt in knob.debts),
    }


def merged_fingerprint(machines: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """One fingerprint of several machines: what they have alike once, what differs with the machine's name."""
    told: dict[str, dict[str, str]] = {}
    for machine in machines:
        name = str(machine.get("change_machine") or machine.get("machine") or "machine")
        for part, value in (machine.get("fingerprint") or {}).items():
            told.setdefault(part, {})[name] = str(value)
    merged = {}
    for part, values in sorted(told.items()):
        if len(set(values.values())) == 1:
            merged[part] = next(iter(values.values()))
        else:
            merged[part] = "; ".join(f"{name}: {value}" for name, value in sorted(values.items()))
    return merged

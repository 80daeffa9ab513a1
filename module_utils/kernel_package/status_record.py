# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the plugin of a kernel package wrote of itself, one JSON file for each process that loaded it.

SGLang logs and swallows whatever goes wrong in a plugin and serves its own kernel then (reference/kernels.md 5), so only the
record tells which one serves. States: ``loading``, ``hooked``, ``serving``, ``stock``, ``failed``, ``ended``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..plain_text import plain
from ..processes import age_s, read_process

_MOST_BYTES = 1 << 20
#: A record may be as much older than its process as clocks and rounding allow; of another process with that pid it is older.
_CLOCKS_S = 2.0
_MOST_PLANS = 8


@dataclass(frozen=True)
class Record:
    """Of one process. ``fallbacks`` counts, by reason, the calls that the stock kernel had to serve."""

    pid: int
    state: str
    package: str
    error: str
    fallbacks: Mapping[str, int]
    plans: tuple[Mapping[str, Any], ...]
    policy: str
    machine: str
    simulation: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "state": self.state,
            "package": self.package,
            "error": self.error,
            "fallbacks": dict(self.fallbacks),
            "plans": [dict(plan) for plan in self.plans],
            "policy": self.policy,
            "machine": self.machine,
            "simulation": self.simulation,
        }

    def told(self) -> str:
        """Half a sentence: what serves, by which plans, and what it had to leave."""
        words = f"{self.package} {self.state}"
        if self.simulation:
            words += " (simulation)"
        if self.policy:
            words += f", policy {self.policy}"
        if self.plans:
            words += ": " + ", ".join(list(dict.fromkeys(_plan_told(plan) for plan in self.plans))[:3])
        total = sum(self.fallbacks.values())
        if total:
            reasons = ", ".join(
                f"{count} x {reason.rstrip('.')}" for reason, count in sorted(self.fallbacks.items())[:3]
            )
            words += f"; {total} fallbacks ({reasons})"
        elif self.state in ("serving", "hooked"):
            words += "; no fallback"
        return words


def _plan_told(plan: Mapping[str, Any]) -> str:
    return f"{plan.get('rows')} rows x {plan.get('heads')} heads in {plan.get('splits')} splits"


def read_records(folder: str, pids: Iterable[int]) -> dict[int, Record]:
    """The records of these processes, by pid; one that is older than its process is another's and left out.

    :raises PermissionError: the folder is there and cannot be looked into
    """
    found: dict[int, Record] = {}
    try:
        names = set(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for pid in pids:
        if f"{pid}.json" not in names:
            continue
        record = _read(os.path.join(folder, f"{pid}.json"), pid)
        if record is not None:
            found[pid] = record
    return found


def _read(path: str, pid: int) -> Optional[Record]:
    process = read_process(pid)
    try:
        with open(path, "rb") as source:
            told = json.loads(source.read(_MOST_BYTES))
        written = float(told["time"])
        if process is None or written < time.time() - age_s(process.started_ticks) - _CLOCKS_S:
            return None
        knobs = told.get("knobs") or {}
        return Record(
            pid=pid,
            state=plain(str(told["state"])),
            package=plain(str(told.get("package", ""))),
            error=plain(str(told.get("error", "")))[:500],
            fallbacks={plain(str(name))[:120]: int(count) for name, count in (told.get("fallbacks") or {}).items()},
            plans=tuple(dict(plan) for plan in (told.get("plans") or ())[:_MOST_PLANS]),
            policy=plain(str(knobs.get("policy", ""))),
            machine=plain(str(told.get("machine", ""))),
            simulation=bool(told.get("simulation")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None

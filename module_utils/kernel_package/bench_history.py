# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What kernels took on one machine, kept from deploy to deploy, and a new package judged by it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..store.atomic import append_line

_FILE = "kernel-bench.jsonl"


@dataclass(frozen=True)
class Verdict:
    good: bool
    said: str


def entry_of(report: Mapping[str, Any], package: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the history, of a report of ``pdops_kernels.bench``: median microseconds of policy auto by shape."""
    return {
        "at": time.time(),
        "device": f"{report['device']} sm_{report['arch']}",
        "triton": report["triton"],
        "package": f"{package['version']}-{str(package['sha256'])[:8]}",
        "us": {case["bucket"]: round(case["policies"]["auto"]["median_us"], 2) for case in report["cases"]},
    }


def read(state_dir: str, device: str) -> list[dict[str, Any]]:
    """The entries of one device, the oldest first; lines that cannot be read are passed over."""
    found = []
    try:
        with open(os.path.join(state_dir, _FILE), encoding="utf-8") as source:
            lines = source.read().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["device"] == device and isinstance(entry["us"], dict):
                found.append(entry)
        except (ValueError, KeyError, TypeError):
            continue
    return found


def judge(entry: Mapping[str, Any], former: Sequence[Mapping[str, Any]], band: float) -> Verdict:
    """Each shape against its best former time; shapes that were never measured are not judged."""
    worst, told = 0.0, ""
    for shape, took in entry["us"].items():
        best = min((float(old["us"][shape]) for old in former if shape in old["us"]), default=0.0)
        if best > 0 and took / best > worst:
            worst, told = took / best, f"{shape} takes {took:g} us, and took {best:g} us at its best here"
    if not told:
        return Verdict(True, f"{len(entry['us'])} shapes measured, the first on this machine's {entry['device']}")
    if worst > band:
        return Verdict(
            False,
            f"{told}: {worst:.2f} times that, and {band:g} is allowed (pd_kernel_bench_band); if the GPU was busy, run again when it is not",
        )
    return Verdict(True, f"{len(entry['us'])} shapes within {band:g} times their best here; the worst: {told}")


def append(state_dir: str, entry: Mapping[str, Any]) -> None:
    os.makedirs(state_dir, mode=0o700, exist_ok=True)
    append_line(os.path.join(state_dir, _FILE), json.dumps(entry, sort_keys=True).encode())

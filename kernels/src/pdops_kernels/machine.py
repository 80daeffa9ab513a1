# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a plan must know of a GPU. No torch, no triton."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Per-SM resources of an architecture (CUDA programming guide, compute capabilities).

    smem_per_cta is the most dynamic shared memory one CTA may opt in to, in bytes; every resident CTA
    costs smem_reserved more.
    """

    smem_per_sm: int
    smem_per_cta: int
    threads_per_sm: int
    ctas_per_sm: int
    regs_per_sm: int = 65536
    smem_reserved: int = 1024


KB = 1024
MAX_SMS = 4096
LIMITS: Mapping[int, Limits] = {
    80: Limits(164 * KB, 163 * KB, 2048, 32),
    86: Limits(100 * KB, 99 * KB, 1536, 16),
    89: Limits(100 * KB, 99 * KB, 1536, 24),
    90: Limits(228 * KB, 227 * KB, 2048, 32),
    100: Limits(228 * KB, 227 * KB, 2048, 32),
    120: Limits(100 * KB, 99 * KB, 1536, 24),
}


def occupancy(arch: int, *, regs: int, smem: int, warps: int) -> int:
    """CTAs of one kernel that fit on one SM at once, 0 if even one does not fit.

    regs per thread, smem in bytes per CTA. Registers are given out per warp in units of 256.
    Raises KeyError for an architecture without an entry in LIMITS.
    """
    limits = LIMITS[arch]
    if smem > limits.smem_per_cta:
        return 0
    regs_per_warp = -(-regs * 32 // 256) * 256
    by_regs = limits.regs_per_sm // (regs_per_warp * warps) if regs else limits.ctas_per_sm
    by_smem = limits.smem_per_sm // (smem + limits.smem_reserved)
    by_threads = limits.threads_per_sm // (warps * 32)
    return min(by_regs, by_smem, by_threads, limits.ctas_per_sm)


@dataclass(frozen=True)
class Machine:
    """One GPU and the constants of the cost model, times in microseconds, rates in GB/s.

    The time constants are guesses, taken from the region that agrees with the one A/B of the knob that is known
    (512 over 256: clearly faster at 64 rows, a little at 96, equal at 1), until `python -m pdops_kernels.calibrate`
    has fitted them on the host; `calibrated` says which. Only their ratios decide a split count.
    """

    name: str
    arch: int
    sms: int
    dram_gbs: float
    l2_gbs: float
    prologue_us: float = 1.0  # launch tail, Q load, first dependent index and KV loads of a CTA
    tile_us: float = 4.0  # one CTA alone on its SM, per 32 tokens of one head block
    shared_issue: float = 1.0  # 1: two CTAs on one SM take turns; towards 0: they overlap fully
    merge_launch_us: float = 1.5
    merge_step_us: float = 0.05  # per split, serial part of the merge
    calibrated: bool = False

    def __post_init__(self) -> None:
        """ValueError for figures that no machine can have: with them the model would choose anything, or never end."""
        if self.arch not in LIMITS:
            raise ValueError(
                f"No limits are known for sm_{self.arch}: add it to LIMITS in machine.py (known: {sorted(LIMITS)})."
            )
        if not 1 <= self.sms <= MAX_SMS:
            raise ValueError(f"{self.sms} SMs are not from 1 to {MAX_SMS}.")
        for name in (
            "dram_gbs",
            "l2_gbs",
            "prologue_us",
            "tile_us",
            "shared_issue",
            "merge_launch_us",
            "merge_step_us",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value} of machine {self.name} is not a positive number.")

    def with_sms(self, sms: int) -> Machine:
        """The same machine with another number of SMs (MIG slices, sister cards)."""
        return replace(self, sms=sms, name=f"{self.name}@{sms}")


# SM counts and bandwidths are datasheet figures, not measurements.
MACHINES: Mapping[str, Machine] = {
    "rtx-pro-6000": Machine("rtx-pro-6000", 120, 188, 1792.0, 6000.0),
    "rtx-5090": Machine("rtx-5090", 120, 170, 1792.0, 6000.0),
    "h100": Machine("h100", 90, 132, 3350.0, 5500.0),
    "h200": Machine("h200", 90, 132, 4800.0, 5500.0),
}
SMS_TO_NAME = {188: "rtx-pro-6000", 170: "rtx-5090", 132: "h100"}


def machine_for(arch: int, sms: int) -> Machine:
    """A known machine of this architecture and SM count, or the nearest known one with its SMs changed."""
    for machine in MACHINES.values():
        if machine.arch == arch and machine.sms == sms:
            return machine
    base = next((m for m in MACHINES.values() if m.arch == arch), MACHINES["rtx-pro-6000"])
    return replace(base, arch=arch, sms=sms, name=f"sm_{arch}@{sms}")

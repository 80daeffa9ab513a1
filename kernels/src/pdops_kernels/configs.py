# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The served kernel configurations and the resources each may use. No torch, no triton.

The budgets are the most that the compile gate measured on the Triton versions of BUDGET_TRITON, so they also give the
occupancy that the planner counts with. The gate fails when a kernel needs more, spills, or no longer fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .machine import KB, occupancy

BUDGET_TRITON = ("3.7.1", "3.8.0", "3.9.0")


@dataclass(frozen=True)
class Kind:
    """A KV format. dim: width of the output row; bytes_per_token: KV read per token and KV head."""

    name: str
    family: str  # "mla" or "gqa"
    dim: int
    rope: int
    bytes_per_token: int
    packed: bool = False


KINDS: Mapping[str, Kind] = {
    k.name: k
    for k in (
        Kind("mla_packed", "mla", 512, 0, 584, packed=True),  # DeepSeek-V4: 448 e4m3 + 64 bf16 + scales
        Kind("mla_576", "mla", 512, 64, 1152),  # DeepSeek-V3 latent + rope, 16 bit
        Kind("mla_512", "mla", 512, 0, 1024),  # 16 bit, rope inside the 512
        Kind("gqa_128", "gqa", 128, 0, 512),
        Kind("gqa_64", "gqa", 64, 0, 256),
    )
}


@dataclass(frozen=True)
class Budget:
    """Most registers per thread and shared memory (bytes per CTA) that a kernel may use."""

    regs: int
    smem: int


@dataclass(frozen=True)
class Config:
    """How one kind is tiled. Never depends on rows: policy `leaf` needs the same arithmetic at every batch size."""

    kind: str
    block_h: int
    block_n: int
    warps: int
    stages: int
    budgets: Mapping[int, Budget]

    @property
    def name(self) -> str:
        return f"{self.kind}/h{self.block_h}n{self.block_n}w{self.warps}s{self.stages}"

    def occupancy(self, arch: int) -> int:
        """CTAs per SM by the budget; KeyError where the config is not served on that architecture."""
        budget = self.budgets[arch]
        return occupancy(arch, regs=budget.regs, smem=budget.smem, warps=self.warps)


def _on(archs: tuple[int, ...], regs: int, smem_kb: int) -> dict[int, Budget]:
    return {arch: Budget(regs, smem_kb * KB) for arch in archs}


# e4m3 needs sm_89 or newer. Widest head block first: config_for takes the first that the heads fill.
CONFIGS: tuple[Config, ...] = (
    # 32 tokens a tile spill here on Triton 3.8 and 3.9, and not on 3.7.1
    Config("mla_packed", 32, 16, 8, 2, _on((89, 90, 100, 120), 248, 47)),
    Config("mla_packed", 16, 32, 8, 2, _on((89, 90, 100, 120), 224, 39)),
    Config("mla_576", 16, 32, 4, 2, _on((80, 86, 89, 90, 100), 216, 56) | _on((120,), 200, 56)),
    # dense needs up to 204 registers, sparse 156: one budget, because a plan does not know which it will be
    Config("mla_512", 16, 32, 4, 2, _on((80, 86, 89, 90, 100), 216, 50) | _on((120,), 200, 50)),
    Config("gqa_128", 16, 64, 4, 2, _on((80, 86, 89, 90, 100, 120), 96, 39)),
    Config("gqa_64", 16, 64, 4, 2, _on((80, 86, 89, 90, 100, 120), 72, 21)),
)
MERGE_WARPS = 4
MERGE_BUDGETS: Mapping[int, Budget] = _on((80, 86, 89, 90, 100, 120), 40, 1)


def config_for(kind: str, arch: int, group: int) -> Config:
    """The served config of a kind on an architecture for `group` query heads per KV head: the widest head block that
    the heads fill, else the narrowest there is. ValueError names what is known when there is none."""
    fitting = [c for c in CONFIGS if c.kind == kind and arch in c.budgets]
    if not fitting:
        known = sorted({(c.kind, a) for c in CONFIGS for a in c.budgets})
        raise ValueError(
            f"No served config for {kind!r} on sm_{arch}: known are {known}; the README says how to add one."
        )
    return next((c for c in fitting if group % c.block_h == 0), fitting[-1])

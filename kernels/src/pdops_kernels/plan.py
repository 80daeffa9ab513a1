# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The split plan: how many KV splits a decode batch gets. No torch, no triton.

A plan is a pure function of shape, machine and knobs. It never looks at lengths (they live on the device and change
under a captured CUDA graph); the kernel deals each row's real tiles to the planned splits itself (split_range).

Policies
  target  splits = ceil(target CTAs / (rows x head blocks)), at least 1, at most the number of KV tiles
  fixed   the given number of splits, at most the number of KV tiles
  leaf    every `leaf_tokens` tokens are one split: depends on the row alone, so results are bit-equal for any batch
  auto    the split count with the least modelled time on this machine; a measured table entry wins over the model
"""

from __future__ import annotations

import heapq
import json
import math
import operator
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

from .configs import KINDS, Config, config_for
from .knobs import KnobError, Knobs
from .machine import Machine

MAX_AUTO_SPLITS = 64
MAX_ROWS = 65535
MAX_GRID_Y = 65535


@dataclass(frozen=True)
class Shape:
    """What a capture bucket is: query rows (sequences x rows per sequence), query heads per rank, KV heads per rank,
    and the most tokens a row can have in each KV stream (index list width, or context limit)."""

    kind: str
    rows: int
    heads: int
    caps: tuple[int, ...]
    kv_heads: int = 1

    def check(self) -> None:
        """Raise ValueError with one sentence when no kernel can serve this shape."""
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is unknown: use one of {', '.join(KINDS)}.")
        if not 1 <= self.rows <= MAX_ROWS:
            raise ValueError(f"rows={self.rows} is not from 1 to {MAX_ROWS}.")
        if self.heads < 1 or self.kv_heads < 1 or self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} is not a positive multiple of kv_heads={self.kv_heads}.")
        if KINDS[self.kind].family == "mla" and self.kv_heads != 1:
            raise ValueError(f"kv_heads={self.kv_heads}: MLA has one latent KV head.")
        most = 2 if KINDS[self.kind].family == "mla" else 1
        if not 1 <= len(self.caps) <= most or min(self.caps) < 1:
            raise ValueError(f"caps={self.caps}: kind {self.kind} takes 1 to {most} streams of at least one token.")

    @property
    def key(self) -> str:
        """The name of this bucket in a calibration table."""
        caps = "+".join(map(str, self.caps))
        return f"{self.kind}/rows{self.rows}/heads{self.heads}/kv{self.kv_heads}/{caps}"


@dataclass(frozen=True)
class Plan:
    """A static schedule. grid = (rows x blocks_per_row, splits); tiles_per_split 0 means each row's tiles are dealt
    evenly over its splits. direct: one split, no merge. Workspace sizes are element counts."""

    shape: Shape
    config: Config
    arch: int
    sms: int
    occupancy: int
    policy: str
    blocks_per_row: int
    tiles: int
    splits: int
    tiles_per_split: int
    direct: bool
    modelled_us: float
    reason: str

    @property
    def grid(self) -> tuple[int, int]:
        return (self.shape.rows * self.blocks_per_row, self.splits)

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def waves(self) -> float:
        """CTAs over the CTAs that the machine holds at once."""
        return self.ctas / (self.sms * self.occupancy)

    @property
    def fill(self) -> float:
        """Share of the CTA slots of all (started) waves that have a CTA."""
        return self.waves / math.ceil(self.waves)

    @property
    def partial_out_numel(self) -> int:
        """float32 elements of the partial outputs; 0 when direct."""
        return 0 if self.direct else self.partial_lse_numel * KINDS[self.shape.kind].dim

    @property
    def partial_lse_numel(self) -> int:
        return 0 if self.direct else self.shape.rows * self.shape.heads * self.splits

    def summary(self) -> dict[str, object]:
        """Everything a log line or a report needs, as plain JSON values."""
        return {
            **asdict(self.shape), "bucket": self.shape.key, "config": self.config.name, "arch": self.arch,
            "sms": self.sms, "occupancy": self.occupancy, "policy": self.policy, "tiles": self.tiles,
            "splits": self.splits, "tiles_per_split": self.tiles_per_split, "direct": self.direct,
            "grid": list(self.grid), "ctas": self.ctas, "waves": round(self.waves, 3), "fill": round(self.fill, 3),
            "workspace_bytes": 4 * (self.partial_out_numel + self.partial_lse_numel),
            "modelled_us": round(self.modelled_us, 2), "reason": self.reason,
        }  # fmt: skip


def split_range(split: int, total: int, splits: int, tiles_per_split: int) -> tuple[int, int]:
    """Tiles [lo, hi) of `split` in a row that really has `total` tiles; the kernels do the same on the device."""
    if tiles_per_split > 0:
        lo = min(split * tiles_per_split, total)
        return lo, min(lo + tiles_per_split, total)
    return split * total // splits, (split + 1) * total // splits


def model_us(machine: Machine, shape: Shape, config: Config, splits: int) -> float:
    """Modelled time of split kernel and merge in microseconds, every row at its cap. Not a measurement.

    CTAs start in grid order (split by split) on the first free slot, of which there are SMs x occupancy; a CTA takes
    prologue + its tiles, and CTAs that share an SM take turns by `shared_issue`. The whole cannot be faster than its
    KV bytes from DRAM. The merge reads the partials back from L2 (their store hides behind the CTAs).
    """
    kind = KINDS[shape.kind]
    blocks = _blocks_per_row(shape, config)
    tiles = _tiles(shape, config)
    base = shape.rows * blocks
    occ = config.occupancy(machine.arch)
    on_sm = min(occ, math.ceil(base * splits / machine.sms))
    tile_us = machine.tile_us * config.block_n / 32 * (config.block_h / 16) * kind.dim / 512
    tile_us *= max(1.0, on_sm * machine.shared_issue)
    free = [(0.0, machine.sms * occ)]  # (time, slots that become free then)
    for split in range(splits):
        lo, hi = split_range(split, tiles, splits, 0)
        waiting = base
        while waiting:
            start, slots = heapq.heappop(free)
            taken = min(slots, waiting)
            waiting -= taken
            if taken < slots:
                heapq.heappush(free, (start, slots - taken))
            heapq.heappush(free, (start + machine.prologue_us + (hi - lo) * tile_us, taken))
    # head blocks of one row read the same KV: from DRAM it comes once
    kv_bytes = shape.rows * shape.kv_heads * sum(shape.caps) * kind.bytes_per_token
    total = max(max(time for time, _ in free), kv_bytes / (machine.dram_gbs * 1e3))
    if splits > 1:
        partial_bytes = 4 * shape.rows * shape.heads * splits * kind.dim
        total += machine.merge_launch_us + max(partial_bytes / (machine.l2_gbs * 1e3), splits * machine.merge_step_us)
    return total


def _blocks_per_row(shape: Shape, config: Config) -> int:
    return shape.kv_heads * math.ceil(shape.heads // shape.kv_heads / config.block_h)


def _tiles(shape: Shape, config: Config) -> int:
    return sum(math.ceil(cap / config.block_n) for cap in shape.caps)


@dataclass(frozen=True)
class Table:
    """What calibrate measured on one host: model constants, and the best split count of each captured bucket."""

    arch: int
    sms: int
    constants: Mapping[str, float] = field(default_factory=dict)
    buckets: Mapping[str, int] = field(default_factory=dict)

    def apply(self, machine: Machine) -> Machine:
        """The machine with the fitted constants. KnobError when the table is of another machine."""
        if (machine.arch, machine.sms) != (self.arch, self.sms):
            raise KnobError(
                f"The calibration table is of sm_{self.arch} with {self.sms} SMs, this is sm_{machine.arch} with "
                f"{machine.sms}: calibrate on this host or unset the table."
            )
        fitted = {name: float(value) for name, value in self.constants.items()}
        return replace(machine, calibrated=True, **fitted)  # type: ignore[arg-type]


FITTED = ("prologue_us", "tile_us", "shared_issue", "merge_launch_us", "merge_step_us", "dram_gbs", "l2_gbs")


def read_table(path: str) -> Table:
    """Read a table that calibrate wrote. KnobError with one sentence when it cannot be used."""
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
        constants = {str(k): float(v) for k, v in data["constants"].items()}
        buckets = {str(k): operator.index(v) for k, v in data["buckets"].items()}
        table = Table(operator.index(data["arch"]), operator.index(data["sms"]), constants, buckets)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KnobError(
            f"The calibration table {path} cannot be read ({error}): write it anew with calibrate."
        ) from error
    if set(constants) - set(FITTED) or any(
        not (math.isfinite(v) and v > 0) for v in [*constants.values(), *buckets.values()]
    ):
        raise KnobError(
            f"The calibration table {path} has unknown or non-positive entries: write it anew with calibrate."
        )
    return table


@lru_cache(maxsize=4096)
def _cached(shape: Shape, machine: Machine, knobs: Knobs, measured: int | None) -> Plan:
    shape.check()
    config = config_for(shape.kind, machine.arch, shape.heads // shape.kv_heads)
    blocks, tiles = _blocks_per_row(shape, config), _tiles(shape, config)
    base = shape.rows * blocks
    slots = machine.sms * config.occupancy(machine.arch)
    tiles_per_split = 0
    if knobs.policy == "target":
        wanted = math.ceil(knobs.target_ctas / base)
        splits = min(max(wanted, 1), tiles)
        reason = f"target {knobs.target_ctas} CTAs / {base} row blocks = {knobs.target_ctas / base:.2f}, rounded up to {wanted}"
        if splits < wanted:
            reason += f", cut to the {tiles} KV tiles there are"
    elif knobs.policy == "fixed":
        splits = min(knobs.fixed_splits, tiles)
        reason = f"fixed at {knobs.fixed_splits}" + (
            f", cut to the {tiles} KV tiles" if splits < knobs.fixed_splits else ""
        )
    elif knobs.policy == "leaf":
        tiles_per_split = max(knobs.leaf_tokens // config.block_n, 1)
        splits = math.ceil(tiles / tiles_per_split)
        reason = (
            f"one split per {tiles_per_split * config.block_n} tokens whatever the batch, merged in order: bit-equal"
        )
    elif measured is not None:
        splits = min(measured, tiles)
        reason = f"the calibration table measured {measured} as the best for this bucket"
    else:
        times = {s: model_us(machine, shape, config, s) for s in range(1, min(tiles, MAX_AUTO_SPLITS) + 1)}
        splits = min(times, key=lambda s: (times[s], s))
        what = "fitted" if machine.calibrated else "uncalibrated"
        reason = f"least modelled time of {len(times)} split counts ({what} model)"
        others = sorted(times, key=lambda s: (times[s], s))[1:2]
        if others:
            reason += f"; next is {others[0]} at {times[others[0]] / times[splits] - 1:+.1%} modelled"
    if splits > MAX_GRID_Y:
        raise ValueError(
            f"{shape.key} needs {splits} splits, a grid takes {MAX_GRID_Y}: use larger leaves or fewer tokens."
        )
    if tiles_per_split == 0 and splits * tiles >= 2**31:  # split_range on the device counts in 32 bits
        raise ValueError(f"{shape.key}: {splits} splits of {tiles} KV tiles overflow 32 bits: ask for fewer splits.")
    waves = base * splits / slots
    reason += f"; {base} x {splits} = {base * splits} CTAs on {slots} slots = {waves:.2f} waves, {waves / math.ceil(waves):.0%} filled"
    return Plan(
        shape, config, machine.arch, machine.sms, config.occupancy(machine.arch), knobs.policy, blocks, tiles, splits,
        tiles_per_split, splits == 1 and knobs.policy != "leaf", model_us(machine, shape, config, splits), reason,
    )  # fmt: skip


def make_plan(shape: Shape, machine: Machine, knobs: Knobs, table: Table | None = None) -> Plan:
    """The plan of one capture bucket. Same arguments, same plan. ValueError for a shape without a kernel,
    KnobError for a table of another machine."""
    if table is not None:
        machine = table.apply(machine)
    measured = table.buckets.get(shape.key) if table is not None and knobs.policy == "auto" else None
    return _cached(shape, machine, knobs, measured)


if __name__ == "__main__":
    from .plan_report import main

    sys.exit(main())

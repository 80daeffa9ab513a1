# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Timing decode launches on a GPU, and the arithmetic on what was measured.

A timing is the median over CUDA-graph replays; one graph holds the launch once per rotated input, so that KV comes
from DRAM and not from L2, and launch overhead of the host does not count.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .machine import Machine
from .plan import Shape


@dataclass(frozen=True)
class Timing:
    """Microseconds per launch: median, quartiles, and how many replays."""

    median_us: float
    low_us: float
    high_us: float
    replays: int


def summarize(samples_us: Sequence[float]) -> Timing:
    """Median and quartiles of at least two samples."""
    low, median, high = statistics.quantiles(samples_us, n=4)
    return Timing(median, low, high, len(samples_us))


def time_launches(launches: Sequence[Callable[[], Any]], replays: int = 30) -> Timing:
    """Capture all `launches` (one per rotated input) in one graph and replay it. Needs CUDA."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for launch in launches:  # compile and warm up outside the capture
            launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    samples = []
    for _ in range(replays + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1e3 / len(launches))
    return summarize(samples[3:])


def copy_gbs(megabytes: int = 1024) -> float:
    """Measured device bandwidth in GB/s: bytes read plus bytes written of a large copy. Needs CUDA."""
    import torch

    source = torch.empty(megabytes * 2**20, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    timing = time_launches([lambda: target.copy_(source)], 10)
    return 2 * source.numel() / timing.median_us / 1e3


def split_counts(tiles: int, most: int = 64) -> list[int]:
    """Split counts worth measuring: all up to 24, then every fourth up to `most`."""
    top = min(tiles, most)
    return [s for s in range(1, top + 1) if s <= 24 or s % 4 == 0]


def regret(times_us: Mapping[int, float], splits: int) -> float:
    """How much slower `splits` is than the measured best, as a share. An unmeasured count is judged by the two
    measured neighbors, linearly."""
    best = min(times_us.values())
    if splits in times_us:
        return times_us[splits] / best - 1
    below = max((s for s in times_us if s < splits), default=min(times_us))
    above = min((s for s in times_us if s > splits), default=max(times_us))
    if below == above or above < below:
        return times_us[below] / best - 1
    part = (splits - below) / (above - below)
    return (times_us[below] * (1 - part) + times_us[above] * part) / best - 1


def regret_summary(regrets: Sequence[float]) -> dict[str, float]:
    """Mean, 95th percentile (nearest rank) and worst."""
    ordered = sorted(regrets)
    rank = max(math.ceil(0.95 * len(ordered)) - 1, 0)
    return {"mean": statistics.fmean(ordered), "p95": ordered[rank], "worst": ordered[-1], "cases": len(ordered)}


@dataclass(frozen=True)
class Sample:
    """One measured point: a shape, a split count, microseconds for split kernel and merge."""

    shape: Shape
    splits: int
    us: float

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.shape), "splits": self.splits, "us": self.us}


class PackedInputs:
    """Rotated inputs of one packed sparse-MLA shape: one KV pool larger than L2, several index sets."""

    def __init__(
        self, shape: Shape, machine: Machine, l2_bytes: int, pages: tuple[int, ...], device: str = "cuda"
    ) -> None:
        import torch

        from . import api, packed

        gen = torch.Generator().manual_seed(0)
        touched = shape.rows * sum(shape.caps) * 584
        self.rotations = min(max(math.ceil(2 * l2_bytes / touched), 2), 32)
        slots = max(4 * l2_bytes // 584, sum(shape.caps) * 4)
        self.shape, self.machine, self.device = shape, machine, device
        self.q = torch.randn(shape.rows, shape.heads, 512, generator=gen).bfloat16().to(device)
        self.sink = torch.randn(shape.heads, generator=gen).to(device)
        self.out = torch.empty(shape.rows, shape.heads, 512, dtype=torch.bfloat16, device=device)
        self.lse = torch.empty(shape.rows, shape.heads, device=device)
        pools = []
        for page in pages[: len(shape.caps)]:
            n = -(-slots // page)
            # random e4m3 bytes would hold NaN: pack one page and repeat it, content does not change the time
            one = packed.pack(torch.randn(page, 512, generator=gen), page)
            pools.append(one.to(device).repeat(n, 1))
        self.streams = []
        for _ in range(self.rotations):
            streams = []
            for pool, page, cap in zip(pools, pages, shape.caps, strict=False):
                idx = torch.randint(0, pool.shape[0] * page, (shape.rows, cap), generator=gen, dtype=torch.int32).to(
                    device
                )
                full = torch.full((shape.rows,), cap, dtype=torch.int32, device=device)
                streams.append(api.Stream(pool, idx, full, page))
            self.streams.append(streams)

    def launches(self, plan: Any) -> list[Callable[[], None]]:
        """One launch per rotation, all into the same out, lse and workspace."""
        from . import api

        workspace = api.Workspace.allocate([plan], self.device)
        return [
            lambda streams=streams: api.mla_decode(  # type: ignore[misc]
                self.q,
                streams,
                plan=plan,
                out=self.out,
                lse=self.lse,
                scale=512**-0.5,
                workspace=workspace,
                sink=self.sink,
            )
            for streams in self.streams
        ]

    def sweep(self, replays: int) -> dict[int, Timing]:
        """Measure every split count worth it."""
        from .knobs import Knobs
        from .plan import make_plan

        tiles = make_plan(self.shape, self.machine, Knobs("fixed", fixed_splits=1)).tiles
        found = {}
        for splits in split_counts(tiles):
            plan = make_plan(self.shape, self.machine, Knobs("fixed", fixed_splits=splits))
            found[splits] = time_launches(self.launches(plan), replays)
        return found

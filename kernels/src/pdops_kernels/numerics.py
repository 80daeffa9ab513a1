# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Problems with poisoned memory, run through the real API and judged by the float64 reference.

Everything that a correct kernel must not read or must write is NaN: KV slots that no valid index points to, the rest
of a page behind a sequence's end, padding, workspace, out and lse. Index entries behind a row's length point to
poisoned slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import api, packed, reference
from .configs import KINDS
from .knobs import Knobs
from .machine import MACHINES, Machine
from .plan import Plan, Shape, make_plan

# Relative error of the whole output, ||out - ref|| / ||ref||. The bfloat16 bound is output rounding (3.3e-3 seen).
BOUNDS = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
LSE_BOUND = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class Problem:
    """lengths: per stream, one per sequence. Sparse streams have `holes` (share of negative indices)."""

    kind: str
    heads: int
    caps: tuple[int, ...]
    lengths: tuple[tuple[int, ...], ...]
    kv_heads: int = 1
    pages: tuple[int, ...] = (64, 64)
    rows_per_seq: int = 1
    holes: float = 0.1
    sink: bool = False
    dense: bool = False
    dtype: torch.dtype = torch.float32
    partials: torch.dtype = torch.float32
    seed: int = 0

    @property
    def rows(self) -> int:
        return len(self.lengths[0]) * self.rows_per_seq

    @property
    def shape(self) -> Shape:
        return Shape(self.kind, self.rows, self.heads, self.caps, self.kv_heads)


@dataclass(frozen=True)
class Result:
    out: torch.Tensor
    lse: torch.Tensor
    plan: Plan
    error: float
    lse_error: float
    bound: float
    lse_bound: float

    @property
    def ok(self) -> bool:
        """Within bounds; False for any NaN."""
        return self.error <= self.bound and self.lse_error <= self.lse_bound


@dataclass(frozen=True)
class Instance:
    """A built problem: launch(plan, out, lse, workspace) runs it; reference() is float64 on the CPU."""

    problem: Problem
    launch: Callable[[Plan, torch.Tensor, torch.Tensor, api.Workspace], None]
    reference: Callable[[], tuple[torch.Tensor, torch.Tensor]]


def build(problem: Problem, device: str = "cpu") -> Instance:
    """Make the inputs of a problem (seeded) on `device`."""
    gen = torch.Generator().manual_seed(problem.seed)
    kind, rows, per = KINDS[problem.kind], problem.rows, problem.rows_per_seq
    seqs = rows // per
    width = kind.dim + kind.rope
    scale = width**-0.5
    q = torch.randn(rows, problem.heads, width, generator=gen).to(problem.dtype)
    sink = torch.randn(problem.heads, generator=gen) if problem.sink else None
    lengths = [torch.tensor(x, dtype=torch.int32) for x in problem.lengths]
    d_sink = None if sink is None else sink.to(device)
    options = {"scale": scale, "sink": d_sink, "rows_per_seq": per}

    def paged(page: int, cap: int, length: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        """A shuffled page table [seqs, n], the slots that sequences own, and the number of pages; page 0 is poison."""
        n = -(-cap // page)
        table = (torch.randperm(seqs * n, generator=gen) + 1).reshape(seqs, n)
        pos = torch.arange(n * page)
        slots = table[:, pos // page] * page + pos % page
        live = slots[pos[None] < length[:, None]]
        table = torch.where(torch.arange(n)[None] * page < length[:, None], table, 0)
        return table.to(torch.int32), live, seqs * n + 1

    def poisoned(slots: int, shape: tuple[int, ...], live: torch.Tensor) -> torch.Tensor:
        kv = torch.full((slots, *shape), torch.nan)
        kv[live] = torch.randn(len(live), *shape, generator=gen)
        return kv

    if kind.family == "gqa":
        page = problem.pages[0]
        table, live, pages = paged(page, problem.caps[0], lengths[0])
        k, v = (poisoned(pages * page, (problem.kv_heads, kind.dim), live).to(problem.dtype) for _ in "kv")
        on = [
            t.to(device)
            for t in (q, k.reshape(pages, page, *k.shape[1:]), v.reshape(pages, page, *v.shape[1:]), table, lengths[0])
        ]
        return Instance(
            problem,
            lambda plan, out, lse, ws: api.gqa_decode(*on, plan=plan, out=out, lse=lse, workspace=ws, **options),
            lambda: reference.gqa(q, k, v, table, lengths[0], page, scale, sink, per),
        )

    streams, plain = [], []
    for cap, page, length in zip(problem.caps, problem.pages, lengths, strict=False):
        if problem.dense:
            indices, live, pages = paged(page, cap, length)
        else:
            pages = -(-cap // page) + 2
            indices = torch.stack(
                [torch.randperm(pages * page - page, generator=gen)[:cap] + page for _ in range(rows)]
            )
            indices[torch.rand(indices.shape, generator=gen) < problem.holes] = -1
            valid = torch.arange(cap)[None] < length.repeat_interleave(per)[:, None]
            live = indices[valid & (indices >= 0)].unique()
            indices = torch.where(valid, indices, 3).to(torch.int32)  # slot 3 is in the poisoned page 0
        kv = poisoned(pages * page, (width,), live)
        if kind.packed:
            raw = packed.pack(torch.nan_to_num(kv), page)
            dead = torch.ones(pages, page, dtype=torch.bool)
            dead.view(-1)[live] = False
            raw[:, : page * packed.DATA_BYTES].view(pages, page, packed.DATA_BYTES)[dead] = 0xFF
            raw[:, page * packed.DATA_BYTES : page * packed.TOKEN_BYTES].view(pages, page, packed.SCALE_BYTES)[dead] = (
                0xFF
            )
            plain.append((packed.unpack(raw, page), indices, length))
        else:
            raw = kv.to(problem.dtype)
            plain.append((raw.double(), indices, length))
            raw = raw.reshape(pages, page, width)
        streams.append(api.Stream(raw.to(device), indices.to(device), length.to(device), page))
    d_q = q.to(device)

    def expect() -> tuple[torch.Tensor, torch.Tensor]:
        if problem.dense:
            kv, table, length = plain[0]
            return reference.mla_dense(q, kv, table, length, problem.pages[0], scale, kind.dim, sink, per)
        return reference.mla(q, plain, scale, kind.dim, sink, per)

    return Instance(
        problem,
        lambda plan, out, lse, ws: api.mla_decode(
            d_q, streams, plan=plan, out=out, lse=lse, workspace=ws, dense=problem.dense, **options
        ),
        expect,
    )


def run(problem: Problem, knobs: Knobs, machine: Machine = MACHINES["rtx-pro-6000"], device: str = "cpu") -> Result:
    """Build, plan, launch and judge one problem."""
    plan = make_plan(problem.shape, machine, knobs)
    instance = build(problem, device)
    out, lse = launch(instance, plan, device)
    want, want_lse = instance.reference()
    got, got_lse = out.cpu().double(), lse.cpu().double()
    scale = float(want.norm()) or 1.0
    empty = torch.isinf(want_lse)
    lse_gap = torch.where(empty, torch.where(got_lse == want_lse, 0.0, torch.nan), (got_lse - want_lse).abs())
    return Result(
        out, lse, plan, float((got - want).norm()) / scale, float(lse_gap.max()),
        BOUNDS[problem.dtype], LSE_BOUND[problem.dtype],
    )  # fmt: skip


def launch(instance: Instance, plan: Plan, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Launch a built problem into NaN-poisoned buffers; returns out and lse."""
    problem = instance.problem
    out = torch.full(
        (problem.rows, problem.heads, KINDS[problem.kind].dim), torch.nan, dtype=problem.dtype, device=device
    )
    lse = torch.full((problem.rows, problem.heads), torch.nan, device=device)
    workspace = api.Workspace.allocate([plan], device, problem.partials)
    workspace.out.fill_(torch.nan)
    workspace.lse.fill_(torch.nan)
    instance.launch(plan, out, lse, workspace)
    return out, lse

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Policy leaf: one row's bits do not depend on batch, bucket width, or the other rows. The default's do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pdops_kernels import numerics
from pdops_kernels.knobs import Knobs
from pdops_kernels.machine import MACHINES
from pdops_kernels.plan import make_plan

LEAF = Knobs("leaf", leaf_tokens=64)


def bits(problem: numerics.Problem, knobs: Knobs, machine: str = "rtx-pro-6000") -> tuple[torch.Tensor, torch.Tensor]:
    instance = numerics.build(problem)
    return numerics.launch(instance, make_plan(problem.shape, MACHINES[machine], knobs))


def test_same_inputs_same_bits_in_any_bucket_and_on_any_machine() -> None:
    problem = numerics.Problem("mla_576", 16, (256,), ((200, 33, 64),), dense=True, dtype=torch.bfloat16)
    out, lse = bits(problem, LEAF)
    assert out.isfinite().all()
    assert all(torch.equal(a, b) for a, b in zip((out, lse), bits(problem, LEAF, "h100"), strict=True))


def rows_alone(
    problem: numerics.Problem, knobs: Knobs, monkeypatch: pytest.MonkeyPatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run every row as a batch of one, on the very tensors that the whole batch uses."""
    from pdops_kernels import api

    real, outs, lses = api.gqa_decode, [], []

    def one_by_one(q, k, v, table, lengths, *, plan, out, lse, workspace, **rest):  # type: ignore[no-untyped-def]
        for row in range(q.shape[0]):
            alone = make_plan(replace(plan.shape, rows=1), MACHINES["rtx-pro-6000"], knobs)
            ws = api.Workspace.allocate([alone], "cpu")
            ws.out.fill_(torch.nan)
            o, s = torch.full_like(out[:1], torch.nan), torch.full_like(lse[:1], torch.nan)
            real(
                q[row : row + 1],
                k,
                v,
                table[row : row + 1],
                lengths[row : row + 1],
                plan=alone,
                out=o,
                lse=s,
                workspace=ws,
                **rest,
            )
            outs.append(o)
            lses.append(s)

    with monkeypatch.context() as patch:
        patch.setattr(api, "gqa_decode", one_by_one)
        bits(problem, knobs)
    return torch.cat(outs), torch.cat(lses)


def test_a_row_alone_has_the_bits_it_has_in_a_batch(monkeypatch: pytest.MonkeyPatch, held: list[str]) -> None:
    problem = numerics.Problem("gqa_128", 8, (320,), ((320, 129, 1, 0),), kv_heads=1)
    out, lse = bits(problem, LEAF)
    alone, alone_lse = rows_alone(problem, LEAF, monkeypatch)
    assert torch.equal(out, alone) and torch.equal(lse, alone_lse)
    held.append("policy leaf bit-equal alone and in a batch")


def test_packed_rows_alone_and_regrouped_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 1 and of 2 out of 3 ragged rows with two streams and a sink."""
    from pdops_kernels import api

    problem = numerics.Problem("mla_packed", 16, (128, 96), ((128, 70, 0), (33, 96, 1)), pages=(256, 64), sink=True)
    out, lse = bits(problem, LEAF)
    real = api.mla_decode

    def regrouped(q, streams, *, plan, out, lse, workspace, **rest):  # type: ignore[no-untyped-def]
        for part in (slice(0, 1), slice(1, 3)):
            rows = q[part].shape[0]
            small = make_plan(replace(plan.shape, rows=rows), MACHINES["h100"], LEAF)
            ws = api.Workspace.allocate([small], "cpu")
            ws.out.fill_(torch.nan)
            cut = [replace(s, indices=s.indices[part], lengths=s.lengths[part]) for s in streams]
            real(q[part], cut, plan=small, out=out[part], lse=lse[part], workspace=ws, **rest)

    monkeypatch.setattr(api, "mla_decode", regrouped)
    again, again_lse = bits(problem, LEAF)
    assert torch.equal(out, again) and torch.equal(lse, again_lse)


def test_a_wider_bucket_does_not_change_bits() -> None:
    """More (empty) leaves behind a row's own: the index list is padded from 128 to 320 entries."""
    narrow = numerics.Problem("mla_packed", 16, (128,), ((128, 70),), sink=True, holes=0.2)
    instance = numerics.build(narrow)
    small = make_plan(narrow.shape, MACHINES["rtx-pro-6000"], LEAF)
    out, lse = numerics.launch(instance, small)
    wide_shape = replace(narrow.shape, caps=(320,))
    wide = make_plan(wide_shape, MACHINES["rtx-pro-6000"], LEAF)
    assert wide.splits > small.splits
    from pdops_kernels import api

    real = api.mla_decode

    def padded(q, streams, **rest):  # type: ignore[no-untyped-def]
        s = streams[0]
        indices = torch.cat([s.indices, torch.full((s.indices.shape[0], 192), 3, dtype=torch.int32)], 1)
        real(q, [replace(s, indices=indices)], **rest)

    api.mla_decode = padded
    try:
        out2, lse2 = numerics.launch(instance, wide)
    finally:
        api.mla_decode = real
    assert torch.equal(out, out2) and torch.equal(lse, lse2)


def test_the_default_policies_are_not_bit_equal_and_this_test_can_see_it() -> None:
    problem = numerics.Problem("gqa_128", 8, (320,), ((320, 300),), kv_heads=1)
    one, _ = bits(problem, Knobs("fixed", fixed_splits=2))
    other, _ = bits(problem, Knobs("fixed", fixed_splits=5))
    assert not torch.equal(one, other)
    assert (one - other).abs().max() < 1e-5

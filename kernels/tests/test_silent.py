# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a kernel could get wrong without anybody seeing it: broken values that turn into plausible ones, contexts cut
short, memory beside the caller's views. In the interpreter, float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pdops_kernels import api, numerics
from pdops_kernels.knobs import Knobs
from pdops_kernels.machine import MACHINES
from pdops_kernels.plan import Shape, make_plan

RTX = MACHINES["rtx-pro-6000"]
PROBLEMS = {
    "packed": numerics.Problem("mla_packed", 16, (64, 32), ((64, 40), (32, 1)), pages=(64, 64), sink=True, holes=0.0),
    "dense": numerics.Problem("mla_576", 16, (96,), ((96, 40),), dense=True, pages=(16,)),
    "gqa": numerics.Problem("gqa_128", 4, (192,), ((192, 70),), kv_heads=1, sink=True),
}


def run(problem: numerics.Problem, splits: int, monkeypatch: pytest.MonkeyPatch, change: Any) -> Any:
    """Launch a problem whose API arguments `change(name, arguments)` has altered; returns out and lse."""
    for name in ("mla_decode", "gqa_decode"):
        real = getattr(api, name)

        def altered(*args: Any, real: Any = real, **kwargs: Any) -> None:
            args = tuple(change(args, kwargs))
            real(*args, **kwargs)

        monkeypatch.setattr(api, name, altered)
    plan = make_plan(problem.shape, RTX, Knobs("fixed", fixed_splits=splits))
    assert plan.direct == (splits == 1)
    result = numerics.launch(numerics.build(problem), plan)
    monkeypatch.undo()
    return result


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("where", ["q", "kv"])
def test_nan_in_what_is_read_reaches_the_output(
    name: str, splits: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken KV page must not come out as zeros with lse -inf, which says `no token` and merges as nothing."""

    def breaks(args: tuple[Any, ...], _: dict[str, Any]) -> Any:
        q, *rest = args
        if where == "q":
            q = q.clone()
            q[0, :, 3] = torch.nan
        elif name == "gqa":
            k, v, table, lengths = rest
            k = k.clone()
            k[table[0, 1]] = torch.nan
            rest = [k, v, table, lengths]
        else:
            one = rest[0][0]
            kv = one.kv.clone()
            if name == "packed":
                slot = int(one.indices[0, 7])
                # in the bfloat16 part: the interpreter widens e4m3's NaN to 480, which is not the kernel's doing
                kv[slot // 64, slot % 64 * 576 + 448 : slot % 64 * 576 + 450] = 0xFF
            else:
                kv[one.indices[0, 1]] = torch.nan
            rest = [[replace(one, kv=kv), *rest[0][1:]]]
        return q, *rest

    clean = run(PROBLEMS[name], splits, monkeypatch, lambda args, _: args)
    out, lse = run(PROBLEMS[name], splits, monkeypatch, breaks)
    assert out[0].isnan().any(1).all() and lse[0].isnan().all()
    if name != "packed" or where == "q":  # rows of a sparse batch may share the broken token
        assert torch.equal(out[1], clean[0][1]) and torch.equal(lse[1], clean[1][1])


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("name", ["dense", "gqa"])
def test_a_context_beyond_the_plan_is_nan_and_not_a_shorter_context(
    name: str, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def longer(args: tuple[Any, ...], _: dict[str, Any]) -> Any:
        if name == "gqa":
            return *args[:4], args[4] + torch.tensor([1, 0], dtype=torch.int32)
        (one,) = args[1]
        return args[0], [replace(one, lengths=one.lengths + torch.tensor([1, 0], dtype=torch.int32))]

    clean = run(PROBLEMS[name], splits, monkeypatch, lambda args, _: args)
    out, lse = run(PROBLEMS[name], splits, monkeypatch, longer)
    assert out[0].isnan().all() and lse[0].isnan().all()
    assert torch.equal(out[1], clean[0][1]) and torch.equal(lse[1], clean[1][1])


def test_a_sparse_length_beyond_the_list_ends_at_the_list_and_a_negative_one_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As SGLang's own kernel does."""
    problem = PROBLEMS["packed"]

    def odd(args: tuple[Any, ...], _: dict[str, Any]) -> Any:
        one, two = args[1]
        lengths = torch.tensor([900, -4], dtype=torch.int32), torch.tensor([32, -1], dtype=torch.int32)
        return args[0], [replace(one, lengths=lengths[0]), replace(two, lengths=lengths[1])]

    clean = run(problem, 3, monkeypatch, lambda args, _: args)
    out, lse = run(problem, 3, monkeypatch, odd)
    assert torch.equal(out[0], clean[0][0]) and torch.equal(lse[0], clean[1][0])
    assert not out[1].any() and torch.isneginf(lse[1]).all()


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_views_are_read_and_written_exactly(name: str, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """q and out as views with gaps (heads before rows), index lists wider than the cap, a workspace that is too
    large: same bits as packed tensors, and not one element beside them is touched."""
    problem = PROBLEMS[name]
    kept: dict[str, Any] = {}

    def views(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        q, *rest = args
        rows, heads, width = q.shape
        q_big = torch.full((heads, rows, width + 16), torch.nan)
        q_view = q_big[:, :, 8 : 8 + width].transpose(0, 1)
        q_view.copy_(q)
        dim = kwargs["out"].shape[2]
        kept["out"], kept["big"] = kwargs["out"], torch.full((heads + 1, rows, dim + 16), 7.0)
        kwargs["out"] = kept["big"][:heads, :, 8 : 8 + dim].transpose(0, 1)
        kept["view"] = kwargs["out"]
        plan = kwargs["plan"]
        spare = api.Workspace(
            torch.full((plan.partial_out_numel + 64,), 7.0), torch.full((plan.partial_lse_numel + 64,), 7.0)
        )
        kwargs["workspace"] = kept["ws"] = spare
        if name != "gqa":
            wide = []
            for s in rest[0]:
                indices = torch.full((s.indices.shape[0], s.indices.shape[1] + 24), 2**30, dtype=torch.int32)
                indices[:, : s.indices.shape[1]] = s.indices
                wide.append(replace(s, indices=indices))
            rest = [wide]
        return q_view, *rest

    clean, clean_lse = run(problem, splits, monkeypatch, lambda args, _: args)
    _, lse = run(problem, splits, monkeypatch, views)
    assert torch.equal(kept["view"], clean) and torch.equal(lse, clean_lse)
    rest = kept["big"].clone()
    rest[: kept["view"].shape[1], :, 8 : 8 + clean.shape[2]] = 7.0
    assert (rest == 7.0).all()
    plan = make_plan(problem.shape, RTX, Knobs("fixed", fixed_splits=splits))
    assert (kept["ws"].out[plan.partial_out_numel :] == 7.0).all()
    assert (kept["ws"].lse[plan.partial_lse_numel :] == 7.0).all()


def test_a_batch_of_none_is_refused() -> None:
    for rows in (0, -1, 65536):
        with pytest.raises(ValueError, match=f"rows={rows} is not from 1"):
            make_plan(Shape("mla_packed", rows, 16, (64,)), RTX, Knobs())

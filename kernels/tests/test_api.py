# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Wrong arguments are refused with one sentence before anything is launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pdops_kernels import api, packed
from pdops_kernels.knobs import Knobs
from pdops_kernels.machine import MACHINES
from pdops_kernels.plan import Plan, Shape, make_plan

RTX = MACHINES["rtx-pro-6000"]
PLAN = make_plan(Shape("mla_576", 4, 16, (64,)), RTX, Knobs("fixed", fixed_splits=2))
PACKED = make_plan(Shape("mla_packed", 4, 16, (64,)), RTX, Knobs("fixed", fixed_splits=2))
GQA = make_plan(Shape("gqa_128", 4, 16, (128,), 2), RTX, Knobs("fixed", fixed_splits=2))


def arguments(plan: Plan) -> dict[str, Any]:
    kv = torch.zeros(2, 64, 576) if plan is PLAN else torch.zeros(2, packed.page_bytes(64), dtype=torch.uint8)
    stream = api.Stream(kv, torch.zeros(4, 64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32), 64)
    return {
        "q": torch.zeros(4, 16, 576 if plan is PLAN else 512), "streams": [stream], "plan": plan, "out": torch.zeros(4, 16, 512),
        "lse": torch.zeros(4, 16), "scale": 0.1, "workspace": api.Workspace.allocate([plan], "cpu"),
    }  # fmt: skip


def stream(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda a: a.update(streams=[replace(a["streams"][0], **changes)])


MLA: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "rows": (lambda a: a.update(q=a["q"][:3]), "q is (3, 16, 576)"),
    "q strides": (lambda a: a.update(q=torch.zeros(4, 16, 1152)[..., ::2]), "contiguous in its last"),
    "out shape": (lambda a: a.update(out=torch.zeros(4, 16, 576)), "out is"),
    "out dtype": (lambda a: a.update(out=torch.zeros(4, 16, 512, dtype=torch.float64)), "dtype"),
    "lse dtype": (lambda a: a.update(lse=torch.zeros(4, 16, dtype=torch.float16)), "lse must be"),
    "no workspace": (lambda a: a.update(workspace=None), "needs a workspace"),
    "small workspace": (lambda a: a.update(workspace=api.Workspace(torch.zeros(9), torch.zeros(9))), "too small"),
    "sink": (lambda a: a.update(sink=torch.zeros(15)), "sink must be"),
    "rows per sequence": (lambda a: a.update(rows_per_seq=3), "does not divide"),
    "streams": (lambda a: a.update(streams=a["streams"] * 2), "2 KV streams given"),
    "narrow list": (stream(indices=torch.zeros(4, 63, dtype=torch.int32)), "indices of stream 1 is (4, 63)"),
    "index dtype": (stream(indices=torch.zeros(4, 64, dtype=torch.int64)), "must be int32"),
    "lengths": (stream(lengths=torch.zeros(3, dtype=torch.int32)), "lengths of indices"),
    "page": (stream(page=48), "not a power of two"),
    "kv shape": (stream(kv=torch.zeros(2, 64, 512)), "wanted (pages, 64, 576)"),
    "kv dtype": (stream(kv=torch.zeros(2, 64, 576, dtype=torch.float16)), "q is torch.float32"),
    "q dtype": (lambda a: a.update(q=torch.zeros(4, 16, 576, dtype=torch.int32)), "q has dtype torch.int32"),
    "q heads too far apart": (
        lambda a: a.update(q=torch.empty_strided((4, 16, 576), (576, 2**28, 1), device="meta")),
        "with heads within 2**31 elements",
    ),
    "out rows share memory": (lambda a: a.update(out=torch.zeros(1, 16, 512).expand(4, 16, 512)), "share memory"),
    "out heads overlap": (
        lambda a: a.update(out=torch.zeros(99999).as_strided((4, 16, 512), (16 * 512, 256, 1))),
        "share memory",
    ),
    "scale": (lambda a: a.update(scale=float("nan")), "scale=nan is not a finite number"),
    "no page": (stream(page=0), "page=0 is not a power of two"),
    "gqa plan": (lambda a: a.update(plan=GQA), "not of an MLA kind"),
    "device": (lambda a: a.update(lse=torch.zeros(4, 16, device="meta")), "must be on cpu"),
}


@pytest.mark.parametrize("name", MLA)
def test_mla_refuses(name: str) -> None:
    change, sentence = MLA[name]
    given = arguments(PLAN)
    change(given)
    with pytest.raises(ValueError) as caught:
        api.mla_decode(given.pop("q"), given.pop("streams"), **given)
    assert sentence in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("kv", "sentence"),
    [
        (torch.zeros(2, 64 * 576, dtype=torch.uint8), "kv of stream 1 must be bytes"),
        (torch.zeros(2, 64 * 584 + 8, dtype=torch.uint8), "must be multiples of 16"),
        (torch.zeros(2, 64, 584, dtype=torch.uint8), "kv of stream 1 must be bytes"),
        # one byte wide too, but read as e4m3 they would be other numbers
        (torch.zeros(2, 37440, dtype=torch.float8_e5m2), "wanted uint8 or float8_e4m3fn"),
        (torch.zeros(2, 37440, dtype=torch.int8), "wanted uint8 or float8_e4m3fn"),
        (torch.zeros(2 * 37440 + 1, dtype=torch.uint8)[1:].view(2, 37440), "must be multiples of 16"),
    ],
)
def test_packed_refuses(kv: torch.Tensor, sentence: str) -> None:
    given = arguments(PACKED)
    stream(kv=kv)(given)
    with pytest.raises(ValueError, match=sentence):
        api.mla_decode(given.pop("q"), given.pop("streams"), **given)


def test_gqa_refuses() -> None:
    k = torch.zeros(3, 64, 2, 128)
    table, lengths = torch.zeros(4, 2, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    rest = {
        "plan": GQA,
        "out": torch.zeros(4, 16, 128),
        "lse": torch.zeros(4, 16),
        "scale": 0.1,
        "workspace": api.Workspace.allocate([GQA], "cpu"),
    }
    q = torch.zeros(4, 16, 128)
    for bad_k, bad_v, bad_table, sentence in (
        (torch.zeros(3, 64, 4, 128), k, table, "wanted (pages, page, 2, 128)"),
        (k, torch.zeros(6, 64, 2, 128)[::2], table, "same page stride"),
        (k, k.half(), table, "must be equal"),
        (torch.zeros(3, 48, 2, 128), torch.zeros(3, 48, 2, 128), table, "power of two"),
        (k, k, table[:, :1], "table is"),
        (torch.zeros(3, 0, 2, 128), torch.zeros(3, 0, 2, 128), table, "page=0 is not a power of two"),
    ):
        with pytest.raises(ValueError) as caught:
            api.gqa_decode(q, bad_k, bad_v, bad_table, lengths, **rest)  # type: ignore[arg-type]
        assert sentence in str(caught.value)


def test_check_indices_finds_what_the_kernel_trusts() -> None:
    kv = torch.zeros(2, 64, 576)
    good = api.Stream(kv, torch.tensor([[-1, 127, 999]], dtype=torch.int32), torch.tensor([2], dtype=torch.int32), 64)
    api.check_indices(good)
    with pytest.raises(ValueError, match="Index 999 at row 0, column 2 is outside 128"):
        api.check_indices(replace(good, lengths=torch.tensor([3], dtype=torch.int32)))
    with pytest.raises(ValueError, match="Index -1"):
        api.check_indices(good, dense=True)
    for length in (4, -1):
        with pytest.raises(ValueError, match=f"Length {length} of sequence 0 is not from 0 to 3"):
            api.check_indices(replace(good, lengths=torch.tensor([length], dtype=torch.int32)))


def test_out_may_be_any_view_without_overlap() -> None:
    base = torch.zeros(4, 16, 512)
    assert all(map(api._apart, (base, base.transpose(0, 1), base[:, ::2], base[::3], base[:1].expand(1, 16, 512))))
    assert not api._apart(torch.empty_strided((2, 9, 512), (512, 2**28, 1), device="meta"))


def test_packed_pages_have_584_bytes_a_token_and_sglangs_padding() -> None:
    assert [packed.page_bytes(p) for p in (64, 256)] == [37440, 149760]
    kv = torch.randn(128, 512) * torch.logspace(-6, 6, 128)[:, None]
    back = packed.unpack(packed.pack(kv, 64), 64)
    assert ((back - kv).norm(dim=1) / kv.norm(dim=1)).max() < 0.04
    assert torch.equal(back[:, 448:], kv[:, 448:].bfloat16().double())


def test_the_interpreters_bf16_dot_is_still_broken() -> None:
    """The reason for UPCAST. When this fails, Triton has repaired it and UPCAST can go."""
    import triton
    import triton.language as tl

    @triton.jit
    def product(a_ptr, b_ptr, c_ptr, N: tl.constexpr):  # type: ignore[no-untyped-def]
        i = tl.arange(0, N)
        at = i[:, None] * N + i[None, :]
        tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))

    a, b = torch.randn(16, 16).bfloat16(), torch.randn(16, 16).bfloat16()
    c = torch.empty(16, 16)
    product[(1,)](a, b, c, 16)
    assert (c - a.float() @ b.float()).norm() > 100 * c.new_tensor(1.0)

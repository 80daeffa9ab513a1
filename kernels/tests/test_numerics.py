# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Kernels in the interpreter against float64. float32 is the sharp test (2e-7 seen); a few in 16 bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pdops_kernels.knobs import Knobs
from pdops_kernels.numerics import Problem, run

FIXED = {n: Knobs("fixed", fixed_splits=n) for n in (1, 2, 3, 7)}
LEAF = Knobs("leaf", leaf_tokens=64)

packed = Problem("mla_packed", 16, (128, 96), ((128, 70), (96, 33)), pages=(256, 64), sink=True)
plain = Problem("mla_576", 16, (160,), ((150, 31),))
dense = Problem("mla_576", 16, (160,), ((160, 65),), dense=True)
gqa = Problem("gqa_128", 16, (256,), ((256, 77),), kv_heads=2)

CASES = {
    "packed two streams": (packed, 3),
    "packed direct": (packed, 1),
    "packed leaf": (packed, LEAF),
    "packed bf16": (replace(packed, dtype=torch.bfloat16), 3),
    "packed 32 heads": (replace(packed, heads=32), 2),
    "packed 24 heads": (replace(packed, heads=24, lengths=((90,), (40,))), 2),
    "packed one stream no sink": (replace(packed, caps=(128,), lengths=((128, 3),), sink=False), 2),
    "packed equal pages": (replace(packed, pages=(64, 64)), 3),
    "packed pages 256 and 2": (replace(packed, pages=(256, 2)), 2),  # DeepSeek-V4 layers of ratio 128
    "packed pages 1 and 512": (replace(packed, pages=(1, 512)), 2),
    "more splits than tiles": (replace(packed, lengths=((20, 1), (0, 5))), 7),
    "length 0 and 1": (replace(packed, lengths=((0, 1, 0), (0, 0, 1))), 2),
    "length 0 direct": (replace(packed, lengths=((0, 1, 0), (0, 0, 1))), 1),
    "only holes": (replace(packed, holes=1.0), 3),
    "mostly holes": (replace(packed, holes=0.97), 3),
    "speculative sparse": (replace(packed, lengths=((128, 70), (96, 33)), rows_per_seq=2), 2),
    "bf16 partials": (replace(packed, dtype=torch.bfloat16, partials=torch.bfloat16), 3),
    "576 sparse": (plain, 3),
    "576 sparse fp16": (replace(plain, dtype=torch.float16), 3),
    "576 sparse bf16": (replace(plain, dtype=torch.bfloat16), 2),
    "576 direct sink": (replace(plain, sink=True), 1),
    "576 40 heads": (replace(plain, heads=40, lengths=((150,),), sink=True), 2),
    "576 dense": (dense, 3),
    "576 dense speculative": (replace(dense, rows_per_seq=3, lengths=((97, 2),)), 2),
    "576 dense leaf page 16": (replace(dense, pages=(16,)), LEAF),
    "576 dense page 1": (replace(dense, pages=(1,), caps=(40,), lengths=((40, 33),)), 2),
    "512 two streams": (Problem("mla_512", 16, (96, 64), ((96, 40), (0, 64)), sink=True), 2),
    "512 direct": (Problem("mla_512", 8, (96,), ((96, 40),)), 1),
    "gqa": (gqa, 3),
    "gqa direct sink": (replace(gqa, sink=True), 1),
    "gqa 40 per group": (replace(gqa, heads=40, kv_heads=1), 2),
    "gqa 64 sink": (Problem("gqa_64", 16, (200,), ((200, 1, 0),), kv_heads=4, sink=True), 2),
    "gqa page 512": (replace(gqa, pages=(512,), caps=(300,), lengths=((300, 64),)), 2),
    "gqa bf16": (replace(gqa, dtype=torch.bfloat16), 3),
    "gqa fp16 leaf": (replace(gqa, dtype=torch.float16), LEAF),
    "gqa speculative": (replace(gqa, rows_per_seq=2, lengths=((130, 1),)), 2),
}


WORST: dict[str, float] = {}


@pytest.mark.parametrize("name", CASES)
def test_against_float64(name: str) -> None:
    problem, knobs = CASES[name]
    result = run(problem, knobs if isinstance(knobs, Knobs) else FIXED[knobs])
    assert result.ok, (
        f"error {result.error:.2e} of {result.bound:.0e}, lse {result.lse_error:.2e} of {result.lse_bound:.0e}"
    )
    dtype = str(problem.dtype).removeprefix("torch.")
    WORST[dtype] = max(result.error, WORST.get(dtype, 0.0))


def test_zz_say_what_held(held: list[str]) -> None:
    """float32 must be far below its bound: a bound that is reached would mean that something is lost."""
    assert WORST["float32"] < 1e-6
    worst = ", ".join(f"{name} {error:.1e}" for name, error in WORST.items())
    held.append(f"{len(CASES)} problems against float64 in the interpreter, worst {worst}")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Merge the partials of one (row, head): weights 2^(lse - max), summed in split order.

The order is fixed and an empty split adds nothing at all (not even a zero), so trailing empty splits do not
change a single bit: policy `leaf` rests on this.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["splits"], do_not_specialize_on_alignment=["sink_ptr"])
def merge_splits(
    part_ptr,  # [rows, HEADS, splits, DIM]
    part_lse_ptr,  # [rows, HEADS, splits] base 2
    sink_ptr,  # [HEADS] float32, natural units (SINK)
    out_ptr,  # [rows, HEADS, DIM]
    lse_ptr,  # [rows, HEADS] natural, without the sink
    stride_out_row,
    stride_out_head,
    splits,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    SINK: tl.constexpr,
):
    row = tl.program_id(0) // HEADS
    head = tl.program_id(0) % HEADS
    first = (row.to(tl.int64) * HEADS + head) * splits
    dims = tl.arange(0, DIM)
    lane = tl.arange(0, 32)

    tops = tl.full([32], float("-inf"), tl.float32)
    for start in range(0, splits, 32):
        lses = tl.load(part_lse_ptr + first + start + lane, mask=start + lane < splits, other=float("-inf"))
        tops = tl.maximum(tops, lses)
    top = tl.max(tops, 0)
    shift = tl.where(top == float("-inf"), 0.0, top)

    acc = tl.zeros([DIM], tl.float32)
    weight_sum = 0.0
    for split in range(0, splits):
        lse = tl.load(part_lse_ptr + first + split)
        weight = tl.exp2(lse - shift)
        part = tl.load(part_ptr + (first + split) * DIM + dims, mask=lse > float("-inf"), other=0.0)
        acc += weight * part.to(tl.float32)
        weight_sum += weight

    some = weight_sum != 0.0  # NaN counts as some: it must reach the output
    safe_sum = tl.where(some, weight_sum, 1.0)
    lse2 = tl.where(some, shift + tl.log2(safe_sum), float("-inf"))
    if SINK:
        sink = tl.load(sink_ptr + head) * 1.4426950408889634
        safe_sum = safe_sum * (1.0 + tl.exp2(tl.where(some, sink - lse2, 0.0)))
    result = tl.where(some, acc / safe_sum, 0.0)
    tl.store(
        out_ptr + row.to(tl.int64) * stride_out_row + head * stride_out_head + dims,
        result.to(out_ptr.dtype.element_ty),
    )
    tl.store(lse_ptr + row * HEADS + head, lse2 * 0.6931471805599453)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Split-KV decode attention with grouped query heads over a paged KV cache.

One program = one query row, one KV head, one block of its query heads, one split; else like mla.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .mla import split_range

_RUNTIME = ["splits", "tiles_per_split", "rows_per_seq", "cap"]


@triton.jit(do_not_specialize=_RUNTIME, do_not_specialize_on_alignment=["length_ptr", "sink_ptr"])
def gqa_split(
    q_ptr,  # [rows, HEADS, DIM]
    k_ptr,  # [pages, PAGE, KV_HEADS, DIM]
    v_ptr,  # the same
    table_ptr,  # [seqs, table_cap] page numbers
    length_ptr,  # [seqs] int32
    sink_ptr,  # [HEADS] float32, natural units (SINK)
    out_ptr,  # as in mla_split
    lse_ptr,
    scale_log2,
    stride_q_row,
    stride_q_head,
    stride_page,  # elements, the same for k and v
    stride_table,
    stride_out_row,
    stride_out_head,
    splits,
    tiles_per_split,
    rows_per_seq,
    cap,  # most tokens that the plan counts with
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PAGE: tl.constexpr,
    DIM: tl.constexpr,
    SINK: tl.constexpr,
    DIRECT: tl.constexpr,
    UPCAST: tl.constexpr,
):
    GROUP: tl.constexpr = HEADS // KV_HEADS
    GROUP_BLOCKS: tl.constexpr = (GROUP + BLOCK_H - 1) // BLOCK_H
    row = tl.program_id(0) // (KV_HEADS * GROUP_BLOCKS)
    block = tl.program_id(0) % (KV_HEADS * GROUP_BLOCKS)
    kv_head = block // GROUP_BLOCKS
    in_group = (block % GROUP_BLOCKS) * BLOCK_H + tl.arange(0, BLOCK_H)
    real_head = in_group < GROUP
    heads = kv_head * GROUP + in_group
    split = tl.program_id(1)
    seq = row // rows_per_seq
    dims = tl.arange(0, DIM)

    q = tl.load(
        q_ptr + row.to(tl.int64) * stride_q_row + heads[:, None] * stride_q_head + dims[None, :],
        mask=real_head[:, None],
        other=0.0,
    )
    if UPCAST:
        q = q.to(tl.float32)
    length = tl.load(length_ptr + seq) - (rows_per_seq - 1 - row % rows_per_seq)
    # a context beyond the plan must not look like an answer to a shorter one: NaN stays NaN to the end
    first_sum = tl.where(length > cap, float("nan"), 0.0)
    length = tl.maximum(tl.minimum(length, cap), 0)
    lo, hi = split_range(split, tl.cdiv(length, BLOCK_N), splits, tiles_per_split)

    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    weight_sum = tl.zeros([BLOCK_H], tl.float32) + first_sum
    acc = tl.zeros([BLOCK_H, DIM], tl.float32)
    lane = tl.arange(0, BLOCK_N)
    table = table_ptr + seq.to(tl.int64) * stride_table
    for tile in range(lo, hi):
        pos = tile * BLOCK_N + lane
        valid = pos < length
        page = tl.load(table + pos // PAGE, mask=valid, other=0)
        token = page.to(tl.int64) * stride_page + (pos % PAGE) * (KV_HEADS * DIM) + kv_head * DIM
        where = token[:, None] + dims[None, :]
        k = tl.load(k_ptr + where, mask=valid[:, None], other=0.0)
        v = tl.load(v_ptr + where, mask=valid[:, None], other=0.0)
        if UPCAST:
            k = k.to(tl.float32)
            v = v.to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        scores = tl.where(valid[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        shrink = tl.exp2(top - shift)
        p = tl.exp2(scores - shift[:, None])
        weight_sum = weight_sum * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        top = new_top

    some = weight_sum != 0.0  # NaN counts as some: it must reach the output
    safe_sum = tl.where(some, weight_sum, 1.0)
    lse2 = tl.where(some, top + tl.log2(safe_sum), float("-inf"))
    if DIRECT:
        if SINK:
            sink = tl.load(sink_ptr + heads, mask=real_head, other=float("-inf")) * 1.4426950408889634
            safe_sum = safe_sum * (1.0 + tl.exp2(tl.where(some, sink - lse2, 0.0)))
        final = out_ptr + row.to(tl.int64) * stride_out_row + heads[:, None] * stride_out_head + dims[None, :]
        result = tl.where(some[:, None], acc / safe_sum[:, None], 0.0)
        tl.store(final, result.to(out_ptr.dtype.element_ty), mask=real_head[:, None])
        tl.store(lse_ptr + row * HEADS + heads, lse2 * 0.6931471805599453, mask=real_head)
    else:
        slot_out = (row.to(tl.int64) * HEADS + heads) * splits + split
        tl.store(
            out_ptr + slot_out[:, None] * DIM + dims[None, :],
            (acc / safe_sum[:, None]).to(out_ptr.dtype.element_ty),
            mask=real_head[:, None] & some[:, None],
        )
        tl.store(lse_ptr + slot_out, lse2, mask=real_head)

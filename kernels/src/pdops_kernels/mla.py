# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Split-KV decode attention over one latent KV head (MLA), sparse or dense paged.

One program = one query row, one block of heads, one split. It walks its share of the row's KV tiles with an
online softmax in base 2 and stores either a partial (normalized output and log2-sum-exp) or, when the plan has
one split, the final row. The README explains layout and maths.
"""

from __future__ import annotations

import triton
import triton.language as tl

# What differs between buckets or callers must not make another kernel: such a kernel would compile while serving.
_RUNTIME = ["splits", "tiles_per_split", "rows_per_seq", "cap", "cap2"]
_ANY_ALIGNMENT = ["length_ptr", "length2_ptr", "sink_ptr"]


@triton.jit
def split_range(split, total, splits, tiles_per_split):
    """Tiles [lo, hi) of this split; same rule as plan.split_range. total: tiles this row really has."""
    if tiles_per_split > 0:
        lo = tl.minimum(split * tiles_per_split, total)
        hi = tl.minimum(lo + tiles_per_split, total)
    else:
        lo = split * total // splits
        hi = (split + 1) * total // splits
    return lo, hi


@triton.jit(do_not_specialize=_RUNTIME, do_not_specialize_on_alignment=_ANY_ALIGNMENT)
def mla_split(
    q_ptr,  # [rows, HEADS, V_DIM + ROPE], when PACKED [rows, HEADS, V_DIM]
    kv_ptr,  # PACKED: uint8 pages; else [pages, PAGE, V_DIM + ROPE]
    index_ptr,  # SPARSE: [rows, index_cap] token slots, < 0 is a hole; else [seqs, table_cap] page numbers
    length_ptr,  # [seqs] int32: valid entries of the index list, or tokens of the sequence
    kv2_ptr,  # the second stream, same format (EXTRA)
    index2_ptr,
    length2_ptr,
    sink_ptr,  # [HEADS] float32, natural units (SINK)
    out_ptr,  # DIRECT: [rows, HEADS, V_DIM]; else float32 partials [rows, HEADS, splits, V_DIM]
    lse_ptr,  # DIRECT: [rows, HEADS] natural; else [rows, HEADS, splits] base 2
    scale_log2,  # softmax scale * log2(e)
    stride_q_row,
    stride_q_head,
    stride_page,  # elements (bytes when PACKED)
    stride_index,
    stride_page2,
    stride_index2,
    stride_out_row,  # DIRECT only
    stride_out_head,
    splits,
    tiles_per_split,
    rows_per_seq,
    cap,  # most tokens of stream 1 that the plan counts with
    cap2,
    HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PAGE: tl.constexpr,
    PAGE2: tl.constexpr,
    V_DIM: tl.constexpr,  # 512
    ROPE: tl.constexpr,  # width of the rope part: behind V_DIM, or the last of V_DIM when PACKED
    PACKED: tl.constexpr,
    SPARSE: tl.constexpr,
    EXTRA: tl.constexpr,
    SINK: tl.constexpr,
    DIRECT: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter computes bf16 dots wrongly: see api.py
):
    HEAD_BLOCKS: tl.constexpr = (HEADS + BLOCK_H - 1) // BLOCK_H
    row = tl.program_id(0) // HEAD_BLOCKS
    heads = (tl.program_id(0) % HEAD_BLOCKS) * BLOCK_H + tl.arange(0, BLOCK_H)
    split = tl.program_id(1)
    seq = row // rows_per_seq
    real_head = heads < HEADS
    dims = tl.arange(0, V_DIM)

    q_row = q_ptr + row.to(tl.int64) * stride_q_row + heads[:, None] * stride_q_head
    # Packed tokens are 448 e4m3 + 64 bf16: two tiles, [N, 512] with its last 64 columns zero and [N, 64]. One tile
    # built by select costs 128 byte-wide loads a thread, spills, and twice the shared memory (see the README).
    NOPE: tl.constexpr = V_DIM - ROPE if PACKED else V_DIM
    q = tl.load(q_row + dims[None, :], mask=real_head[:, None] & (dims < NOPE)[None, :], other=0.0)
    if UPCAST:
        q = q.to(tl.float32)
    if ROPE > 0:
        rope_dims = tl.arange(0, ROPE)
        q_rope = tl.load(q_row + NOPE + rope_dims[None, :], mask=real_head[:, None], other=0.0)
        if UPCAST:
            q_rope = q_rope.to(tl.float32)

    length = tl.load(length_ptr + seq)
    if not SPARSE:  # speculative rows: the last row of a sequence sees all of it, the one before one token less
        length -= rows_per_seq - 1 - row % rows_per_seq
    first_sum = 0.0
    if not SPARSE:  # a context beyond the plan must not look like an answer to a shorter one: NaN stays NaN to the end
        first_sum = tl.where(length > cap, float("nan"), 0.0)
    length = tl.maximum(tl.minimum(length, cap), 0)
    tiles = tl.cdiv(length, BLOCK_N)
    total = tiles
    if EXTRA:
        length2 = tl.maximum(tl.minimum(tl.load(length2_ptr + seq), cap2), 0)
        total = tiles + tl.cdiv(length2, BLOCK_N)
    lo, hi = split_range(split, total, splits, tiles_per_split)

    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    weight_sum = tl.zeros([BLOCK_H], tl.float32) + first_sum
    acc = tl.zeros([BLOCK_H, V_DIM], tl.float32)
    if PACKED:
        acc_rope = tl.zeros([BLOCK_H, ROPE], tl.float32)
    lane = tl.arange(0, BLOCK_N)
    for tile in range(lo, hi):
        # -- where this tile's tokens are
        if EXTRA:
            second = tile >= tiles
            pos = tl.where(second, tile - tiles, tile) * BLOCK_N + lane
            valid = pos < tl.where(second, length2, length)
            list_ptr = tl.where(
                second, index2_ptr + row.to(tl.int64) * stride_index2, index_ptr + row.to(tl.int64) * stride_index
            )
            kv = tl.where(second, kv2_ptr, kv_ptr)
            page_stride = tl.where(second, stride_page2, stride_page).to(tl.int64)
        else:
            pos = tile * BLOCK_N + lane
            valid = pos < length
            list_ptr = index_ptr + (row if SPARSE else seq).to(tl.int64) * stride_index
            kv = kv_ptr
            page_stride = stride_page
        if SPARSE:
            slot = tl.load(list_ptr + pos, mask=valid, other=-1)
            valid = valid & (slot >= 0)
            slot = tl.where(valid, slot, 0)
            if EXTRA and PAGE != PAGE2:
                page = tl.where(second, slot // PAGE2, slot // PAGE)
                offset = tl.where(second, slot % PAGE2, slot % PAGE)
            else:
                page = slot // PAGE
                offset = slot % PAGE
        else:
            page = tl.load(list_ptr + pos // PAGE, mask=valid, other=0)
            offset = pos % PAGE
        page_base = page.to(tl.int64) * page_stride

        # -- the tile itself, [BLOCK_N, V_DIM]; nothing outside the valid tokens is read
        if PACKED:
            # a page: PAGE x (448 e4m3 + 64 bf16), then PAGE x (7 e8m0 scales + 1 pad), see packed.py
            token = kv + page_base + offset * 576
            scale_base = page_base + offset * 8
            if EXTRA and PAGE != PAGE2:
                scale_base += tl.where(second, PAGE2 * 576, PAGE * 576)
            else:
                scale_base += PAGE * 576
            nope = tl.load(
                token.to(tl.pointer_type(tl.float8e4nv))[:, None] + dims[None, :],
                mask=valid[:, None] & (dims < 448)[None, :],
                other=0.0,
            )
            group = tl.arange(0, 8)
            exponent = tl.load(
                (kv + scale_base)[:, None] + group[None, :], mask=valid[:, None] & (group < 7)[None, :], other=0
            )
            scale = (exponent.to(tl.int32) << 23).to(tl.float32, bitcast=True)
            wide = nope.to(tl.float32).reshape(BLOCK_N, 8, 64) * scale[:, :, None]
            k = wide.reshape(BLOCK_N, 512)
            if not UPCAST:
                k = k.to(tl.bfloat16)
            rope_ptr = token.to(tl.pointer_type(tl.bfloat16))[:, None] + 224 + rope_dims[None, :]
        else:
            token = kv + page_base + offset * (V_DIM + ROPE)
            k = tl.load(token[:, None] + dims[None, :], mask=valid[:, None], other=0.0)
            if UPCAST:
                k = k.to(tl.float32)

        # -- scores and online softmax, in units of log2
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if ROPE > 0:
            if PACKED:
                k_rope = tl.load(rope_ptr, mask=valid[:, None], other=0.0)
            else:
                k_rope = tl.load(token[:, None] + V_DIM + rope_dims[None, :], mask=valid[:, None], other=0.0)
            if UPCAST:
                k_rope = k_rope.to(tl.float32)
            scores = tl.dot(q_rope, tl.trans(k_rope), scores, input_precision="ieee")
        scores = tl.where(valid[None, :], scores * scale_log2, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)  # only holes so far: avoid inf - inf
        shrink = tl.exp2(top - shift)
        p = tl.exp2(scores - shift[:, None])
        weight_sum = weight_sum * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(p.to(k.dtype), k, acc, input_precision="ieee")
        if PACKED:
            acc_rope = tl.dot(p.to(k_rope.dtype), k_rope, acc_rope * shrink[:, None], input_precision="ieee")
        top = new_top

    some = weight_sum != 0.0  # NaN counts as some: it must reach the output
    safe_sum = tl.where(some, weight_sum, 1.0)
    if DIRECT:
        lse2 = tl.where(some, top + tl.log2(safe_sum), float("-inf"))
        if SINK:
            sink = tl.load(sink_ptr + heads, mask=real_head, other=float("-inf")) * 1.4426950408889634
            # out * 2^lse / (2^lse + 2^sink), written so that neither side can overflow
            safe_sum = safe_sum * (1.0 + tl.exp2(tl.where(some, sink - lse2, 0.0)))
        final = out_ptr + row.to(tl.int64) * stride_out_row + heads[:, None] * stride_out_head + dims[None, :]
        result = tl.where(some[:, None], acc / safe_sum[:, None], 0.0)
        tl.store(final, result.to(out_ptr.dtype.element_ty), mask=real_head[:, None] & (dims < NOPE)[None, :])
        if PACKED:
            final = (
                out_ptr
                + row.to(tl.int64) * stride_out_row
                + heads[:, None] * stride_out_head
                + NOPE
                + rope_dims[None, :]
            )
            result = tl.where(some[:, None], acc_rope / safe_sum[:, None], 0.0)
            tl.store(final, result.to(out_ptr.dtype.element_ty), mask=real_head[:, None])
        tl.store(lse_ptr + row * HEADS + heads, lse2 * 0.6931471805599453, mask=real_head)
    else:
        slot_out = (row.to(tl.int64) * HEADS + heads) * splits + split
        tl.store(
            out_ptr + slot_out[:, None] * V_DIM + dims[None, :],
            (acc / safe_sum[:, None]).to(out_ptr.dtype.element_ty),
            mask=real_head[:, None] & some[:, None] & (dims < NOPE)[None, :],
        )
        if PACKED:
            tl.store(
                out_ptr + slot_out[:, None] * V_DIM + NOPE + rope_dims[None, :],
                (acc_rope / safe_sum[:, None]).to(out_ptr.dtype.element_ty),
                mask=real_head[:, None] & some[:, None],
            )
        lse2 = tl.where(some, top + tl.log2(safe_sum), float("-inf"))
        tl.store(lse_ptr + slot_out, lse2, mask=real_head)

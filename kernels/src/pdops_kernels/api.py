# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Decode attention by plan, into buffers that the caller owns.

Nothing here allocates on the device, synchronizes, or looks at device data: every call may be captured in a CUDA
graph, and replays with other lengths and indices. Shapes, dtypes and strides are checked on each call; a wrong one
raises ValueError with one sentence. Indices and page numbers are the caller's duty: check_indices reads them (and
synchronizes) for debugging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton

from .configs import KINDS, MERGE_WARPS
from .gqa import gqa_split
from .machine import Machine, machine_for
from .merge import merge_splits
from .mla import mla_split
from .packed import ROPE, TOKEN_BYTES
from .plan import Plan

LOG2E = math.log2(math.e)

# Triton's interpreter carries bfloat16 as uint16 and multiplies the bits: dots come out finite and wrong, without a
# warning. Under the interpreter all operands are therefore widened first; compiled kernels never are.
INTERPRETED = bool(triton.knobs.runtime.interpret)


def _launch(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    kernel[grid](*args, **options)


# Said outright, because the default comes from the environment and changes in Triton 3.10.
FP_FUSION = True


# Replaced by offline.py, which compiles the very same calls without a GPU.
launch: Callable[[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]], None] = _launch


def current_machine(device: torch.device | None = None) -> Machine:
    """The machine of a CUDA device. RuntimeError without one, ValueError for an architecture without limits."""
    if not torch.cuda.is_available():
        raise RuntimeError(
            "No CUDA device is visible: name a machine (pdops_kernels.machine.MACHINES) to plan without one."
        )
    props = torch.cuda.get_device_properties(device)
    return machine_for(props.major * 10 + props.minor, props.multi_processor_count)


@dataclass(frozen=True)
class Stream:
    """One KV stream of MLA decode.

    kv: kind mla_packed: uint8 (or e4m3) [pages, page_stride bytes], page_stride >= page * 584, see packed.py;
        else [pages, page, dim + rope] of q's dtype, any page stride.
    indices: int32. Sparse: [rows, cap] token slots (page number * page + offset), negative entries are holes.
        Dense: [seqs, ceil(cap / page)] page numbers.
    lengths: int32 [seqs]: how many index entries (sparse) or tokens (dense) count. 0 is allowed. Above the plan's cap
        a sparse list ends at the cap, as in SGLang's own kernel; a dense row becomes NaN, never a shorter context.
    page: tokens per page.
    """

    kv: torch.Tensor
    indices: torch.Tensor
    lengths: torch.Tensor
    page: int


@dataclass(frozen=True)
class Workspace:
    """Partials of one launch; reusable for every plan that fits, on one CUDA stream at a time."""

    out: torch.Tensor
    lse: torch.Tensor

    @staticmethod
    def allocate(plans: Sequence[Plan], device: torch.device | str, dtype: torch.dtype = torch.float32) -> Workspace:
        """Buffers large enough for each of `plans`. dtype of the partial outputs: float32, or bfloat16 to halve
        their traffic (costs about one more bfloat16 rounding)."""
        return Workspace(
            torch.empty(max([p.partial_out_numel for p in plans] + [1]), dtype=dtype, device=device),
            torch.empty(max([p.partial_lse_numel for p in plans] + [1]), dtype=torch.float32, device=device),
        )


def _require(truth: bool, sentence: str) -> None:
    if not truth:
        raise ValueError(sentence)


FLOATS = (torch.bfloat16, torch.float16, torch.float32)
PACKED_DTYPES = (torch.uint8, torch.float8_e4m3fn)


def _apart(tensor: torch.Tensor) -> bool:
    """Whether no two elements of a [rows, heads, dim] tensor share memory, and heads lie within 32 bit offsets."""
    (rows, heads, dim), (by_row, by_head, _) = tensor.shape, tensor.stride()
    if (heads - 1) * by_head >= 2**31:
        return False
    if heads == 1 or by_head >= dim:
        inner = (heads - 1) * by_head + dim
        if rows == 1 or by_row >= inner:
            return True
    return by_row >= dim and (heads == 1 or by_head >= (rows - 1) * by_row + dim)


def _check_common(
    plan: Plan, q: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, workspace: Workspace | None,
    sink: torch.Tensor | None, rows_per_seq: int, scale: float,
) -> None:  # fmt: skip
    shape, kind = plan.shape, KINDS[plan.shape.kind]
    want = (shape.rows, shape.heads, kind.dim + kind.rope)
    _require(tuple(q.shape) == want, f"q is {tuple(q.shape)}, the plan {shape.key} wants {want}.")
    _require(q.dtype in FLOATS, f"q has dtype {q.dtype}, wanted a 16 or 32 bit float.")
    _require(q.stride(2) == 1 and (shape.heads - 1) * q.stride(1) < 2**31,
             f"q has strides {q.stride()}: it must be contiguous in its last dimension, with heads within 2**31 elements.")  # fmt: skip
    _require(not q.is_cuda or q.device.index == torch.cuda.current_device(),
             f"q is on {q.device}, which is not the current CUDA device: a kernel would start on the other.")  # fmt: skip
    _require(tuple(out.shape) == (shape.rows, shape.heads, kind.dim) and out.stride(2) == 1,
             f"out is {tuple(out.shape)} strides {out.stride()}, wanted {(shape.rows, shape.heads, kind.dim)} with the last contiguous.")  # fmt: skip
    _require(out.dtype in FLOATS, f"out has dtype {out.dtype}, wanted a 16 or 32 bit float.")
    _require(_apart(out), f"out has strides {out.stride()}: its rows and heads must not share memory.")
    _require(math.isfinite(scale), f"scale={scale} is not a finite number.")
    _require(tuple(lse.shape) == (shape.rows, shape.heads) and lse.dtype == torch.float32 and lse.is_contiguous(),
             f"lse must be contiguous float32 {(shape.rows, shape.heads)}.")  # fmt: skip
    _require(
        rows_per_seq >= 1 and shape.rows % rows_per_seq == 0,
        f"rows_per_seq={rows_per_seq} does not divide rows={shape.rows}.",
    )
    if not plan.direct:
        _require(workspace is not None, f"The plan {shape.key} has {plan.splits} splits and needs a workspace.")
        assert workspace is not None
        _require(workspace.out.numel() >= plan.partial_out_numel and workspace.lse.numel() >= plan.partial_lse_numel,
                 f"The workspace is too small for {shape.key}: it needs {plan.partial_out_numel} and {plan.partial_lse_numel} elements.")  # fmt: skip
        _require(workspace.lse.dtype == torch.float32 and workspace.out.dtype in (torch.float32, torch.bfloat16),
                 "The workspace must be float32 (its out may be bfloat16).")  # fmt: skip
        _require(workspace.out.is_contiguous() and workspace.lse.is_contiguous(), "The workspace must be contiguous.")
    if sink is not None:
        _require(tuple(sink.shape) == (shape.heads,) and sink.dtype == torch.float32 and sink.is_contiguous(),
                 f"sink must be contiguous float32 ({shape.heads},).")  # fmt: skip
    others = [out, lse] + ([sink] if sink is not None else []) + ([workspace.out, workspace.lse] if workspace else [])
    _require(all(t.device == q.device for t in others), f"All tensors must be on {q.device}.")


def _check_list(
    name: str, indices: torch.Tensor, lengths: torch.Tensor, rows: int, seqs: int, width: int, device: torch.device
) -> None:
    _require(indices.ndim == 2 and indices.shape[0] == rows and indices.shape[1] >= width and indices.stride(1) == 1,
             f"{name} is {tuple(indices.shape)}, wanted ({rows}, {width} or more) with contiguous rows.")  # fmt: skip
    _require(
        tuple(lengths.shape) == (seqs,) and lengths.is_contiguous(), f"lengths of {name} must be contiguous ({seqs},)."
    )
    _require(indices.dtype == torch.int32 and lengths.dtype == torch.int32, f"{name} and its lengths must be int32.")
    _require(indices.device == device and lengths.device == device, f"{name} and its lengths must be on {device}.")


def mla_decode(
    q: torch.Tensor,
    streams: Sequence[Stream],
    *,
    plan: Plan,
    out: torch.Tensor,
    lse: torch.Tensor,
    scale: float,
    workspace: Workspace | None = None,
    sink: torch.Tensor | None = None,
    dense: bool = False,
    rows_per_seq: int = 1,
) -> None:
    """Decode attention over one latent KV head, written to `out` and `lse`.

    q [rows, heads, dim + rope]; kind mla_packed wants bfloat16, others the dtype of kv.
    streams: as many as plan.shape.caps; dense takes one.
    out [rows, heads, dim]; lse [rows, heads] float32, natural logarithm, without the sink. A row with no valid token
        gets out 0 and lse -inf, with or without a sink. NaN in a valid token or in q becomes NaN in out and lse.
    sink [heads] float32: adds exp(sink) to each row's denominator.
    rows_per_seq: speculative rows; row r belongs to sequence r // rows_per_seq. Sparse rows have their own index
        lists and share the sequence's length; in a dense batch the last row of a sequence sees all its tokens and
        each earlier row one less.
    """
    shape, kind = plan.shape, KINDS[plan.shape.kind]
    _require(kind.family == "mla", f"The plan {shape.key} is not of an MLA kind.")
    _check_common(plan, q, out, lse, workspace, sink, rows_per_seq, scale)
    _require(
        len(streams) == len(shape.caps), f"{len(streams)} KV streams given, the plan {shape.key} has {len(shape.caps)}."
    )
    _require(not dense or len(streams) == 1, "A dense batch has one KV stream.")
    seqs = shape.rows // rows_per_seq
    for i, (stream, cap) in enumerate(zip(streams, shape.caps, strict=True)):
        name = f"indices of stream {i + 1}"
        width = -(-cap // stream.page) if dense else cap
        _check_list(name, stream.indices, stream.lengths, seqs if dense else shape.rows, seqs, width, q.device)
        _require(
            stream.page >= 1 and stream.page & (stream.page - 1) == 0, f"page={stream.page} is not a power of two."
        )
        kv = stream.kv
        _require(kv.device == q.device, f"kv of stream {i + 1} must be on {q.device}.")
        if kind.packed:
            _require(
                kv.dtype in PACKED_DTYPES, f"kv of stream {i + 1} has dtype {kv.dtype}, wanted uint8 or float8_e4m3fn."
            )
            _require(kv.ndim == 2 and kv.stride(1) == 1 and kv.shape[1] >= stream.page * TOKEN_BYTES,
                     f"kv of stream {i + 1} must be bytes [pages, {stream.page * TOKEN_BYTES} or more], is {kv.dtype} {tuple(kv.shape)}.")  # fmt: skip
            _require(kv.stride(0) % 16 == 0 and kv.data_ptr() % 16 == 0,
                     f"kv of stream {i + 1} has a page stride of {kv.stride(0)} bytes: that and its address must be multiples of 16.")  # fmt: skip
            _require(q.dtype == torch.bfloat16 or INTERPRETED, f"kind mla_packed wants q in bfloat16, got {q.dtype}.")
        else:
            width = kind.dim + kind.rope
            _require(kv.ndim == 3 and kv.shape[1:] == (stream.page, width) and kv.stride(2) == 1 and kv.stride(1) == width,
                     f"kv of stream {i + 1} is {tuple(kv.shape)}, wanted (pages, {stream.page}, {width}) with contiguous pages.")  # fmt: skip
            _require(kv.dtype == q.dtype, f"kv of stream {i + 1} is {kv.dtype}, q is {q.dtype}.")
    one, two = streams[0], streams[-1]
    kvs = [s.kv if s.kv.dtype == torch.uint8 or not kind.packed else s.kv.view(torch.uint8) for s in (one, two)]
    some = lse if sink is None else sink  # an unused pointer still needs a tensor
    args = (
        q, kvs[0], one.indices, one.lengths, kvs[1], two.indices, two.lengths, some,
        out if plan.direct else workspace.out, lse if plan.direct else workspace.lse,  # type: ignore[union-attr]
        scale * LOG2E, q.stride(0), q.stride(1), one.kv.stride(0), one.indices.stride(0), two.kv.stride(0),
        two.indices.stride(0), out.stride(0), out.stride(1), plan.splits, plan.tiles_per_split, rows_per_seq,
        shape.caps[0], shape.caps[-1],
    )  # fmt: skip
    config = plan.config
    options = {
        "HEADS": shape.heads, "BLOCK_H": config.block_h,
        "BLOCK_N": config.block_n, "PAGE": one.page, "PAGE2": two.page, "V_DIM": kind.dim, "ROPE": kind.rope or (ROPE if kind.packed else 0),
        "PACKED": kind.packed, "SPARSE": not dense, "EXTRA": len(streams) == 2, "SINK": sink is not None,
        "DIRECT": plan.direct, "UPCAST": INTERPRETED, "num_warps": config.warps, "num_stages": config.stages, "enable_fp_fusion": FP_FUSION,
    }  # fmt: skip
    launch(mla_split, plan.grid, args, options)
    _merge(plan, workspace, out, lse, sink)


def gqa_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    *,
    plan: Plan,
    out: torch.Tensor,
    lse: torch.Tensor,
    scale: float,
    workspace: Workspace | None = None,
    sink: torch.Tensor | None = None,
    rows_per_seq: int = 1,
) -> None:
    """Decode attention with grouped query heads over a paged cache.

    q [rows, heads, dim]; k and v [pages, page, kv_heads, dim] of q's dtype, page a power of two, equal page strides;
    table int32 [seqs, ceil(cap / page)]; lengths int32 [seqs]. The rest as in mla_decode (dense).
    """
    shape, kind = plan.shape, KINDS[plan.shape.kind]
    _require(kind.family == "gqa", f"The plan {shape.key} is not of a GQA kind.")
    _check_common(plan, q, out, lse, workspace, sink, rows_per_seq, scale)
    _require(k.ndim == 4 and k.shape == v.shape and k.shape[2:] == (shape.kv_heads, kind.dim),
             f"k is {tuple(k.shape)} and v {tuple(v.shape)}, wanted (pages, page, {shape.kv_heads}, {kind.dim}).")  # fmt: skip
    inner = (shape.kv_heads * kind.dim, kind.dim, 1)
    _require(k.stride()[1:] == inner and v.stride()[1:] == inner and k.stride(0) == v.stride(0),
             "k and v must have contiguous pages and the same page stride.")  # fmt: skip
    _require(k.dtype == v.dtype == q.dtype, f"k is {k.dtype}, v {v.dtype}, q {q.dtype}: they must be equal.")
    _require(k.device == q.device and v.device == q.device, f"k and v must be on {q.device}.")
    page = k.shape[1]
    _require(page >= 1 and page & (page - 1) == 0, f"page={page} is not a power of two.")
    seqs = shape.rows // rows_per_seq
    _check_list("table", table, lengths, seqs, seqs, -(-shape.caps[0] // page), q.device)
    args = (
        q, k, v, table, lengths, lse if sink is None else sink,
        out if plan.direct else workspace.out, lse if plan.direct else workspace.lse,  # type: ignore[union-attr]
        scale * LOG2E, q.stride(0), q.stride(1), k.stride(0), table.stride(0), out.stride(0), out.stride(1),
        plan.splits, plan.tiles_per_split, rows_per_seq, shape.caps[0],
    )  # fmt: skip
    config = plan.config
    options = {
        "HEADS": shape.heads, "KV_HEADS": shape.kv_heads, "BLOCK_H": config.block_h,
        "BLOCK_N": config.block_n, "PAGE": page, "DIM": kind.dim, "SINK": sink is not None, "DIRECT": plan.direct,
        "UPCAST": INTERPRETED, "num_warps": config.warps, "num_stages": config.stages, "enable_fp_fusion": FP_FUSION,
    }  # fmt: skip
    launch(gqa_split, plan.grid, args, options)
    _merge(plan, workspace, out, lse, sink)


def _merge(
    plan: Plan, workspace: Workspace | None, out: torch.Tensor, lse: torch.Tensor, sink: torch.Tensor | None
) -> None:
    if plan.direct:
        return
    assert workspace is not None
    args = (
        workspace.out,
        workspace.lse,
        lse if sink is None else sink,
        out,
        lse,
        out.stride(0),
        out.stride(1),
        plan.splits,
    )
    options = {
        "HEADS": plan.shape.heads,
        "DIM": KINDS[plan.shape.kind].dim,
        "SINK": sink is not None,
        "num_warps": MERGE_WARPS,
        "enable_fp_fusion": FP_FUSION,
    }
    launch(merge_splits, (plan.shape.rows * plan.shape.heads,), args, options)


def check_indices(stream: Stream, dense: bool = False) -> None:
    """For debugging: ValueError when a valid index points outside kv, or a length is negative or reaches beyond the
    index list. Reads device data, so it synchronizes."""
    pages = stream.kv.shape[0]
    lengths = stream.lengths.long()
    most = stream.indices.shape[1] * (stream.page if dense else 1)
    wrong = ((lengths < 0) | (lengths > most)).nonzero()
    if len(wrong):
        seq = int(wrong[0, 0])
        raise ValueError(f"Length {int(lengths[seq])} of sequence {seq} is not from 0 to {most}.")
    width = torch.arange(stream.indices.shape[1], device=stream.indices.device)
    used = -(-lengths // stream.page) if dense else lengths
    rows = stream.indices.shape[0] // stream.lengths.shape[0]
    counted = width[None] < used.repeat_interleave(rows)[:, None]
    limit = pages if dense else pages * stream.page
    bad = counted & (stream.indices >= limit) | (counted & (stream.indices < 0) if dense else torch.zeros_like(counted))
    if bool(bad.any()):
        row, column = (int(x) for x in bad.nonzero()[0])
        raise ValueError(f"Index {int(stream.indices[row, column])} at row {row}, column {column} is outside {limit}.")

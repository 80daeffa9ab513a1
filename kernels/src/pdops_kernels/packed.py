# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The packed fp8 KV page: 584 bytes a token, in the layout of SGLang's DeepSeek-V4 pool.

A page of P tokens is P x 576 bytes of data (448 e4m3 values, then 64 bfloat16 values), then P x 8 bytes of scales
(7 e8m0 exponents, one per 64 e4m3 values, and one pad byte), then padding to a multiple of 576 bytes. The value of
an e4m3 entry is entry * 2^(exponent - 127). Source: sglang 0.5.23, kernels/ops/attention/flash_mla_sm120.py.
"""

from __future__ import annotations

import torch

NOPE, ROPE, DIM = 448, 64, 512
DATA_BYTES, SCALE_BYTES = 576, 8
TOKEN_BYTES = DATA_BYTES + SCALE_BYTES


def page_bytes(page: int) -> int:
    """Bytes of one page of `page` tokens, padding included."""
    return -(-page * TOKEN_BYTES // DATA_BYTES) * DATA_BYTES


def pack(kv: torch.Tensor, page: int) -> torch.Tensor:
    """Quantize kv [pages * page, 512] (float) into uint8 pages [pages, page_bytes(page)].

    The scale of a group is the least power of two that brings it within e4m3's 448. Padding is 0xFF (NaN in
    every format), so that a kernel that reads it fails its test. Raises ValueError on another shape.
    """
    if kv.ndim != 2 or kv.shape[1] != DIM or kv.shape[0] % page:
        raise ValueError(f"pack() wants kv of [n * {page}, {DIM}], got {tuple(kv.shape)}.")
    tokens = kv.shape[0]
    groups = kv[:, :NOPE].float().reshape(tokens, NOPE // 64, 64)
    exponent = torch.ceil(torch.log2(groups.abs().amax(-1).clamp_min(1e-30) / 448.0)).clamp(-126, 127)
    values = (groups / torch.exp2(exponent)[..., None]).to(torch.float8_e4m3fn)
    pages = torch.full((tokens // page, page_bytes(page)), 0xFF, dtype=torch.uint8, device=kv.device)
    data = pages[:, : page * DATA_BYTES].view(-1, page, DATA_BYTES)
    data[..., :NOPE] = values.reshape(-1, page, NOPE).view(torch.uint8)
    data[..., NOPE:] = kv[:, NOPE:].to(torch.bfloat16).contiguous().view(torch.uint8).reshape(-1, page, 2 * ROPE)
    scales = pages[:, page * DATA_BYTES : page * TOKEN_BYTES].view(-1, page, SCALE_BYTES)
    scales[..., :7] = (exponent + 127).to(torch.uint8).reshape(-1, page, 7)
    return pages


def unpack(pages: torch.Tensor, page: int) -> torch.Tensor:
    """The exact float64 values of packed pages [n, >= page * 584] uint8: [n * page, 512]."""
    data = pages[:, : page * DATA_BYTES].reshape(-1, DATA_BYTES)
    scales = pages[:, page * DATA_BYTES : page * TOKEN_BYTES].reshape(-1, SCALE_BYTES)[:, :7]
    nope = data[:, :NOPE].contiguous().view(torch.float8_e4m3fn).float().double().reshape(-1, 7, 64)
    nope = nope * torch.exp2(scales.double() - 127.0)[..., None]
    rope = data[:, NOPE:].contiguous().view(torch.bfloat16).double()
    return torch.cat([nope.reshape(-1, NOPE), rope], dim=1)

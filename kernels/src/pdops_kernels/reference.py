# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The same attention in float64, row by row, in the plainest way: what the kernels are judged by."""

from __future__ import annotations

import torch


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, sink: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """One query row. q [heads, d], k [heads or 1, n, d], v [heads or 1, n, dv], sink [heads] or None.

    Returns out [heads, dv] and lse [heads] (natural, without the sink), float64. With n = 0 out is 0 and lse -inf.
    """
    heads = q.shape[0]
    if k.shape[1] == 0:
        return torch.zeros(heads, v.shape[-1], dtype=torch.float64), torch.full((heads,), -torch.inf).double()
    scores = (q.double()[:, None, :] * k.double()).sum(-1) * scale
    lse = torch.logsumexp(scores, -1)
    below = lse if sink is None else torch.logaddexp(lse, sink.double())
    return (torch.exp(scores - below[:, None])[..., None] * v.double()).sum(1), lse


def mla(
    q: torch.Tensor,
    streams: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    scale: float,
    v_dim: int = 512,
    sink: torch.Tensor | None = None,
    rows_per_seq: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sparse MLA. q [rows, heads, d]; each stream is (kv [slots, d] float64, indices [rows, cap], lengths [seqs])."""
    outs, lses = [], []
    for row in range(q.shape[0]):
        tokens = []
        for kv, indices, lengths in streams:
            chosen = indices[row, : int(lengths[row // rows_per_seq])].long()
            tokens.append(kv[chosen[chosen >= 0]])
        kv_row = torch.cat(tokens)[None]
        out, lse = attend(q[row], kv_row, kv_row[..., :v_dim], scale, sink)
        outs.append(out)
        lses.append(lse)
    return torch.stack(outs), torch.stack(lses)


def dense_rows(
    table: torch.Tensor, lengths: torch.Tensor, page: int, rows: int, rows_per_seq: int
) -> list[torch.Tensor]:
    """Slots that each row of a dense paged batch sees: the last row of a sequence all, each earlier one fewer."""
    slots = []
    for row in range(rows):
        seq = row // rows_per_seq
        seen = max(int(lengths[seq]) - (rows_per_seq - 1 - row % rows_per_seq), 0)
        pos = torch.arange(seen)
        slots.append(table[seq].long()[pos // page] * page + pos % page)
    return slots


def mla_dense(
    q: torch.Tensor, kv: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page: int, scale: float,
    v_dim: int = 512, sink: torch.Tensor | None = None, rows_per_seq: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Dense paged MLA. kv [slots, d]; table [seqs, pages]; lengths [seqs]."""
    slots = dense_rows(table, lengths, page, q.shape[0], rows_per_seq)
    done = [attend(q[r], kv[s][None], kv[s][None, :, :v_dim], scale, sink) for r, s in enumerate(slots)]
    return torch.stack([d[0] for d in done]), torch.stack([d[1] for d in done])


def gqa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page: int,
    scale: float, sink: torch.Tensor | None = None, rows_per_seq: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Dense paged GQA. q [rows, heads, d]; k, v [slots, kv_heads, d]."""
    group = q.shape[1] // k.shape[1]
    slots = dense_rows(table, lengths, page, q.shape[0], rows_per_seq)
    done = []
    for r, s in enumerate(slots):
        k_row, v_row = (t[s].transpose(0, 1).repeat_interleave(group, 0) for t in (k, v))
        done.append(attend(q[r], k_row, v_row, scale, sink))
    return torch.stack([d[0] for d in done]), torch.stack([d[1] for d in done])

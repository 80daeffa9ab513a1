# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The answers of a probe as lines for people: one per request, one per series of a conversation."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..gates.base import FAILED

_HEAD = ("hop", "request", "result", "status", "tokens", "first byte", "longest gap", "total")
_LEFT = 3  # columns of words; the others are numbers
_SIZES = {"page": ", longer than a page", "chunk": ", longer than a chunk"}


def _s(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _tokens(one: Dict[str, Any]) -> str:
    sent, came = one.get("prompt_tokens"), one.get("completion_tokens")
    return "-" if sent is None and came is None else f"{'?' if sent is None else sent}+{'?' if came is None else came}"


def _request(one: Dict[str, Any]) -> List[str]:
    label = f"{one['kind']}, {'streamed' if one['streamed'] else 'whole'}{_SIZES.get(one['size'], '')}"
    status = one.get("status")
    times = [_s(one.get(name)) for name in ("first_byte_s", "gap_max_s", "total_s")]
    return [one["hop"], label, one["verdict"], "-" if status is None else str(status), _tokens(one), *times]


def _worst(rounds: List[Dict[str, Any]], name: str) -> Optional[float]:
    found = [one[name] for one in rounds if one.get(name) is not None]
    return max(found) if found else None


def _series(name: str, rounds: List[Dict[str, Any]]) -> List[str]:
    """The slowest of its rounds; of a failed one the last."""
    last = rounds[-1]
    label = f"{len(rounds)} rounds, {'kept connection' if name == 'kept' else 'fresh connections'}"
    if last["verdict"] == FAILED:
        label = f"round {last['round']}, {'kept connection' if name == 'kept' else 'fresh connections'}"
        rounds = [last]
    times = [_s(_worst(rounds, field)) for field in ("first_byte_s", "gap_max_s", "total_s")]
    status = "-" if last["status"] is None else str(last["status"])
    return [last["hop"], label, last["verdict"], status, _tokens(last), *times]


def table(answers: List[Dict[str, Any]], talk: Optional[Dict[str, Any]]) -> List[str]:
    """Lines of one table, without trailing blanks. Times of a series are those of its slowest round."""
    rows = [list(_HEAD)] + [_request(one) for one in answers]
    rounds = talk["rounds"] if talk is not None else []
    for name in ("kept", "fresh"):
        mine = [one for one in rounds if one["series"] == name]
        if mine:
            rows.append(_series(name, mine))
    if talk is not None:
        for one in talk["tried"]:
            row = _request(one)
            row[1] = f"the same round, {one['connection']} connection"
            rows.append(row)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines

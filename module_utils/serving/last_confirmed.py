# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The knobs at the last confirmed change as the machine knows them, for when the controller died before it wrote them down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from .. import knobs as knob_rules
from ..change import who
from ..change.book import Book
from ..deployment import Instance
from ..managed.knob_block import is_managed, knobs_of
from ..pdops_error import PdopsError

#: Without a content that was written whole, older ones say too little to begin with.
MOST_MOVES = 50


@dataclass(frozen=True)
class Last:
    """What one instance's script had at a confirmed change; ``at`` is ISO 8601 in UTC."""

    knobs: Mapping[str, str]
    change_id: str
    actor: str
    at: str


def moves_of(book: Book, instance: Instance) -> list[dict[str, Any]]:
    """Confirmed changes that wrote the instance's script, oldest first, from the last that wrote it whole; secrets left out.

    Each is ``{id, who, at, whole, knobs}``: ``whole`` has all knobs when a managed script was written whole, else None, and ``knobs``
    those that were changed (None: unset).
    """
    moves: list[dict[str, Any]] = []
    for record in book.all():
        for item in record["files"] if record["state"] == "confirmed" else ():
            if (item["instance"], item["path"]) != (instance.name, instance.serve_script) or item.get("kind") == "unit":
                continue
            whole = _whole(book, item)
            if whole is not None or item.get("kind") == "script":
                moves = []  # what was before tells nothing more
            if whole is None and item.get("kind") == "script":
                continue
            changed = {name: both[1] for name, both in (item.get("knobs") or {}).items()}
            moves.append(
                {
                    "id": record["id"],
                    "who": who.told(record["leader"]),
                    "at": record.get("ended") or record["opened"],
                    "whole": whole,
                    "knobs": {name: value for name, value in changed.items() if not knob_rules.is_secret(name)},
                }
            )
    return moves[-MOST_MOVES:]


def _whole(book: Book, item: Mapping[str, Any]) -> Optional[dict[str, str]]:
    if item.get("kind") != "script":
        return None
    try:
        content = book.store.content(item["sha256_after"])
        found = knobs_of(content) if is_managed(content) else None
    except PdopsError:
        return None  # gone or damaged: nothing is guessed
    return found and {name: value for name, value in found.items() if not knob_rules.is_secret(name)}


def caught_up(
    moves: Sequence[Mapping[str, Any]], written: Optional[Mapping[str, str]], change_id: Optional[str]
) -> Optional[Last]:
    """What the machine confirmed after ``change_id``, the change whose values are written down (None: none are).

    None when nothing was, or when the values before it are not known. Ids sort by time.
    """
    names = [str(move["id"]) for move in moves]
    newer = moves[names.index(change_id) + 1 :] if change_id in names else moves
    known = None if written is None else dict(written)
    last: Optional[Last] = None
    for move in newer:
        if change_id is not None and str(move["id"]) <= change_id:
            continue
        if move["whole"] is not None:
            known = dict(move["whole"])
        elif known is not None:
            for name, value in move["knobs"].items():
                known.pop(name, None)
                if value is not None:
                    known[name] = value
        if known is not None:
            last = Last(dict(known), str(move["id"]), str(move["who"]), str(move["at"]))
    return last

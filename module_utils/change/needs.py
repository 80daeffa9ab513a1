# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which stored contents changes may still have to put back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ..pdops_error import PdopsError
from . import record as rules
from . import who
from .book import Book


def _contents(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for item in record["files"]:
        for sha256 in (item["sha256_before"], item["sha256_after"], *item.get("ours", [])):
            yield str(item["path"]), str(sha256)


def contents_needed(book: Book) -> dict[str, str]:
    """Every content that a change refers to and may need, by sha256, with the reason as half a sentence.

    Those are the old and the new contents of changes that are open or rolling back, and of changes whose rollback failed, until a
    later change of the same script has ended well: until then such a rollback may be tried again.

    Raises :class:`PdopsError` when a record cannot be read: it may be that of the open change.
    """
    needed: dict[str, str] = {}
    settled: set[str] = set()
    for record in reversed(book.all()):
        if record["state"] in rules.OPEN:
            needed.update((sha256, f"change {record['id']} is {record['state']}") for _, sha256 in _contents(record))
        elif record["state"] == "rollback-failed":
            reason = f"the rollback of change {record['id']} failed and may be tried again"
            needed.update((sha256, reason) for path, sha256 in _contents(record) if path not in settled)
        elif record["state"] == "confirmed" or (record["state"] == "rolled-back" and record["touched"]):
            settled.update(path for path, _ in _contents(record))
    return needed


def refuse_held(book: Book, path: str, change_id: str | None) -> None:
    """Refuse to touch a script in the middle of somebody's change; ``change_id`` is the one that this belongs to."""
    for record in book.all():
        if record["state"] not in rules.OPEN or record["id"] == change_id:
            continue
        held = {str(item["path"]) for item in record["files"]}
        held |= {str(item["serve_script"]) for item in record["instances"]}
        if os.path.realpath(path) in {os.path.realpath(each) for each in held}:
            raise PdopsError(
                f"{path} is in the hands of change {record['id']} ({record['summary']}) of {who.told(record['leader'])}, "
                f"which is {record['state']}; wait for it to end, then run again.",
                held_by=rules.summary_of(record),
            )

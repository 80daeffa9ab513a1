# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Compares the script on the machine with the last confirmed change and with what is wanted: knobs and all other lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from ..pdops_error import PdopsError
from ..store.store import Store
from .fixed_part import refuse_lost_lines
from .knob_block import knobs_of
from .three_way import Decision, three_way, who_moved


@dataclass(frozen=True)
class Comparison:
    """What an edit on the machine is told by: the knobs at the last confirmed change (None: none is on record) and that
    change's id, by which the store has its script. ``take`` decides conflicts."""

    confirmed: Optional[Mapping[str, str]] = None
    change_id: Optional[str] = None
    take: Optional[str] = None


def compared(
    path: str, rendered: bytes, wanted: Mapping[str, str], comparison: Comparison, store: Store, present: bytes
) -> tuple[Decision, ...]:
    """The decision on each knob.

    :param rendered: what the template gives, before ``wanted`` is filled in
    :raises PdopsError: lines beside the knobs would be lost, or a knob of the machine cannot be compared
    """
    take = comparison.take
    written = knobs_of(rendered, "the rendered script")
    confirmed_script = _confirmed_script(path, comparison, store)
    host: Optional[dict[str, str]]
    try:
        host = knobs_of(present, path)
    except PdopsError:
        if take != "vars":
            raise
        host = None
    base: Optional[dict[str, str]] = None
    if comparison.confirmed is not None:
        # What the template exports is in no record of knobs; the confirmed script tells it.
        then = knobs_of(confirmed_script, "the confirmed script") if confirmed_script is not None else {}
        base = {**{name: then[name] for name in written if name in then}, **comparison.confirmed}
    decisions = three_way(base, host, {**written, **wanted}, take, who_moved(store.journal(), path, host or {}))
    if not any(row.act == "conflict" for row in decisions):  # those are told first
        refuse_lost_lines(path, confirmed_script, present, rendered, take)
    return decisions


def _confirmed_script(path: str, comparison: Comparison, store: Store) -> Optional[bytes]:
    """The content that the last confirmed change left, as far as the store has it.

    That change may have written other scripts only; then it is the newest one that an earlier change left with the confirmed
    knobs. (What a change found before its edit is stored, too, and may be somebody's work by hand: it is passed over.)
    """
    if comparison.confirmed is None:
        return None
    versions = store.versions(path)
    of_it = [item for item in versions if comparison.change_id is not None and item.change_id == comparison.change_id]
    earlier = [item for item in versions if item.change_id is not None and not item.label.startswith("before ")]
    for item in (*of_it[:1], *earlier):
        try:
            content = store.content(item.sha256)
            found = knobs_of(content)
        except PdopsError:
            continue  # damaged, or not readable as a script: an older one may tell
        if item in of_it or comparison.confirmed.items() <= found.items():
            return content
    return None

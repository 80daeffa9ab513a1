# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which contents the store holds, which of them a version names, and which a prune was about to remove."""

from __future__ import annotations

import os
import re
from typing import Optional

from .atomic import read_regular
from .store import Store

_MOST_INDEX_BYTES = 1 << 30
_SHA256 = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def stored_objects(store: Store) -> set[str]:
    folder = os.path.dirname(store.object_path("x"))
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {name for name in names if re.fullmatch("[0-9a-f]{64}", name) and os.path.isfile(os.path.join(folder, name))}


def names_in(content: bytes) -> set[str]:
    """Everything in an index that looks like a sha256, also in lines that are damaged."""
    return {found.decode() for found in _SHA256.findall(content)}


def named_contents(store: Store, but: Optional[str] = None) -> set[str]:
    """What the indexes of all files name; without the index ``but``. Raises :class:`PdopsError` when one cannot be read."""
    folder = os.path.dirname(store.index_path("/x"))
    named: set[str] = set()
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        index = os.path.join(folder, name)
        if index != but and os.path.isfile(index):
            named |= names_in(read_regular(index, _MOST_INDEX_BYTES))
    return named


def begun_to_go(store: Store) -> set[str]:
    """Contents that a prune was about to remove when it died, by the journal: begun, and none was done since."""
    meant: set[str] = set()
    for entry in store.journal():
        if entry.get("verb") != "prune":
            continue
        if entry.get("step") == "done":
            meant = set()
        elif isinstance(entry.get("objects"), list):
            meant.update(item for item in entry["objects"] if isinstance(item, str))
    return meant

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The lines of the journal about what is done on a machine outside of any change: before its effect, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..knobs import mask_text
from ..pdops_error import PdopsError
from .store import Store


@dataclass
class Doing:
    """``ended`` is what the last line says besides; ``trouble`` has a sentence for each line that could not be written."""

    ended: dict[str, Any] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)


@contextmanager
def journaled(store: Store, row: Mapping[str, Any], must: bool = True, begun: bool = False) -> Iterator[Doing]:
    """Write ``step: begin`` before what is done within, and ``step: done`` after it, or ``step: failed`` with the reason.

    A run that dies in between leaves the first line alone, which is what is known of it. What failed raises as ever.

    :param row: ``verb`` (the module), ``actor``, and what it is about; texts are masked. Empty ones are left out
    :param must: refuse with nothing done where the first line cannot be written; False for what mends a deployment, which must not
        wait for that: then it is trouble
    :param begun: the first line was written by an earlier call
    :raises PdopsError: the journal cannot be written, and must be
    """
    doing = Doing()
    if not begun:
        try:
            note(store, {**row, "step": "begin"})
        except PdopsError as error:
            if must:
                raise
            doing.trouble.append(str(error))
    try:
        yield doing
    except PdopsError as error:
        _try(store, {**row, **doing.ended, "step": "failed", "said": str(error)}, doing)
        raise
    _try(store, {**row, **doing.ended, "step": "done"}, doing)


def note(store: Store, row: Mapping[str, Any]) -> None:
    """One line, its texts masked and without what is empty; :class:`PdopsError` when it cannot be written."""
    store.write_journal({name: _masked(item) for name, item in row.items() if item not in (None, "", [], {})})


def _try(store: Store, row: Mapping[str, Any], doing: Doing) -> None:
    """What was done is done: that it cannot be told is told otherwise."""
    try:
        note(store, row)
    except PdopsError as error:
        doing.trouble.append(f"{row['verb']}: {row['step']}, which the journal lacks: {error}")


def _masked(item: Any) -> Any:
    if isinstance(item, str):
        return mask_text(item)
    return [_masked(each) for each in item] if isinstance(item, (list, tuple)) else item

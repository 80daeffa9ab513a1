# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps secrets out of entries, on every way in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ..knobs import refuse_secret
from ..report import clean
from ..secret_masking import is_secret, mask_text


def without_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with every secret masked, by name and inside of texts, and without control characters.

    Raises :class:`PdopsError` for a knob whose name is that of a secret: nothing of it belongs into a record.
    """
    if isinstance(entry.get("knob"), str):
        refuse_secret(entry["knob"])
    cleaned = clean.data(clean.without_secrets(entry))
    return dict(cleaned)


def as_recorded(value: Optional[str]) -> Optional[str]:
    """A knob's value as an entry has it: masked, and cut when it is long. What comes from elsewhere is compared in this form.

    A value that an entry has already stays as it is.
    """
    if value is None:
        return None
    cut = _CUT.search(value)
    if cut and cut.start() == clean.MOST_CHARACTERS:
        return clean.text(value[: cut.start()]) + cut[0]
    return clean.text(value)


_CUT = re.compile(r" \.\.\. and \d+ more characters\Z")


def holds_secret(entry: Mapping[str, Any]) -> bool:
    """Whether a text of an entry shows a value that would be masked (by hand somebody may have written anything)."""
    return any(mask_text(text) != text for text in _texts(entry))


def _texts(item: Any) -> Iterator[str]:
    """Every text in an entry, each by itself (quotes around it would be read as part of it); under a key together with the key."""
    if isinstance(item, Mapping):
        for key, inner in item.items():
            yield str(key)
            if isinstance(inner, str) and is_secret(str(key)):
                yield f"{key}={inner}"
            yield from _texts(inner)
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from _texts(inner)
    elif isinstance(item, str):
        yield item

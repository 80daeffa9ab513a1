# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Contents of scripts as people may see them: secrets masked in texts and values.

What compares two contents is in `script_differences`, which brings the parser of scripts with it: most modules only mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Optional

from . import knobs

# Stands between a content and what is shown beside it; no script and no sentence has a NUL followed by this.
_BORDER = "\0 shown beside \0\n"


@lru_cache(maxsize=4)  # one plan shows the same two contents several times
def masked_text(content: bytes) -> str:
    """The whole content; bytes that are no UTF-8 are shown as replacement characters."""
    return knobs.mask_text(content.decode("utf-8", "replace"))


def masked_beside(contents: Iterable[bytes], shown: str) -> str:
    """A sentence or value about scripts: a secret that one of ``contents`` gives away by its name is masked in it too."""
    for content in dict.fromkeys(contents):
        text = content.decode("utf-8", "replace")
        # A content without secrets gives none away; to look through it for each of thousands of knobs takes minutes.
        beside = "" if masked_text(content) == text else text + "\n"
        masked = knobs.mask_text(beside + _BORDER + shown)
        _, border, shown = masked.rpartition(_BORDER)
        if not border:
            # A quote that the script leaves open ran on into what is shown.
            return knobs.MASK
    return shown


def masked_value(contents: Iterable[bytes], name: str, value: Optional[str]) -> Optional[str]:
    """The value of a knob of one of ``contents``, for people; None stays None."""
    if value is None:
        return None
    if knobs.is_secret(name):
        return knobs.MASK
    return masked_beside(contents, value)

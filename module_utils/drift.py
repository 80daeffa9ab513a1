# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The refusal when a script is not what it was when the edit was planned."""

from __future__ import annotations

from typing import Any, Optional

from .pdops_error import PdopsError
from .script_differences import masked_difference, shown_lines, told_lines
from .scripts.diffing import changed_lines
from .store.atomic import sha256_of
from .store.store import Store


def drifted(path: str, store: Store, expected: str, was: Optional[bytes], now: bytes) -> PdopsError:
    """The refusal when a script is not what it was, with what changed, as far as the store can tell.

    :param was: the content with the sha256 ``expected``; None when only the store may have it
    """
    found = sha256_of(now)
    known = next((item for item in store.versions(path) if item.sha256 == found), None)
    who = (
        f"it is version {known.told} by {known.actor or 'somebody'}" if known else "somebody edited it in the meantime"
    )
    details: dict[str, Any] = {"sha256": found}
    what = ""
    try:
        was = store.content(expected) if was is None else was
        lines = shown_lines(was, now, changed_lines(was, now))
        details.update(drift_lines=lines, diff=masked_difference(path, was, now))
        what = f": {told_lines(lines)}"
    except PdopsError:
        pass  # the expected content was never stored; the sentence is clear without it
    return PdopsError(
        f"{path} is not what it was (sha256 {found[:12]}, expected {expected[:12]}): {who}{what}; look at it, then run again.",
        **details,
    )

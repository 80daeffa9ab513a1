# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""JSON that somebody else wrote: an answer of a service, a file that anybody may have edited."""

from __future__ import annotations

import json
from typing import Any, Union

#: Deeper than anything that is meant, and far from where functions that walk through it end with RecursionError.
DEEPEST = 100


def loads(text: Union[str, bytes]) -> Any:
    """The data; ValueError for whatever is no JSON, also for a nesting that would end Python's own reading with RecursionError."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    openers = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if openers > DEEPEST and _is_deep(data):
        raise ValueError("it is nested too deeply")
    return data


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(DEEPEST):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What modules returned, made fit for a page: plain text without control characters, secrets masked, sizes bounded.

Everything that reaches a page goes through here. Escaping for HTML is the template's part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Optional

from ..plain_text import plain
from ..secret_masking import MASK, is_secret, mask_text

#: Longer texts are cut, and the cut is told: a page with a whole log in it is of no use on a phone.
MOST_CHARACTERS = 4000
MOST_ITEMS = 200
_DEEPEST = 8


def text(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Any value as text for people: masked, without control characters, at most ``most`` characters. None is ''."""
    if value is None:
        return ""
    raw = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    raw = raw.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    raw = mask_text(plain(raw))
    if len(raw) > most:
        return f"{raw[:most]} ... and {len(raw) - most} more characters"
    return raw


def lines(values: Any, most: int = 60) -> list[str]:
    """The last ``most`` lines of a log. Masked as one text, so that a secret is masked in the lines that repeat it, too."""
    given = values if isinstance(values, (list, tuple)) else [] if values is None else [values]
    joined = text("\n".join(text(line) for line in given), most=1_000_000)
    found = joined.split("\n") if joined else []
    if len(found) > most:
        return [f"... {len(found) - most} lines before these are left out", *found[-most:]]
    return found


def data(value: Any, depth: int = 0) -> Any:
    """The same data (JSON types) with secrets masked by the names of their keys and inside of texts."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        items = list(value.items())[:MOST_ITEMS]
        return {
            text(key, 200): MASK if is_secret(str(key)) and _tells(item) else data(item, depth + 1)
            for key, item in items
        }
    if isinstance(value, (list, tuple)):
        return [data(item, depth + 1) for item in value[:MOST_ITEMS]]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return text(value)


def pairs(value: Any, most: int = 80) -> list[dict[str, str]]:
    """Nested data as rows ``{name, value}``, names joined with dots; lists of plain values on one line."""
    found: list[dict[str, str]] = []

    def walk(name: str, item: Any) -> None:
        if isinstance(item, Mapping) and item:
            for key, inner in item.items():
                walk(f"{name}.{key}" if name else str(key), inner)
        elif isinstance(item, list) and any(isinstance(inner, (Mapping, list)) for inner in item):
            for at, inner in enumerate(item):
                walk(f"{name}[{at}]", inner)
        else:
            found.append({"name": name, "value": _plain(item)})

    walk("", data(value))
    rows = found if value else []
    if len(rows) > most:
        return [*rows[:most], {"name": "...", "value": f"{len(rows) - most} more"}]
    return rows


def _plain(item: Any) -> str:
    if isinstance(item, list):
        return ", ".join(_plain(inner) for inner in item) or "none"
    if item is None or item == {}:
        return "none"
    return item if isinstance(item, str) else json.dumps(item)


def _tells(item: Any) -> bool:
    """Whether a value under a secret's name is the secret itself, rather than nothing or what was found about it."""
    return isinstance(item, (str, int, float)) and not isinstance(item, bool) and item != ""


def number(value: Any) -> Optional[float]:
    """A finite number, also one that was written as text; otherwise None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def moment(value: Any) -> Optional[float]:
    """A moment in seconds since the epoch, given as such or as ISO 8601 (``2026-11-29T20:06:14Z``); otherwise None."""
    found = number(value)
    if found is not None:
        # Beyond these datetime refuses; no change was led then.
        return found if 0 < found < 2.5e11 else None
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).timestamp()


def without_secrets(given: Any) -> Any:
    """The same data, in which a secret that stands under its name somewhere is masked in every other text, too.

    A log line may hold the bare value of what another part exports. Values of less than six characters may be ordinary words.
    """
    values: set[str] = set()

    def collect(item: Any) -> None:
        if isinstance(item, Mapping):
            for key, inner in item.items():
                if is_secret(str(key)) and isinstance(inner, str):
                    values.add(inner)
                collect(inner)
        elif isinstance(item, (list, tuple)):
            for inner in item:
                collect(inner)
        elif isinstance(item, str):
            values.update(_masked_in(item))

    def replace(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {key: replace(inner) for key, inner in item.items()}
        if isinstance(item, (list, tuple)):
            return [replace(inner) for inner in item]
        if isinstance(item, str):
            for value in known:
                item = item.replace(value, MASK)
        return item

    collect(given)
    known = sorted((value for value in values if len(value) >= 6 and value.strip("*")), key=len, reverse=True)
    return replace(given) if known else given


def _masked_in(raw: str) -> list[str]:
    """What :func:`mask_text` takes out of a text."""
    masked = mask_text(raw)
    if masked == raw:
        return []
    found = []
    at = 0
    pieces = masked.split(MASK)
    for number, piece in enumerate(pieces):
        begin = raw.find(piece, at) if piece else (len(raw) if number == len(pieces) - 1 else at)
        if begin < 0:
            break
        if number:
            found.append(raw[at:begin])
        at = begin + len(piece)
    return found


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []

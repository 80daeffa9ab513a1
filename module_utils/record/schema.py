# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an entry of the record may hold: kinds, fields, and what is refused."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..pdops_error import PdopsError

VERSION = 1
VERDICTS = ("unknown", "trial", "adopted", "rejected", "inconclusive", "suspected", "exonerated", "convicted")
#: What a measurement may say about a value.
MEASURED = ("adopted", "rejected", "inconclusive")
OUTCOMES = ("rolled-back", "rollback-failed", "not-known", "undone")

_ID = re.compile(r"[0-9a-f]{16}")
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_KNOB = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
MOST_TEXT = 4100  # a text that was cut says so behind its first 4000
MOST_REFS = 200
#: Of a figure in percent: a value that is ten thousand times as good was measured wrongly.
MOST_PERCENT = 1_000_000.0

Entry = Mapping[str, Any]


def is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_moment(value: Any) -> bool:
    """Whether a text is a moment that there is: month 99 has the form of one, too."""
    if not isinstance(value, str) or _AT.fullmatch(value) is None:
        return False
    try:
        time.strptime(value[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return False
    return value[:4] >= "1970"


def is_day(value: Any) -> bool:
    if not isinstance(value, str) or _DAY.fullmatch(value) is None:
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MOST_TEXT


def _value(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= MOST_TEXT and "\n" not in value)


def _number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    # Not math.isfinite, which ends with OverflowError for an integer of 400 digits.
    return -MOST_PERCENT <= value <= MOST_PERCENT


def _ids(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_REFS and all(is_id(item) for item in value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_REFS and all(_text(item) for item in value)


def _parts(value: Any) -> bool:
    return isinstance(value, dict) and all(_text(key) and _text(item) for key, item in value.items())


def _losses(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and _text(item.get("load"))
        and _number(item.get("effect_pct"))
        and all(_number(item[key]) for key in ("low_pct", "high_pct") if key in item)
        and set(item) <= {"load", "effect_pct", "low_pct", "high_pct", "simulation"}
        for item in value
    )


#: Field to what it must be, in words, and the check of it.
_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "v": (f"the number {VERSION}", lambda value: value == VERSION and not isinstance(value, bool)),
    "at": ("a moment like 2026-11-29T20:06:13.000000Z", is_moment),
    "kind": ("a kind", lambda value: value in KINDS),
    "deployment": ("the name of a deployment", _matches(_NAME)),
    "by": ("a text", _text),
    "said": ("a text", _text),
    "refs": ("a list of ids of entries", _ids),
    "knob": ("the name of a knob", _matches(_KNOB)),
    "instance": ("the name of an instance", _text),
    "change_id": ("the id of a change", _text),
    "fingerprint": ("texts by name", _parts),
    "simulation": ("true or false", lambda value: isinstance(value, bool)),
    "verb": ("a text", _text),
    "before": ("a text on one line, or null for unset", _value),
    "after": ("a text on one line, or null for unset", _value),
    "value": ("a text on one line, or null for unset", _value),
    "load": ("a text like C64", _text),
    "effect_pct": ("a number of percent", _number),
    "low_pct": ("a number of percent", _number),
    "high_pct": ("a number of percent", _number),
    "cv_pct": ("a number of percent from 0", lambda value: _number(value) and value >= 0),
    "level": ("a number between 0 and 1", lambda value: _number(value) and 0 < value < 1),
    "pairs": (
        "a whole number above 0",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9,
    ),
    "verdict": (f"one of {', '.join(MEASURED)}", lambda value: value in MEASURED),
    "reason": ("a text", _text),
    "suspicion": ("true or false", lambda value: isinstance(value, bool)),
    "review_by": ("a day like 2026-12-13", is_day),
    "forgoing": ("a list of load and effect_pct", _losses),
    "cause": ("a text", _text),
    "found": ("a text", _text),
    "confidence": ("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1),
    "missing": ("a list of texts", _texts),
    "over": ("true", lambda value: value is True),
    "outcome": (f"one of {', '.join(OUTCOMES)}", lambda value: value in OUTCOMES),
}

_ALWAYS = ("v", "at", "kind", "deployment", "by")
_COMMON = ("said", "refs", "knob", "instance", "change_id", "fingerprint", "simulation", "verb")
#: Kind to the fields that it needs, and to those that it may have beside the common ones.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "propose": (("knob", "value"), ("load",)),
    "apply": (("knob", "instance", "before", "after"), ()),
    "measure": (
        ("knob", "value", "load", "effect_pct"),
        ("low_pct", "high_pct", "level", "pairs", "cv_pct", "verdict", "before"),
    ),
    "suspect": (("knob", "said"), ("value",)),
    "triage": (("found",), ("confidence", "missing", "cause")),
    "revert": (("knob", "instance", "before", "after", "reason", "suspicion"), ("review_by", "forgoing")),
    "exonerate": (("knob", "cause"), ("value",)),
    "convict": (("knob", "cause"), ("value",)),
    "restore": (("knob", "instance", "before", "after"), ()),
    "rollback": (("outcome",), ("before", "after", "reason")),
    "observe": ((), ("value", "found", "over")),
    "correct": (("refs", "said"), ()),
    "note": (("said",), ()),
}
_TAKEN = {kind: frozenset((*_ALWAYS, *_COMMON, *needs, *may)) for kind, (needs, may) in KINDS.items()}


def wrong_with(entry: Any) -> str:
    """What is wrong with an entry, without a final period; '' when it is whole."""
    if not isinstance(entry, dict):
        return "it is no mapping"
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return f"its kind {kind!r} is unknown" if "kind" in entry else "it has no kind"
    for name in (*_ALWAYS, *KINDS[kind][0]):
        if name not in entry:
            return f"kind={kind} needs {name}"
    taken = _TAKEN[kind]
    for name, value in entry.items():
        if name not in taken:
            return f"kind={kind} has no {str(name)[:60]!r}"
        words, holds = _FIELDS[name]
        if not holds(value):
            return f"{name} must be {words}"
    if kind == "correct" and not entry["refs"]:
        return "kind=correct needs refs: the entries that are wrong"
    return figures_wrong(entry)


def figures_wrong(entry: Mapping[str, Any]) -> str:
    """What is wrong with the figures of a measurement taken together, without a final period; '' when nothing is."""
    low, high, effect = (entry.get(name) for name in ("low_pct", "high_pct", "effect_pct"))
    if (low is None) != (high is None) or (low is not None and high is not None and low > high):
        return "low_pct and high_pct are the two ends of one interval"
    if low is not None and effect is not None and not low <= effect <= high:
        return (
            f"the effect {effect:g} is not within its interval {low:g}..{high:g}, so one of them is a slip of the pen"
        )
    return ""


def require_whole(entry: Any) -> None:
    wrong = wrong_with(entry)
    if wrong:
        raise PdopsError(f"the entry is refused: {wrong}.")

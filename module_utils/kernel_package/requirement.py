# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Version conditions as METADATA has them, ``>=3.7.1,<3.10``, as far as kernel packages use them. Pure."""

from __future__ import annotations

import re
from typing import Optional

from ..pdops_error import PdopsError

_ONE = re.compile(r"\s*(>=|<=|==|!=|<|>|~=)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?\s*\Z")
_REQUIRES = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\(?([^;)]*)\)?\s*(?:;.*)?\Z")


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``3.7.1+git1`` is (3, 7, 1)."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def fits(version: str, condition: str) -> bool:
    """Whether a version satisfies all parts of a condition; an empty one is always satisfied.

    :raises PdopsError: a part is of a form that is not known here
    """
    have = numbers(version)
    for part in filter(None, (piece.strip() for piece in condition.split(","))):
        match = _ONE.match(part)
        if match is None:
            raise PdopsError(
                f"the condition {part!r} of the wheel is not understood; write it with >=, <, ==, != or ~=."
            )
        sign, want, star = match[1], numbers(match[2]), bool(match[3])
        width = max(len(have), len(want))
        left, right = _padded(have, width), _padded(want, width)
        same = have[: len(want)] == want if star else left == right
        good = {
            ">=": left >= right,
            "<=": left <= right,
            ">": left > right,
            "<": left < right,
            "==": same,
            "!=": not same,
            "~=": left >= right and have[: len(want) - 1] == want[:-1],
        }[sign]
        if not good:
            return False
    return True


def _padded(version: tuple[int, ...], width: int) -> tuple[int, ...]:
    return (*version, *([0] * (width - len(version))))


def requirement_of(lines: tuple[str, ...], name: str) -> Optional[str]:
    """The condition on one distribution in Requires-Dist lines; None when it is not required."""
    for line in lines:
        match = _REQUIRES.match(line)
        if match and match[1].lower().replace("_", "-") == name:
            return match[2].strip()
    return None

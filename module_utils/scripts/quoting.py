# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How a value is written in a script: as the value before it was, when the new one is right in that."""

from __future__ import annotations

import re
from typing import Optional

_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]*\Z")
_SINGLE = re.compile(r"'[^']*'\Z")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*"\Z', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_DOUBLE = re.compile(r'["\\$`]')


def written(value: str, before: Optional[str] = None) -> str:
    """The source text of a value (both Latin-1), in the quotes of ``before`` where the value allows it."""
    if _CONTROL.search(value):
        return "$'" + "".join(_escaped(char) for char in value) + "'"
    if before is not None:
        if _SINGLE.match(before) and "'" not in value:
            return f"'{value}'"
        if _DOUBLE.match(before) and not _NOT_IN_DOUBLE.search(value):
            return f'"{value}"'
    if _BARE.match(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return '"' + _NOT_IN_DOUBLE.sub(lambda match: "\\" + match.group(), value) + '"'


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char in "\r\n":
        return {"\r": "\\r", "\n": "\\n"}[char]
    return f"\\{ord(char):03o}" if _CONTROL.match(char) else char

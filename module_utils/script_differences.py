# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Differences of scripts as people may see them: secrets masked in their lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from . import knobs
from .script_views import masked_text
from .scripts.diffing import ChangedLine, changed_lines

_OTHER_VALUE = f"{knobs.MASK} (another value)"


def shown_lines(before: bytes, after: bytes, lines: Iterable[ChangedLine]) -> list[dict[str, Any]]:
    """Changed lines as ``sign``, ``line`` and ``text``. The lines themselves were compared unmasked, so a secret that
    changed is a changed line."""
    old, new = masked_text(before).split("\n"), masked_text(after).split("\n")
    return [
        {"sign": line.kind, "line": line.line, "text": (old if line.kind == "-" else new)[line.line - 1]}
        for line in lines
    ]


def told_lines(lines: Sequence[dict[str, Any]], most: int = 6) -> str:
    """Changed lines within a sentence."""
    told = "; ".join(f"{line['sign']}{line['line']}: {line['text'].strip()}" for line in lines[:most])
    return told + (f"; and {len(lines) - most} more" if len(lines) > most else "")


def masked_difference(path: str, before: bytes, after: bytes) -> dict[str, str]:
    """Both contents for Ansible's diff. Lines that differ only in a secret say so on the new side."""
    raw = changed_lines(before, after)
    lines = shown_lines(before, after, raw)
    gone = {line["text"] for line in lines if line["sign"] == "-"}
    moved = {line.text for line in raw if line.kind == "-"}
    new = masked_text(after).split("\n")
    for line, unmasked in zip(lines, raw):
        if line["sign"] == "+" and line["text"] in gone and unmasked.text not in moved:
            new[line["line"] - 1] = line["text"].replace(knobs.MASK, _OTHER_VALUE)
    return {"before_header": path, "after_header": path, "before": masked_text(before), "after": "\n".join(new)}


def key_difference(path: str, absent: bool = False) -> dict[str, str]:
    """All that anybody is shown of how a file of keys differs."""
    header = f"{path} (absent)" if absent else path
    return {"before_header": header, "after_header": path, "before": "", "after": "changed (content not shown)\n"}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Seconds, moments and outcomes in words."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Optional

from ..store.atomic import ABSENT
from . import clean
from .story import Story

#: Outcome to its name, its sign (so that color is never alone), and its tone in the style sheet.
OUTCOME_WORDS = {
    "confirmed": ("Confirmed", "✓", "good"),
    "rolled-back": ("Rolled back", "↩", "warn"),
    "rollback-failed": ("Rollback failed", "✕", "bad"),
    "failed": ("Failed", "✕", "bad"),
    "passed": ("Passed", "✓", "good"),
    "refused": ("Refused", "⊘", "warn"),
    "nothing": ("Nothing to do", "–", "calm"),
    "check": ("Check only", "◦", "calm"),
    "unknown": ("Outcome unknown", "?", "warn"),
}

RESULT_WORDS = {
    "passed": ("passed", "✓", "good"),
    "failed": ("failed", "✕", "bad"),
    "not-observable": ("not observable", "?", "warn"),
    "pending": ("not decided", "…", "calm"),
    "ok": ("ok", "✓", "good"),
    "unreachable": ("unreachable", "✕", "bad"),
}


def result_words(result: str) -> tuple[str, str, str]:
    """Word, sign and tone of a result; a result that is not known is shown as it is."""
    return RESULT_WORDS.get(result, (result or "unknown", "·", "calm"))


def duration(seconds: Optional[float]) -> str:
    """`0.4 s`, `16 s`, `4 min 12 s`, `1 h 03 min`; '' when unknown."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def utc(moment: Optional[float], form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A moment as people and files have it; '' when unknown."""
    return "" if moment is None else datetime.fromtimestamp(moment, timezone.utc).strftime(form)


def consequence(story: Story) -> str:
    """How things stand now, in one sentence below the outcome."""
    edits = [clean.mapping(edit) for edit in clean.sequence(story.plan.get("edits"))]
    new = bool(edits) and all(edit.get("sha256_before") == ABSENT for edit in edits)
    touched = any(item.kind in ("stop", "start", "apply", "drain") for item in story.events)
    if story.outcome == "confirmed" and (story.verb == "verify" or not touched):
        return "It is proved; nothing was changed."
    if story.outcome == "passed":
        return "It was asked as clients do; nothing was changed."
    if story.outcome == "confirmed" and not edits:
        return "Each instance that was restarted has passed its gates."
    if story.outcome == "confirmed" and new:
        return "The change is proved by its gates and is final; what it wrote was not there before."
    if story.outcome == "confirmed":
        return "The change is proved by its gates and is final; the old script is kept as a version."
    if story.outcome == "rolled-back" and new:
        return "What it had written was not there before and is gone again."
    if story.outcome == "rolled-back":
        return "The old scripts are back byte for byte, and the instances that were touched serve again."
    if story.outcome == "rollback-failed":
        return "The deployment is neither in the new nor in the old state. Somebody has to look at it now."
    if story.outcome == "refused":
        return "The plan was refused before anything was done; the reason is below."
    if story.outcome == "nothing":
        return "Everything is as it is meant to be; nothing was touched."
    if story.outcome == "check":
        return "This is what a run would do. Nothing was touched."
    if story.outcome == "failed":
        return "It ended half-way; look at what failed." if touched else "Nothing was changed."
    return "The story does not say how it ended."

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Why a knob is reverted: wanted from everybody, so that a suspicion never passes for a finding; one word is enough."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError

#: After this many days somebody has to look at a revert on suspicion.
REVIEW_DAYS = 14
_SUSPICION = re.compile(r"suspici|suspect", re.IGNORECASE)
# What a command line that was copied still has where the reason belongs.
_PLACEHOLDERS = frozenset(("why", "reason", "...", "…", "text", "xxx"))


def is_bare(reason: str) -> bool:
    """Whether a reason says that there is a suspicion, and nothing of it."""
    return reason.strip(" .!").lower() in ("suspicion", "suspected", "suspect", "suspicious")


@dataclass(frozen=True)
class Reason:
    """``review_by`` is a day (UTC) as ``2026-12-13``, or '' when nobody has to come back."""

    text: str
    suspicion: bool
    review_by: str


def check(verb: str, given: Mapping[str, Any], today: datetime.date) -> Optional[Reason]:
    """The reason that came with ``reason=`` and ``review_by=``; None when there is none and none is needed.

    Raises :class:`PdopsError` with what to type when a revert has none, or when one of the two cannot be read.
    """
    text = " ".join(str(given.get("reason") or "").split())
    knob = given.get("knob") or "NAME"
    if text.lower() in _PLACEHOLDERS:
        raise PdopsError(f"-e reason={text} says nothing: put in the reason, or reason=suspicion.")
    review = given.get("review_by")
    if verb == "revert" and not text:
        raise PdopsError(
            f"revert_knob needs a reason: add -e reason=suspicion (then it shows as debt, with what it costs, and is to be reviewed "
            f"within {REVIEW_DAYS} days), or what is known, as in: ansible-playbook revert_knob.yml -e knob={knob} "
            """-e '{"reason": "hangs at 512, gdb shows the kernel"}'."""
        )
    if not text:
        if review not in (None, ""):
            raise PdopsError(f"review_by={review} belongs to a revert with a reason; add -e reason=suspicion.")
        return None
    suspicion = _SUSPICION.match(text) is not None
    if review not in (None, "") and verb != "revert":
        raise PdopsError(f"review_by={review} belongs to revert_knob.yml; {verb} takes none.")
    if review in (None, ""):
        due = today + datetime.timedelta(days=REVIEW_DAYS) if suspicion else None
    else:
        due = _day(str(review), today)
    return Reason(text, suspicion, due.isoformat() if due else "")


def _day(text: str, today: datetime.date) -> datetime.date:
    """A day, or a number of days from today (``3``, ``3d``)."""
    days = re.fullmatch(r"(\d{1,4}) ?d?(?:ays?)?", text.strip())
    try:
        day = today + datetime.timedelta(days=int(days[1])) if days else datetime.date.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise PdopsError(
            f"review_by={text} is no day: type it as {today + datetime.timedelta(days=REVIEW_DAYS)}, or as a number of days."
        ) from None
    if day < today:
        raise PdopsError(f"review_by={text} is over; today is {today}.")
    return day

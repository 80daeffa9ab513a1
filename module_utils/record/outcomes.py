# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What was found and when that is over; and when it becomes known what a machine did that had not answered. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

from .folder import Kept

#: Of a rollback on a machine that did not answer: its guard puts the old state back by itself.
NOT_KNOWN = "not-known"
#: The verb, and the instance or the hop; a ladder of gates ends at the first that fails, so each has at most one finding.
Finding = tuple[str, str]

# Seconds, pids and rounds differ from run to run; a knob's value (``=512``) and a name with digits do not.
_COUNTED = re.compile(r"(?<![\w=.])\d+(?:\.\d+)?")


def finding_key(entry: Mapping[str, Any]) -> Optional[Finding]:
    """Which finding an entry of kind observe tells; None when it tells none."""
    if entry.get("kind") != "observe" or not entry.get("found") or not entry.get("verb"):
        return None
    return str(entry["verb"]), str(entry.get("instance") or entry["found"])


def same_finding(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two tell the same thing of the same place, though at another time."""
    return all(one.get(name) == other.get(name) for name in ("found", "instance")) and _form(one) == _form(other)


def _form(entry: Mapping[str, Any]) -> str:
    return _COUNTED.sub("#", str(entry.get("said", "")))


def proves(kept: Kept, finding: Kept) -> bool:
    """Whether an entry ends a finding: it says so, or it is a change that ended with every gate passed.

    After such a change the same finding is worth telling anew.
    """
    if kept.data.get("over"):
        return finding.id in kept.refs
    if not kept.data.get("change_id"):
        return False
    return kept.data.get("outcome") not in (NOT_KNOWN, "rollback-failed")


def settles(kept: Kept, unknown: Kept) -> bool:
    """Whether an entry tells what became of a change on a machine that had not answered."""
    data, former = kept.data, unknown.data
    if data.get("change_id") != former.get("change_id") or data.get("outcome") == NOT_KNOWN:
        return False
    return unknown.id in kept.refs

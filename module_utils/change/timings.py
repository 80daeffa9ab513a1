# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How long former changes on this machine took, out of their records: what a plan expects of the next one. Pure."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping
from typing import Any

#: Older ones say little about the deployment of today.
NEWEST = 5


def _seconds(moment: Any) -> float | None:
    """Of a record's time, whole seconds; None when it is none."""
    try:
        return float(calendar.timegm(time.strptime(str(moment), "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def _between(record: Mapping[str, Any], names: tuple[str, ...], after: str = "") -> float | None:
    """From the first step of these names (behind the first step ``after``) to the end of the change."""
    end = _seconds(record.get("ended"))
    seen = not after
    for step in record["steps"]:
        seen = seen or step["step"] == after
        if seen and step["step"] in names:
            begin = _seconds(step["at"])
            return None if begin is None or end is None or end < begin else end - begin
    return None


def timings(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of changes that ended well and restarted something, the newest first, at most :data:`NEWEST` of each kind.

    ``kind`` is ``outage`` (as the change's report measured it, :func:`..report.outage.outage_of`; of a record without it from the
    first stop to the end), or, where one at a time was restarted, ``rolling`` (from the first stop of a confirmed change to its
    end, all gates passed), or ``rollback`` (from its begin to its end, all gates passed); ``restarted`` are the names of this
    machine's instances.
    """
    found: list[dict[str, Any]] = []
    for record in reversed(list(records)):
        far = {str(item["name"]) for item in record.get("elsewhere", [])}
        restarted = sorted(name for name in record["touched"] if name not in far)
        if not restarted:
            continue
        if record["state"] == "confirmed":
            kind = "rolling" if record.get("scope") == "rolling" else "outage"
            measured = record.get("outage_s") if kind == "outage" else None
            seconds = _between(record, ("stop", "restart", "take out"))
            if isinstance(measured, (int, float)) and not isinstance(measured, bool):
                seconds = float(measured)
        elif record["state"] == "rolled-back" and not any(step["step"] == "stopped" for step in record["steps"]):
            # Of one that had nothing to start again ("stopped" for good) the time tells nothing.
            kind, seconds = "rollback", _between(record, ("files",))
        else:
            continue
        if seconds is not None and sum(item["kind"] == kind for item in found) < NEWEST:
            found.append({"kind": kind, "restarted": restarted, "seconds": seconds, "change": record["id"]})
    return found

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What is in an engine's queues, before and after a probe (/v1/loads of SGLang 0.5.23: per rank, read from shared memory)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional

from ..endpoint import Failure, join, request
from .hops import Engines

_PATH = "/v1/loads?include=core,disagg,queues"
_LOOK_S = 3.0
_PAUSE_S = 0.5
#: A scheduler writes at least every second while it lives.
_STALE_S = 5.0


@dataclass(frozen=True)
class Queues:
    """Requests by queue over all ranks, or why they are not to be seen."""

    counts: Dict[str, int] = field(default_factory=dict)
    heartbeats: Dict[str, Any] = field(default_factory=dict)  # by rank: the scheduler's own time
    trouble: Optional[str] = None
    at: float = 0.0


def parse(data: Any) -> Queues:
    """ValueError when it is no answer of /v1/loads."""
    loads = data.get("loads") if isinstance(data, dict) else None
    if not isinstance(loads, list) or not loads:
        raise ValueError("no loads")
    counts: Dict[str, int] = {}
    beats: Dict[str, Any] = {}
    for number, load in enumerate(loads):
        beats[str(load.get("dp_rank", number))] = load.get("timestamp")
        found = {"running": load.get("num_running_reqs"), "waiting": load.get("num_waiting_reqs")}
        for name, value in (load.get("disaggregation") or {}).items():
            if name.endswith("_queue_reqs"):
                found[name[: -len("_queue_reqs")]] = value
        for name, value in found.items():
            if isinstance(value, int):
                counts[name] = counts.get(name, 0) + value
    return Queues(counts, beats, None, time.monotonic())


def look(url: str, api_key: Optional[str]) -> Queues:
    reply = request(join(url, _PATH), timeout_s=_LOOK_S, api_key=api_key)
    if isinstance(reply, Failure):
        return Queues(trouble=f"/v1/loads: {reply.said}")
    try:
        if reply.status != 200:
            return Queues(trouble=f"/v1/loads {reply.status}: {reply.text(80) or 'no body'}")
        return parse(reply.data())
    except (ValueError, AttributeError, TypeError):
        return Queues(trouble=f"/v1/loads names no loads: {reply.text(80)}")


def look_at(engines: Engines) -> Dict[str, Queues]:
    return {
        "prefill": look(engines.prefill_url, engines.api_key),
        "decode": look(engines.decode_url, engines.api_key),
    }


def left(before: Dict[str, Queues], after: Dict[str, Queues]) -> Dict[str, Dict[str, int]]:
    """What is more than before, by engine and queue. Of other clients' requests nothing is known here."""
    found: Dict[str, Dict[str, int]] = {}
    for name, now in after.items():
        old = before.get(name, Queues()).counts
        more = {queue: count - old.get(queue, 0) for queue, count in now.counts.items() if count > old.get(queue, 0)}
        if more:
            found[name] = more
    return found


def _stale(before: Queues, after: Queues) -> bool:
    same = bool(before.heartbeats) and before.heartbeats == after.heartbeats
    return same and after.at - before.at >= _STALE_S


def settle(
    engines: Engines,
    before: Dict[str, Queues],
    patience_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Dict[str, Any]:
    """Look until nothing is left, at most ``patience_s``. ``left_in_queues`` is None where one could not be seen."""
    begin = time.monotonic()
    while True:
        after = look_at(engines)
        over = left(before, after)
        if not over or time.monotonic() - begin >= patience_s:
            break
        sleep(_PAUSE_S)
    unseen = {}
    for name, now in after.items():
        why = now.trouble or before[name].trouble
        if why is None and _stale(before[name], now):
            why = f"the scheduler of the {name} has shown no sign of life for {now.at - before[name].at:.0f} s, so its queues are not to be seen"
        if why is not None:
            unseen[name] = why
    return {
        "before": {name: one.counts for name, one in before.items()},
        "after": {name: one.counts for name, one in after.items()},
        "left_in_queues": None if unseen and not over else sum(sum(more.values()) for more in over.values()),
        "left": over,
        "not_observable": unseen,
        "settled_s": round(time.monotonic() - begin, 2),
    }

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Counts the requests that an instance works on, before and during a stop: who is killed loses them."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Optional

from ..endpoint import Failure, join, request
from ..gates.metrics import samples

SAMPLE_S = 0.5  # between two looks during a drain
ASK_S = 2.0  # a wedged engine still answers /v1/loads, from shared memory (reference/sglang-pd.md C.1)


def requests_of(url: str, metrics_url: Optional[str] = None, api_key: Optional[str] = None) -> Optional[int]:
    """How many requests an instance has, running or in any queue; None when it cannot be told.

    An engine is asked for ``/v1/loads`` (SGLang 0.5.23), whose PD queues stay truthful when no batch runs;
    ``metrics_url`` makes it a router, of which the metric ``smg_worker_requests_active`` tells (sglang-router 0.3.2).
    """
    return _of_router(metrics_url) if metrics_url else _of_engine(url, api_key)


def _of_router(metrics_url: str) -> Optional[int]:
    where = metrics_url if metrics_url.rstrip("/").endswith("/metrics") else join(metrics_url, "/metrics")
    reply = request(where, timeout_s=ASK_S)
    if isinstance(reply, Failure) or reply.status != 200:
        return None
    found = samples(reply.body.decode("utf-8", "replace"), "smg_worker_requests_active")
    # The router counts a request on both workers of the pair that serves it.
    return int(max((value for _labels, value in found), default=0))


def _of_engine(url: str, api_key: Optional[str]) -> Optional[int]:
    reply = request(join(url, "/v1/loads?include=core,disagg,queues"), timeout_s=ASK_S, api_key=api_key)
    if isinstance(reply, Failure) or reply.status != 200:
        return None
    try:
        return count_loads(reply.data())
    except ValueError:
        return None


def count_loads(data: Any) -> int:
    """The requests in an answer of ``/v1/loads``, over all ranks; ValueError when it is none.

    Waiting requests are counted over the bootstrap, prealloc, transfer and retracted queues too, only those whose KV is on its
    way out of a prefill are apart (load_inquirer.py of SGLang 0.5.23). With data parallelism every rank has its own.
    """
    loads = data.get("loads") if isinstance(data, dict) else None
    if not isinstance(loads, list) or not loads:
        raise ValueError("no loads")
    total = 0
    for load in loads:
        if not isinstance(load, dict):
            raise ValueError("no load of a rank")
        total += _whole(load, "num_running_reqs") + _whole(load, "num_waiting_reqs")
        queues = load.get("disaggregation")
        if isinstance(queues, dict):
            total += _whole(queues, "prefill_inflight_queue_reqs")
    return total


def _whole(data: Dict[str, Any], name: str) -> int:
    value = data.get(name, 0)
    return value if isinstance(value, int) and value > 0 else 0


class Drain:
    """Watches the count while the instance is being stopped; use as a context around the stop."""

    def __init__(self, url: Optional[str], metrics_url: Optional[str], api_key: Optional[str]) -> None:
        self._args = (url, metrics_url, api_key)
        self._done = threading.Event()
        self._seen: List[int] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _look(self) -> bool:
        url, metrics_url, api_key = self._args
        found = requests_of(url, metrics_url, api_key) if url else None
        if found is not None:
            self._seen.append(found)
        return found is not None

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._look()

    def until_idle(self, most_s: float) -> float:
        """Wait until nothing is left at two looks in a row, at most ``most_s``; returns the seconds that it took.

        SIGTERM drains as well, but an engine that calls itself ill exits at once, and where a unit's KillMode is not mixed its
        schedulers die of the same signal (reference/sglang-pd.md C.4). The router may have sent a last request just before.
        """
        begin, quiet = time.monotonic(), 0
        while self._seen and time.monotonic() - begin < most_s:
            if not self._look():
                break
            quiet = quiet + 1 if self._seen[-1] == 0 else 0
            if quiet > 1:
                break
            time.sleep(SAMPLE_S)
        return time.monotonic() - begin

    def __enter__(self) -> Drain:
        if self._look():
            self._thread.start()
        return self

    def __exit__(self, *_unused: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(ASK_S)

    @property
    def at_begin(self) -> Optional[int]:
        """Requests at the time of the stop; None when they could not be seen."""
        return self._seen[0] if self._seen else None

    @property
    def at_end(self) -> Optional[int]:
        """Requests when they were last seen; they are lost when the instance was killed then."""
        return self._seen[-1] if self._seen else None

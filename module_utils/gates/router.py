# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate router: ready, knows its workers and calls them healthy, and no circuit breaker is open."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from ..endpoint import Answer, Failure, join, request
from .base import Look, Target, Verdict, failed, passed, pending
from .http_gates import from_failure

BREAKERS = {0: "closed", 1: "open", 2: "half-open"}  # smg_worker_cb_state (reference/sglang-pd.md D)
_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def samples(text: str, name: str) -> List[Tuple[Dict[str, str], float]]:
    """(labels, value) of one metric in the Prometheus text format."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line) if line.startswith(name) else None
        if match and match.group("name") == name:
            try:
                found.append((dict(_LABEL.findall(match.group("labels") or "")), float(match.group("value"))))
            except ValueError:
                continue
    return found


def breakers(metrics_url: str, timeout_s: float) -> Tuple[Optional[Dict[str, str]], str]:
    """State of each worker's breaker by URL, or None and why it cannot be seen."""
    url = metrics_url if metrics_url.rstrip("/").endswith("/metrics") else join(metrics_url, "/metrics")
    reply = request(url, timeout_s=timeout_s)
    if isinstance(reply, Failure):
        return None, reply.said
    if reply.status != 200:
        return None, f"{url} answers {reply.status}"
    found = samples(reply.body.decode("utf-8", "replace"), "smg_worker_cb_state")
    return {labels.get("worker", "?"): BREAKERS.get(int(value), str(value)) for labels, value in found}, ""


def check(target: Target, look: Look) -> Verdict:
    """A ready router may still refuse everything, since readiness does not look at breakers (sglang-pd.md C.5)."""
    reply = request(join(target.url, "/readiness"), timeout_s=look.request_s(5.0), api_key=target.api_key)
    if isinstance(reply, Failure):
        return from_failure(reply)
    if reply.status != 200:
        words = f"/readiness {reply.status} ({reply.text(120)})"
        return (
            failed(words, status=reply.status)
            if reply.status in (401, 403, 404)
            else pending(words, status=reply.status)
        )
    evidence: Dict[str, Any] = {"status": 200, "readiness": _json(reply)}
    listed = request(join(target.url, "/workers"), timeout_s=look.request_s(5.0), api_key=target.api_key)
    if isinstance(listed, Failure):
        return from_failure(listed)
    if listed.status in (401, 403):
        return failed(f"/workers {listed.status}: the router wants an API key; set pd_api_key_file", **evidence)
    data = _json(listed)
    if listed.status != 200 or not isinstance(data, dict) or not isinstance(data.get("workers"), list):
        return failed(f"/workers {listed.status}, and no list of workers: {listed.text(120)}", **evidence)
    workers = {str(worker.get("url", "")).rstrip("/"): worker for worker in data["workers"] if isinstance(worker, dict)}
    evidence["workers"] = {
        url: {"role": worker.get("worker_type"), "healthy": worker.get("is_healthy")} for url, worker in workers.items()
    }
    missing = [url for url in target.workers if url.rstrip("/") not in workers]
    if missing:
        return pending(f"ready, but {', '.join(missing)} is not registered", missing=missing, **evidence)
    wanted = [url.rstrip("/") for url in target.workers] or sorted(workers)
    ill = [url for url in wanted if not workers[url].get("is_healthy")]
    if ill:
        return pending(f"ready, but {', '.join(ill)} is not healthy to it", **evidence)
    return _judge_breakers(target, look, wanted, evidence)


def _judge_breakers(target: Target, look: Look, wanted: List[str], evidence: Dict[str, Any]) -> Verdict:
    told = f"ready with {len(wanted)} workers"
    if target.metrics_url is None:
        return passed(f"{told}; breakers not seen, since no metrics_url is given", breakers=None, **evidence)
    states, why = breakers(target.metrics_url, look.request_s(5.0))
    if states is None:
        return passed(f"{told}; breakers not seen: {why}", breakers=None, **evidence)
    evidence["breakers"] = states
    is_open = [url for url in wanted if states.get(url, "closed") == "open"]
    if is_open:
        return pending(f"{told}, but the circuit breaker of {', '.join(is_open)} is open", **evidence)
    half = sorted(url for url in wanted if states.get(url) == "half-open")
    words = f"breaker of {', '.join(half)} half-open" if half else "breakers closed"
    return passed(f"{told}, {words}", **evidence)


def _json(reply: Answer) -> Any:
    try:
        return reply.data()
    except ValueError:
        return None

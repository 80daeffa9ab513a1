# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate router: ready, knows its workers in their roles and calls them healthy, and no circuit breaker is open."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from ..endpoint import Answer, Failure, join, parse_url, port_open, request
from ..processes import age_s
from .base import Look, Peer, Target, Verdict, failed, passed, pending, uptime_s
from .engine_info import key_words
from .http_gates import from_failure
from .metrics import fetch, samples

BREAKERS = {0: "closed", 1: "open", 2: "half-open"}  # smg_worker_cb_state (reference/sglang-pd.md D)
#: Defaults of sglang-router 0.3.2, in seconds.
STARTUP_TIMEOUT_S, BREAKER_TIMEOUT_S = 1800.0, 60.0
#: A worker that was registered just now is listed within a second (POST /workers is answered 202).
LISTED_S = 2.0
REGISTER = "ansible-playbook register_worker.yml"


def breakers(metrics_url: str, timeout_s: float) -> Tuple[Optional[Dict[str, str]], str]:
    """State of each worker's breaker by URL, or None and why it cannot be seen."""
    text, why, _status = fetch(metrics_url, timeout_s)
    if text is None:
        return None, why
    found = samples(text, "smg_worker_cb_state")
    return {labels.get("worker", "?"): BREAKERS.get(int(value), str(value)) for labels, value in found}, ""


def flag_seconds(serve_script: Optional[str], flag: str, default: float) -> Tuple[float, str]:
    """The value of a flag in the router's serve script, or the default; and which of both it is.

    The process itself no longer tells: its title has overwritten the command line.
    """
    text = ""
    if serve_script:
        try:
            with open(serve_script, encoding="utf-8", errors="replace") as file:
                text = "".join(line for line in file if not line.lstrip().startswith("#"))
        except OSError:
            text = ""
    found = re.findall(rf"(?<!\S){re.escape(flag)}(?:=|\s+(?:\\\n\s*)?)[\"']?(\d+(?:\.\d+)?)", text)
    if found:
        return float(found[-1]), "serve script"
    return default, "default, and the serve script computes another" if re.search(
        rf"(?<!\S){flag}\b", text
    ) else "default"


def check(target: Target, look: Look) -> Verdict:
    """A ready router may still refuse everything, since readiness does not look at breakers (sglang-pd.md C.5)."""
    ready = request(join(target.url, "/readiness"), timeout_s=look.request_s(5.0), api_key=target.api_key)
    if isinstance(ready, Failure):
        return from_failure(ready)
    words = f"/readiness {ready.status} ({ready.text(120)})"
    if ready.status in (401, 403):
        return failed(key_words("/readiness", ready.status, target.api_key), status=ready.status)
    if ready.status == 404:
        return failed(words, status=404)
    listed = request(join(target.url, "/workers"), timeout_s=look.request_s(5.0), api_key=target.api_key)
    if isinstance(listed, Failure):
        return from_failure(listed)
    evidence: Dict[str, Any] = {"status": ready.status, "readiness": _json(ready)}
    if listed.status in (401, 403):
        return failed(key_words("/workers", listed.status, target.api_key), **evidence)
    data = _json(listed)
    if listed.status != 200 or not isinstance(data, dict) or not isinstance(data.get("workers"), list):
        verdict = failed if ready.status == 200 else pending
        return verdict(f"/workers {listed.status}, and no list of workers: {listed.text(120)}", **evidence)
    workers = {str(worker.get("url", "")).rstrip("/"): worker for worker in data["workers"] if isinstance(worker, dict)}
    evidence["workers"] = {
        url: {"role": worker.get("worker_type"), "healthy": worker.get("is_healthy")} for url, worker in workers.items()
    }
    told = "ready" if ready.status == 200 else words
    return _judge_workers(target, look, workers, told, evidence)


def _judge_workers(
    target: Target, look: Look, workers: Dict[str, Dict[str, Any]], told: str, evidence: Dict[str, Any]
) -> Verdict:
    wanted = [url.rstrip("/") for url in target.workers] or sorted(workers)
    missing = [url for url in wanted if url not in workers]
    if missing:
        return _missing(target, look, missing, told, evidence)
    look.memory.pop("missing_since", None)
    wrong = [words for url in wanted for words in _wrong(_peer(target, url), workers[url])]
    if wrong:
        return failed("; ".join(wrong), **evidence)
    ill = [url for url in wanted if not workers[url].get("is_healthy")]
    if ill:
        return pending(f"{told}, but {_names(target, ill)} is not healthy to it", ill=ill, **evidence)
    if told != "ready":
        return pending(told, **evidence)
    return _judge_breakers(target, look, wanted, evidence)


def _peer(target: Target, url: str) -> Optional[Peer]:
    return next((peer for peer in target.peers if peer.url.rstrip("/") == url), None)


def _names(target: Target, urls: List[str]) -> str:
    peers = [(_peer(target, url), url) for url in urls]
    return ", ".join(f"{peer.role} {peer.name} ({url})" if peer else url for peer, url in peers)


def _wrong(peer: Optional[Peer], worker: Dict[str, Any]) -> List[str]:
    """A worker that was registered as what it is not. Decode asks for KV at the port that the router names."""
    if peer is None:
        return []
    role, port = worker.get("worker_type"), worker.get("bootstrap_port")
    again = f"take it out and register it anew: {REGISTER} -l {peer.name}"
    if role != peer.role:
        return [f"{peer.name} is registered as {role}, but it is a {peer.role}: {again}"]
    if peer.role == "prefill" and peer.bootstrap_port is not None and (port or 8998) != peer.bootstrap_port:
        return [f"{peer.name} is registered with bootstrap port {port}, but it has {peer.bootstrap_port}: {again}"]
    return []


def _missing(target: Target, look: Look, missing: List[str], told: str, evidence: Dict[str, Any]) -> Verdict:
    """Waited for while the router still tries; after its start-up timeout it has forgotten them for good.

    sglang-real-cpu.md 0.5 c, measured on sglang-router 0.3.2: it neither ends nor tries again.
    """
    since = float(look.memory.setdefault("missing_since", uptime_s()))
    limit_s, source = flag_seconds(target.serve_script, "--worker-startup-timeout-secs", STARTUP_TIMEOUT_S)
    router_s = age_s(look.main.started_ticks) if look.main is not None else 0.0
    limit = f"--worker-startup-timeout-secs ({limit_s:g} s, {source})"
    names = [peer.name for peer in (_peer(target, url) for url in missing) if peer is not None]
    verb = f"{REGISTER} -l {','.join(names)}" if names else REGISTER
    ports = {url: _port_words(url, look) for url in missing}
    evidence.update(
        missing=missing, missing_ports=ports, router_age_s=round(router_s, 1), startup_timeout_s=limit_s, register=verb
    )
    silent = [url for url in missing if ports[url] != "open"]
    down = f" (nothing listens at {', '.join(silent)}: start it first)" if silent else ""
    what = f"{told}, but {_names(target, missing)} is not registered{down}"
    if router_s > limit_s and uptime_s() - since >= LISTED_S:
        return failed(
            f"{what}, and the router, {router_s:.0f} s old, does not look for it any more: it forgets a worker that is "
            f"not up within {limit}; register it with {verb}",
            **evidence,
        )
    return pending(f"{what} yet; the router looks for it until {limit}, after that register it with {verb}", **evidence)


def _port_words(url: str, look: Look) -> str:
    address = parse_url(url)
    failure = port_open(address.host, address.port, look.request_s(1.0))
    return "open" if failure is None else failure.kind


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
        since = float(look.memory.setdefault("open_since", uptime_s()))
        limit_s, source = flag_seconds(target.serve_script, "--cb-timeout-duration-secs", BREAKER_TIMEOUT_S)
        evidence.update(open_for_s=round(uptime_s() - since, 1), breaker_timeout_s=limit_s)
        return pending(
            f"{told}, but the circuit breaker of {_names(target, is_open)} is open: every request is refused until "
            f"--cb-timeout-duration-secs ({limit_s:g} s, {source}) is over",
            **evidence,
        )
    half = sorted(url for url in wanted if states.get(url) == "half-open")
    words = f"breaker of {', '.join(half)} half-open" if half else "breakers closed"
    if "open_since" in look.memory:
        evidence["waited_for_breaker_s"] = round(uptime_s() - float(look.memory["open_since"]), 1)
    return passed(f"{told}, {words}", **evidence)


def _json(reply: Answer) -> Any:
    try:
        return reply.data()
    except ValueError:
        return None

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Takes a worker out of a router's registry, and registers one, and waits until the router acts on it.

Measured on sglang-router 0.3.2 (tests/lab/test_worker.py): a removal is in force within 0.3 s and running streams
end whole; a registration takes about 1.2 s once the worker is healthy; a worker that is registered again begins with a
closed circuit breaker, while the breaker of its peer stays as it was; a second registration of the same URL changes
nothing; one of a worker that does not answer is accepted (202) and tried again until ``--worker-startup-timeout-secs``.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from .endpoint import Answer, Failure, join, parse_url, request
from .pdops_error import PdopsError

ASK_S = 5.0
POLL_S = 0.1
ROLES = ("prefill", "decode")


@dataclass(frozen=True)
class WorkerRequest:
    """What is wanted of a router at ``router_url``. Times in seconds."""

    router_url: str
    url: str  # of the worker, as the router knows it
    role: str  # prefill or decode
    state: str  # present or absent
    bootstrap_port: Optional[int] = None  # of a prefill
    wait_s: float = 60.0
    api_key: Optional[str] = field(default=None, repr=False)
    least: int = 0  # healthy others of the role that must be left when it is taken out

    def check(self) -> None:
        """PdopsError for a request that makes no sense, before anything is asked."""
        parse_url(self.router_url)
        parse_url(self.url)
        if self.role not in ROLES:
            raise PdopsError(f"role is {self.role!r}: a worker of a router is a prefill or a decode")
        if self.role == "prefill" and self.state == "present" and self.bootstrap_port is None:
            raise PdopsError(f"{self.url}: bootstrap_port is missing; a prefill is registered with it")
        if self.bootstrap_port is not None and not 1 <= self.bootstrap_port <= 65535:
            raise PdopsError(f"bootstrap_port is {self.bootstrap_port}: it must be between 1 and 65535")
        if not 0 < self.wait_s <= 86400:
            raise PdopsError(f"wait_s is {self.wait_s:g}: it must be more than 0 and at most 86400 seconds")


def _ask(wanted: WorkerRequest, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Answer:
    reply = request(
        join(wanted.router_url, path),
        method,
        json.dumps(body).encode() if body is not None else None,
        {"Content-Type": "application/json"} if body is not None else None,
        ASK_S,
        wanted.api_key,
    )
    if isinstance(reply, Failure):
        raise PdopsError(f"the router at {wanted.router_url} does not answer ({reply.said}); see that it runs")
    if reply.status in (401, 403):
        raise PdopsError(
            f"the router at {wanted.router_url} answers {path.split('?')[0]} with {reply.status}: "
            "an API key is missing or wrong; set pd_api_key_file"
        )
    return reply


def listed(wanted: WorkerRequest) -> List[Dict[str, Any]]:
    """The workers that the router has: ``[{id, url, role, healthy, bootstrap_port}]``."""
    reply = _ask(wanted, "GET", "/workers")
    try:
        workers = reply.data()["workers"]
        return [
            {
                "id": str(worker["id"]),
                "url": str(worker["url"]).rstrip("/"),
                "role": worker.get("worker_type"),
                "healthy": bool(worker.get("is_healthy")),
                "bootstrap_port": worker.get("bootstrap_port"),
            }
            for worker in workers
        ]
    except (ValueError, KeyError, TypeError):
        raise PdopsError(
            f"{wanted.router_url}/workers answers {reply.status} and no list of workers ({reply.text(120)}); "
            "it must be a router with a registry (sglang-router 0.3 or smg)"
        ) from None


def _mine(wanted: WorkerRequest, workers: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    return [worker for worker in workers if worker["url"] == wanted.url.rstrip("/")]


def bring_worker(wanted: WorkerRequest, check: bool = False) -> Dict[str, Any]:
    """Register the worker, or take it out, and wait until it is so. Idempotent; returns the module's result.

    :raises PdopsError: the router does not answer, refuses, or does not come to it within ``wait_s``
    """
    wanted.check()
    begin = time.monotonic()
    before = listed(wanted)
    mine = _mine(wanted, before)
    for worker in mine:
        if worker["role"] != wanted.role:
            raise PdopsError(
                f"the router at {wanted.router_url} has {wanted.url} as a {worker['role']}, and it is to be a {wanted.role}; "
                "put pd_url and the groups of the inventory right, or the router's command line"
            )
    registered = [worker for worker in mine if _fits(wanted, worker)]
    needed = bool(mine) if wanted.state == "absent" else not registered
    if needed and wanted.state == "absent":
        _refuse_last(wanted, before)
    result: Dict[str, Any] = {"changed": needed, "before": before, "after": before, "seconds": 0.0}
    if check or (not needed and (wanted.state == "absent" or all(worker["healthy"] for worker in registered))):
        return result
    if needed:
        # A registration with another bootstrap port is put right by a new one, since an update takes no port.
        for worker in mine:
            _accepted(wanted, _ask(wanted, "DELETE", f"/workers/{worker['id']}"), "takes out")
        if mine:
            _await(wanted, begin, gone=True)
        if wanted.state == "present":
            body: Dict[str, Any] = {"url": wanted.url.rstrip("/"), "worker_type": wanted.role}
            if wanted.role == "prefill":
                body["bootstrap_port"] = wanted.bootstrap_port
            _accepted(wanted, _ask(wanted, "POST", "/workers", body), "registers")
    result["after"] = _await(wanted, begin, gone=wanted.state == "absent")
    result["seconds"] = round(time.monotonic() - begin, 2)
    return result


def _refuse_last(wanted: WorkerRequest, workers: List[Dict[str, Any]]) -> None:
    others = [
        worker["url"]
        for worker in workers
        if worker["role"] == wanted.role and worker["url"] != wanted.url.rstrip("/") and worker["healthy"]
    ]
    if len(others) < wanted.least:
        raise PdopsError(
            f"{wanted.url} was not taken out: the router at {wanted.router_url} would be left with {len(others)} healthy "
            f"{wanted.role}, and {wanted.least} must be; see that the others serve (verify.yml), or take scope=co"
        )


def _fits(wanted: WorkerRequest, worker: Dict[str, Any]) -> bool:
    return wanted.role != "prefill" or worker["bootstrap_port"] == wanted.bootstrap_port


def _accepted(wanted: WorkerRequest, reply: Answer, verb: str) -> None:
    if not 200 <= reply.status < 300 and reply.status != 404:
        raise PdopsError(
            f"the router at {wanted.router_url} {verb} {wanted.url} not: it answers {reply.status} ({reply.text(160)})"
        )


def _await(wanted: WorkerRequest, begin: float, gone: bool) -> List[Dict[str, Any]]:
    workers: List[Dict[str, Any]] = []
    while True:
        workers = listed(wanted)
        mine = _mine(wanted, workers)
        if (not mine) if gone else (bool(mine) and all(worker["healthy"] for worker in mine)):
            return workers
        if time.monotonic() - begin >= wanted.wait_s:
            break
        time.sleep(POLL_S)
    state, advice = _stuck(wanted, gone, bool(_mine(wanted, workers)))
    raise PdopsError(
        f"the router at {wanted.router_url} {state} {wanted.url} after {wanted.wait_s:g} s; {advice}", workers=workers
    )


def _stuck(wanted: WorkerRequest, gone: bool, there: bool) -> Tuple[str, str]:
    if gone:
        return "still has", "see its log, or restart it"
    if there:
        return "does not call healthy", f"see that {wanted.url}/health answers 200 on the router's machine"
    return (
        "has accepted but not registered",
        f"see that {wanted.url}/health and /server_info answer on the router's machine",
    )

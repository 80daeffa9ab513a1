# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gates health and rendezvous: the engine's own word, and the bootstrap server's."""

from __future__ import annotations

from ..endpoint import Answer, Failure, join, parse_url, request
from ..pdops_error import PdopsError
from .base import Look, Target, Verdict, failed, passed, pending

# /health runs a one-token request and polls for it once a second, up to SGLANG_HEALTH_CHECK_TIMEOUT = 20 s
# (http_server.py of SGLang 0.5.23; reference/sglang-pd.md C.1).
HEALTH_S = 25.0
# All ranks registered: 200; else 503 "not fully registered" (disaggregation/common/conn.py of 0.5.23).
# engine_rank and target_dp_group are what older servers ask for; newer ones ignore them.
ROUTE = (
    "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1&engine_rank=-1&target_dp_group=-1"
)
ROUTE_FIELDS = ("page_size", "kv_cache_dtype", "attn_tp_size", "dp_size", "pp_size")


def from_failure(failure: Failure) -> Verdict:
    """A name that is not known, or a certificate that does not fit, does not cure itself; the rest may."""
    verdict = failed if failure.kind in ("dns", "tls") else pending
    return verdict(failure.said, kind=failure.kind)


def check_health(target: Target, look: Look) -> Verdict:
    """200 from /health. It proves little: no peer and no transfer is involved."""
    reply = request(join(target.url, "/health"), timeout_s=look.request_s(HEALTH_S), api_key=target.api_key)
    if isinstance(reply, Failure):
        return from_failure(reply)
    evidence = {"status": reply.status, "answer_s": round(reply.seconds, 3)}
    if reply.status == 200:
        return passed(f"/health 200 in {reply.seconds:.1f} s", **evidence)
    words = f"/health {reply.status}" + (f" ({reply.text(80)})" if reply.body else "")
    if 400 <= reply.status < 500 and reply.status not in (408, 425, 429):
        return failed(f"{words}: {target.url} is not a healthy engine or router", **evidence)
    return pending(f"port open, {words}", **evidence)


def check_rendezvous(target: Target, look: Look) -> Verdict:
    """The prefill's bootstrap server knows all ranks."""
    if target.bootstrap_port is None:
        raise PdopsError(f"{target.name}: gate rendezvous needs bootstrap_port")
    host = parse_url(target.url).host
    base = f"http://[{host}]" if ":" in host else f"http://{host}"
    reply = request(f"{base}:{target.bootstrap_port}{ROUTE}", timeout_s=look.request_s(5.0))
    if isinstance(reply, Failure):
        return from_failure(reply)
    if reply.status != 200:
        words = f"/route {reply.status} ({reply.text(120)})"
        if reply.status == 404:
            return failed(f"{words}: port {target.bootstrap_port} is not a bootstrap server", status=reply.status)
        return pending(words, status=reply.status)
    return _judge_route(reply)


def _judge_route(reply: Answer) -> Verdict:
    try:
        data = reply.data()
    except ValueError:
        return failed(f"/route 200, but its answer is no JSON: {reply.text(120)}", status=200)
    if not isinstance(data, dict) or data.get("page_size") is None:
        return failed(f"/route 200, but without page_size: {reply.text(120)}", status=200)
    fields = {name: data.get(name) for name in ROUTE_FIELDS}
    return passed(f"all ranks registered, page size {data['page_size']}", status=200, route=fields)

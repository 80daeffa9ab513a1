# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate health: the engine's own word."""

from __future__ import annotations

from ..endpoint import Failure, join, request
from .base import Look, Target, Verdict, failed, passed, pending

# /health runs a one-token request and polls for it once a second, up to SGLANG_HEALTH_CHECK_TIMEOUT = 20 s
# (http_server.py of SGLang 0.5.23; reference/sglang-pd.md C.1).
HEALTH_S = 25.0


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

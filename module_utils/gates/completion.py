# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate completion: one real request through the router (or an instance), its body checked.

Broken pairs answer 200 with finish_reason "error" and no content (smg#2382), so the
status alone proves nothing.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..endpoint import Answer, Failure, join, post_json, request
from .base import PASSED, Look, Target, Verdict, failed, passed, pending
from .http_gates import from_failure
from .router import breakers

MAX_TOKENS = 8
MORE_REQUESTS = 5
PROMPT = "Count from one to five."
FINISHED = ("stop", "length", "tool_calls", "content_filter")


def check(target: Target, look: Look) -> Verdict:
    model, trouble = _model(target, look)
    if trouble is not None:
        return trouble
    question = {
        "model": model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": False,
    }
    timeout_s = look.request_s(target.request_timeout_s)
    reply = post_json(join(target.url, "/v1/chat/completions"), question, timeout_s, target.api_key)
    if isinstance(reply, Failure):
        verdict = from_failure(reply)
        return Verdict(verdict.result, f"completion: {verdict.said}", {**verdict.evidence, "model": model})
    verdict = judge(reply, model)
    return _close_breakers(target, look, verdict) if verdict.result == PASSED else verdict


def _close_breakers(target: Target, look: Look, verdict: Verdict) -> Verdict:
    """Half-open breakers get more requests, of which each closes them a little (sglang-router 0.3.2: --cb-success-threshold).

    Left half-open, the next single failure would shut the worker out again for a minute.
    """
    if target.metrics_url is None or look.memory.get("extra_requests", 0) >= MORE_REQUESTS:
        return verdict
    states, _why = breakers(target.metrics_url, look.request_s(5.0))
    half = [url for url, state in sorted((states or {}).items()) if state == "half-open"]
    half = [url for url in half if not target.workers or url in [worker.rstrip("/") for worker in target.workers]]
    if not half:
        return verdict
    look.memory["extra_requests"] = look.memory.get("extra_requests", 0) + 1
    return pending(f"{verdict.said}; the circuit breaker of {', '.join(half)} is half-open", **verdict.evidence)


def _model(target: Target, look: Look) -> Tuple[str, Optional[Verdict]]:
    if target.model is not None:
        return target.model, None
    reply = request(join(target.url, "/v1/models"), timeout_s=look.request_s(5.0), api_key=target.api_key)
    if isinstance(reply, Failure):
        return "", from_failure(reply)
    if reply.status in (401, 403):
        return "", _key_trouble("/v1/models", reply)
    try:
        return str(reply.data()["data"][0]["id"]), None
    except (ValueError, KeyError, IndexError, TypeError):
        words = f"/v1/models {reply.status} names no model ({reply.text(80)})"
        verdict = failed if 400 <= reply.status < 500 else pending
        return "", verdict(words, status=reply.status)


def _key_trouble(path: str, reply: Answer) -> Verdict:
    return failed(f"{path} {reply.status}: an API key is missing or wrong; set pd_api_key_file", status=reply.status)


def judge(reply: Answer, model: str) -> Verdict:
    """What an answer to the request proves. 5xx, 408 and 429 may pass; a bad 200 and any other 4xx is final."""
    evidence = {"status": reply.status, "answer_s": round(reply.seconds, 3), "model": model}
    words = f"completion {reply.status}"
    if reply.status in (401, 403):
        return _key_trouble("/v1/chat/completions", reply)
    if reply.status >= 500 or reply.status in (408, 425, 429):
        return pending(f"{words}: {reply.text(160) or 'no body'}", **evidence)
    if reply.status != 200:
        return failed(f"{words}: {reply.text(160) or 'no body'}", **evidence)
    try:
        data = reply.data()
    except ValueError:
        return failed(f"{words}, but the body is no JSON: {reply.text(120)}", **evidence)
    return _judge_body(data, words, evidence, reply)


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _judge_body(data: Any, words: str, evidence: Any, reply: Answer) -> Verdict:
    if not isinstance(data, dict) or data.get("error") or data.get("object") == "error":
        return failed(f"{words}, but the body is an error: {reply.text(160)}", **evidence)
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    if choice is None:
        return failed(f"{words}, but without choices: {reply.text(120)}", **evidence)
    message = _dict(choice.get("message"))
    content = message.get("content") or message.get("reasoning_content") or ""
    finish = choice.get("finish_reason")
    tokens = _dict(data.get("usage")).get("completion_tokens")
    evidence.update(finish_reason=finish, completion_tokens=tokens, characters=len(str(content)))
    if finish not in FINISHED:
        return failed(f"{words}, but finish_reason is {finish!r}", **evidence)
    if not content and finish != "tool_calls":
        return failed(f"{words}, but the content is empty (finish_reason {finish!r})", **evidence)
    if not isinstance(tokens, int) or not 1 <= tokens <= MAX_TOKENS:
        return failed(f"{words}, but usage counts {tokens!r} completion tokens of at most {MAX_TOKENS}", **evidence)
    return passed(f"{tokens} tokens in {reply.seconds:.1f} s, finish_reason {finish}", **evidence)

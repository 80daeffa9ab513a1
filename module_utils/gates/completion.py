# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate completion: real requests through the router (or an instance), their bodies checked.

Broken pairs answer 200 with finish_reason "error" and no content (smg#2382), so the
status alone proves nothing. One prompt is longer than a KV page, one longer than a prefill chunk (prompts.py).
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..endpoint import Answer, Failure, join, post_json, request
from . import transfer
from .base import PASSED, Look, Target, Verdict, failed, passed, pending
from .engine_info import key_words
from .http_gates import from_failure
from .prompts import Sizes, first_words, prompt, second_words, sizes_of
from .router import breakers

MAX_TOKENS = 8
MORE_REQUESTS = 5
CHAT = "/v1/chat/completions"
FINISHED = ("stop", "length", "tool_calls", "content_filter")


def check(target: Target, look: Look) -> Verdict:
    """One request per look: what passed stays in the ladder's memory, so that a slice may end in between."""
    model, trouble = _model(target, look)
    if trouble is not None:
        return trouble
    sizes, refused = sizes_of(target, look)
    if refused is not None:
        return failed(refused)
    done: List[Dict[str, Any]] = look.memory.setdefault("completions", [])
    words, why_not = _next_words(target, sizes, done)
    if words is None:
        # All that was to be asked was answered, and a breaker was half-open after it.
        words = first_words(sizes)
    elif not done and "transfer" in look.gates:
        transfer.remember(target, look)
    verdict = _ask(target, look, model, words)
    if verdict.result != PASSED:
        transfer.note_bad_try(look, verdict.evidence.get("kind") == "timeout")
        look.memory["completions"] = []
        return transfer.explain(target, look, verdict) if "transfer" in look.gates else verdict
    done.append({**verdict.evidence, "words": words})
    more, why_not = _next_words(target, sizes, done)
    if more is not None:
        return pending(f"{verdict.said}; a longer prompt is next", **verdict.evidence)
    return _close_breakers(target, look, _both(sizes, done, why_not))


def _next_words(target: Target, sizes: Sizes, done: List[Dict[str, Any]]) -> Tuple[Optional[int], str]:
    """Length of the next prompt, or None when enough was asked, with what was left out and why."""
    if not done:
        return first_words(sizes), ""
    if len(done) > 1:
        return None, ""
    words = int(done[0]["words"])
    return second_words(
        sizes, words, int(done[0].get("prompt_tokens") or words), target.longest_prompt_tokens, MAX_TOKENS
    )


def _ask(target: Target, look: Look, model: str, words: int) -> Verdict:
    question = {
        "model": model,
        "messages": [{"role": "user", "content": prompt(words)}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": False,
    }
    reply = post_json(join(target.url, CHAT), question, look.request_s(target.request_timeout_s), target.api_key)
    if isinstance(reply, Failure):
        verdict = from_failure(reply)
        return Verdict(verdict.result, f"completion: {verdict.said}", {**verdict.evidence, "model": model})
    return judge(reply, model, target.api_key)


def _both(sizes: Sizes, done: List[Dict[str, Any]], why_not: str) -> Verdict:
    """The verdict over all requests; the last one's evidence is in front."""
    seconds = [float(one["answer_s"]) for one in done]
    longest = max(int(one.get("prompt_tokens") or one["words"]) for one in done)
    reached = [
        f"{name} of {size}" for name, size in (("page", sizes.page), ("chunk", sizes.chunk)) if size and longest > size
    ]
    said = (
        f"{len(done)} {'answers' if len(done) > 1 else 'answer'} with {', '.join(str(one['completion_tokens']) for one in done)} "
        f"tokens in {', '.join(f'{second:.1f}' for second in seconds)} s, finish_reason {done[-1]['finish_reason']}; "
        f"longest prompt {longest} tokens" + (f", more than a {' and a '.join(reached)}" if reached else "")
    )
    if not why_not and sizes.chunk and longest <= sizes.chunk:
        why_not = f"a prefill chunk of {sizes.chunk} tokens was not reached"
    if why_not:
        said += f"; {why_not}"
    return passed(
        said,
        **{key: value for key, value in done[-1].items() if key != "words"},
        requests=done,
        page_size=sizes.page,
        chunked_prefill_size=sizes.chunk,
        context_length=sizes.context,
        sizes_from=sizes.source or "assumed",
    )


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
        return "", failed(key_words("/v1/models", reply.status, target.api_key), status=reply.status)
    try:
        return str(reply.data()["data"][0]["id"]), None
    except (ValueError, KeyError, IndexError, TypeError):
        words = f"/v1/models {reply.status} names no model ({reply.text(80)})"
        verdict = failed if 400 <= reply.status < 500 else pending
        return "", verdict(words, status=reply.status)


def judge(reply: Answer, model: str, api_key: Optional[str] = None, max_tokens: int = MAX_TOKENS) -> Verdict:
    """What a whole answer to a chat request proves. 5xx, 408 and 429 may pass; a bad 200 and any other 4xx is final.

    :arg api_key: the key that the request carried, if any; it only decides on the words.
    :arg max_tokens: what was asked for.
    """
    evidence = {"status": reply.status, "answer_s": round(reply.seconds, 3), "model": model}
    words = f"completion {reply.status}"
    if reply.status in (401, 403):
        return failed(key_words(CHAT, reply.status, api_key), **evidence)
    if reply.status >= 500 or reply.status in (408, 425, 429):
        return pending(f"{words}: {reply.text(160) or 'no body'}", **evidence)
    if reply.status != 200:
        return failed(f"{words}: {reply.text(160) or 'no body'}", **evidence)
    try:
        data = reply.data()
    except ValueError:
        return failed(f"{words}, but the body is no JSON: {reply.text(120)}", **evidence)
    return _judge_body(data, words, evidence, reply, max_tokens)


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _judge_body(data: Any, words: str, evidence: Any, reply: Answer, max_tokens: int) -> Verdict:
    if not isinstance(data, dict) or data.get("error") or data.get("object") == "error":
        return failed(f"{words}, but the body is an error: {reply.text(160)}", **evidence)
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    if choice is None:
        return failed(f"{words}, but without choices: {reply.text(120)}", **evidence)
    message = _dict(choice.get("message"))
    content = message.get("content") or message.get("reasoning_content") or ""
    finish = choice.get("finish_reason")
    usage = _dict(data.get("usage"))
    tokens, asked = usage.get("completion_tokens"), usage.get("prompt_tokens")
    evidence.update(
        finish_reason=finish,
        completion_tokens=tokens,
        prompt_tokens=asked if isinstance(asked, int) else None,
        characters=len(str(content)),
    )
    if finish not in FINISHED:
        return failed(f"{words}, but finish_reason is {finish!r}", **evidence)
    if not content and finish != "tool_calls":
        return failed(f"{words}, but the content is empty (finish_reason {finish!r})", **evidence)
    if not isinstance(tokens, int) or not 1 <= tokens <= max_tokens:
        return failed(f"{words}, but usage counts {tokens!r} completion tokens of at most {max_tokens}", **evidence)
    return passed(f"{tokens} tokens in {reply.seconds:.1f} s, finish_reason {finish}", **evidence)

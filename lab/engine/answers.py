# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a request asks for, and the answers in the real one's shapes (recorded from 0.5.23).

A token is a word. The text is the same for the same request; a word like `nonce-4711` in the last message of the
user comes back as the first word, so that a caller can tell its own answer from another's.
"""

from __future__ import annotations

import json
import re
import time
import uuid
import zlib
from dataclasses import dataclass, field
from typing import Any

from .rooms import Failed

_SENTENCE = (
    "the pair serves while its scripts change and every knob has a value that somebody measured once so we read "
    "what runs before we write what should run and keep the old text beside the new one until the gates have passed"
)
_WORDS = _SENTENCE.split()
_NONCE = re.compile(r"\bnonce-[\w-]+")
# Ends by itself after this many tokens, unless ignore_eos.
_SHORTEST, _SPREAD = 128, 64


@dataclass
class Request:
    kind: str  # chat, completions, generate
    model: str
    rid: str
    prompt: str
    limit: int
    wanted: int
    stream: bool
    usage_chunk: bool
    host: str | None
    port: int | None
    room: int | None
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt.split()) + 4

    def word(self, index: int) -> str:
        if index == 0:
            found = _NONCE.findall(self.prompt)
            if found:
                return str(found[-1])
        at = zlib.crc32(self.prompt.encode()) + index
        return (" " if index else "") + _WORDS[at % len(_WORDS)]

    def text(self, begin: int, end: int) -> str:
        return "".join(self.word(index) for index in range(begin, end))


def _first(value: Any) -> Any:
    """The router sends lists for batches."""
    return value[0] if isinstance(value, list) and value else value


def _prompt(kind: str, body: dict[str, Any]) -> str:
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
            raise Failed("messages: Field required, a list of messages", 400)
        parts = [one.get("content") or "" for one in messages]
        texts = [part if isinstance(part, str) else " ".join(str(x.get("text", "")) for x in part) for part in parts]
        return "\n".join(texts)
    name = "prompt" if kind == "completions" else "text"
    text = body.get(name)
    if text is None and isinstance(body.get("input_ids"), list):
        return " ".join(str(_first(one)) for one in body["input_ids"])
    if not isinstance(text, str):
        raise Failed(f"{name}: Field required, a string (the simulation answers one prompt at a time)", 400)
    return text


def read_request(kind: str, body: Any, model: str, context: int) -> Request:
    """Raises Failed(400) as the real one's validation does."""
    if not isinstance(body, dict):
        raise Failed("Input should be a valid dictionary", 400)
    prompt = _prompt(kind, body)
    sampling = body.get("sampling_params") or {} if kind == "generate" else body
    limit = (
        sampling.get("max_new_tokens")
        if kind == "generate"
        else body.get("max_completion_tokens", body.get("max_tokens"))
    )
    if limit is None:
        limit = {"chat": context, "completions": 16, "generate": 128}[kind]
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise Failed(f"max_tokens must be at least 1, got {limit!r}.", 400)
    wanted = 10**9 if sampling.get("ignore_eos") else _SHORTEST + zlib.crc32(prompt.encode()) % _SPREAD
    port, room = _first(body.get("bootstrap_port")), _first(body.get("bootstrap_room"))
    request = Request(
        kind=kind,
        model=model,
        rid=str(_first(body.get("rid")) or uuid.uuid4().hex),
        prompt=prompt,
        limit=limit,
        wanted=wanted,
        stream=bool(body.get("stream")),
        usage_chunk=bool((body.get("stream_options") or {}).get("include_usage")),
        host=_first(body.get("bootstrap_host")),
        port=None if port is None else int(port),
        room=None if room is None else int(room),
    )
    if request.prompt_tokens >= context:
        raise Failed(
            f"The input ({request.prompt_tokens} tokens) is longer than the model's context length ({context} tokens).",
            400,
        )
    request.limit = min(limit, context - request.prompt_tokens)
    return request


def error_body(kind: str, message: str, status: int) -> dict[str, Any]:
    if kind == "generate":
        return {"error": {"message": message}}
    word = {400: "BadRequestError", 401: "Unauthorized", 503: "ServiceUnavailable"}.get(status, "InternalServerError")
    return {"object": "error", "message": message, "type": word, "param": None, "code": status}


def usage(request: Request, tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def _meta(request: Request, tokens: int, reason: str | None, spent_s: float) -> dict[str, Any]:
    finish: dict[str, Any] | None = None if reason is None else {"type": reason}
    if finish is not None and reason == "length":
        finish["length"] = tokens
    elif finish is not None and reason == "stop":
        finish["matched"] = 2
    return {
        "id": request.rid,
        "finish_reason": finish,
        "prompt_tokens": request.prompt_tokens,
        "weight_version": "default",
        "total_retractions": 0,
        "completion_tokens": tokens,
        "cached_tokens": 0,
        "e2e_latency": spent_s,
    }


def whole(request: Request, text: str, tokens: int, reason: str, spent_s: float) -> dict[str, Any]:
    """The answer that is not streamed."""
    matched = 2 if reason == "stop" else None
    if request.kind == "generate":
        return {"text": text, "output_ids": [0] * tokens, "meta_info": _meta(request, tokens, reason, spent_s)}
    body: dict[str, Any] = {
        "id": request.rid,
        "object": "chat.completion" if request.kind == "chat" else "text_completion",
        "created": request.created,
        "model": request.model,
    }
    choice: dict[str, Any] = {"index": 0}
    if request.kind == "chat":
        choice["message"] = {"role": "assistant", "content": text, "reasoning_content": None}
    else:
        choice["text"] = text
    body["choices"] = [{**choice, "logprobs": None, "finish_reason": reason, "matched_stop": matched}]
    body["usage"] = usage(request, tokens)
    versions = [{"version": "default", "start": 0, "end": tokens}]
    body["metadata"] = {"weight_version": "default", "weight_versions": versions}
    return body


class Chunks:
    """The parts of a streamed answer, as bytes. What is equal in all parts is made once: 64 streams write often."""

    def __init__(self, request: Request) -> None:
        self._request = request
        kind = "chat.completion.chunk" if request.kind == "chat" else "text_completion"
        head = {"id": request.rid, "object": kind, "created": request.created, "model": request.model}
        self._head = "data: " + json.dumps(head)[:-1] + ', "choices": '
        self._begin = (
            self._head + '[{"index": 0, ' + ('"delta": {"content": ' if request.kind == "chat" else '"text": ')
        )
        end = '"logprobs": null, "finish_reason": null, "matched_stop": null}], "usage": null}\n\n'
        self._end = ("}, " if request.kind == "chat" else ", ") + end

    def opening(self) -> bytes:
        if self._request.kind != "chat":
            return b""
        delta = {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "matched_stop": None}
        return (self._head + json.dumps([choice]) + ', "usage": null}\n\n').encode()

    def part(self, begin: int, end: int, spent_s: float) -> bytes:
        request = self._request
        if request.kind == "generate":
            told = {
                "text": request.text(0, end),
                "output_ids": [0] * end,
                "meta_info": _meta(request, end, None, spent_s),
            }
            return f"data: {json.dumps(told)}\n\n".encode()
        return f"{self._begin}{json.dumps(request.text(begin, end))}{self._end}".encode()

    def closing(self, text: str, tokens: int, reason: str, spent_s: float) -> bytes:
        """With the usage where it was asked for, and the end mark. `text` is for /generate, whose parts are cumulative."""
        request = self._request
        if request.kind == "generate":
            told = whole(request, text, tokens, reason, spent_s)
            return f"data: {json.dumps(told)}\n\ndata: [DONE]\n\n".encode()
        matched = 2 if reason == "stop" else None
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason, "matched_stop": matched}
        choice["delta" if request.kind == "chat" else "text"] = {} if request.kind == "chat" else ""
        parts = [self._head + json.dumps([choice]) + ', "usage": null}\n\n']
        if request.usage_chunk:
            parts.append(self._head + '[], "usage": ' + json.dumps(usage(request, tokens)) + "}\n\n")
        return ("".join(parts) + "data: [DONE]\n\n").encode()

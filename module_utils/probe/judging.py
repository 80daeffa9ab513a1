# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Reads an answer and judges it. A status of 200 proves nothing: broken pairs answer 200 with finish_reason "error"
and no content (smg#2382), and a decode that dies in the middle of a stream leaves 200, some events and no [DONE].
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .. import foreign_json
from ..gates.base import FAILED, PASSED
from ..gates.completion import FINISHED
from ..plain_text import one_line, plain
from .questions import CHAT, GENERATE, Question
from .stream import Exchange, counted


@dataclass
class Parsed:
    """What an answer says, whatever its shape."""

    content: str = ""
    reasoning: str = ""
    finish: Optional[str] = None
    prompt_tokens: Optional[int] = None
    completion_tokens: Optional[int] = None
    error: Optional[str] = None
    rid: Optional[str] = None  # SGLang's own id of the request, by which it can be aborted
    calls: bool = False


def _dict(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _line(text: str, limit: int = 160) -> str:
    return one_line(text, limit)


def _whole_number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _take_error(data: Any, parsed: Parsed) -> bool:
    if not isinstance(data, dict):
        parsed.error = f"no object: {_line(json.dumps(data))}"
    elif data.get("error") or data.get("object") == "error":
        found = data.get("error") or data.get("message")
        words = found.get("message") or json.dumps(found) if isinstance(found, dict) else str(found)
        parsed.error = _line(str(words))
    return parsed.error is not None


def _take_generate(data: Dict[str, Any], parsed: Parsed) -> None:
    """The parts of /generate are cumulative."""
    meta = _dict(data.get("meta_info"))
    parsed.content = str(data.get("text") or "")
    parsed.rid = str(meta["id"]) if meta.get("id") else parsed.rid
    finish = meta.get("finish_reason")
    if finish is not None:
        parsed.finish = str(_dict(finish).get("type") or finish)
        if parsed.finish not in FINISHED and _dict(finish).get("message"):
            parsed.error = _line(str(finish["message"]))
    parsed.prompt_tokens = _whole_number(meta.get("prompt_tokens"))
    parsed.completion_tokens = _whole_number(meta.get("completion_tokens"))


def _take_openai(data: Dict[str, Any], kind: str, parsed: Parsed) -> None:
    parsed.rid = str(data["id"]) if data.get("id") else parsed.rid
    usage = _dict(data.get("usage"))
    if usage:
        parsed.prompt_tokens = _whole_number(usage.get("prompt_tokens"))
        parsed.completion_tokens = _whole_number(usage.get("completion_tokens"))
    choices = data.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    said = _dict(choice.get("delta") or choice.get("message")) if kind == CHAT else {"content": choice.get("text")}
    parsed.content += str(said.get("content") or "")
    parsed.reasoning += str(said.get("reasoning_content") or "")
    parsed.calls = parsed.calls or bool(said.get("tool_calls"))
    if choice.get("finish_reason") is not None:
        parsed.finish = str(choice["finish_reason"])


def read(kind: str, found: Exchange) -> Parsed:
    """What the answer says so far, of a whole or a broken exchange."""
    parsed = Parsed()
    parts = [data for _at, data in found.events] if found.streamed else [found.body.decode("utf-8", "replace")]
    for part in parts:
        try:
            data = foreign_json.loads(part)
        except ValueError:
            if found.failure is None:
                parsed.error = f"no JSON: {_line(part) or 'an empty body'}" if found.status == 200 else _line(part)
            continue
        if _take_error(data, parsed):
            break
        if kind == GENERATE:
            _take_generate(data, parsed)
        else:
            _take_openai(data, kind, parsed)
    return parsed


def _trouble(asked: Question, found: Exchange, parsed: Parsed) -> Optional[str]:
    """Why this is no good answer, in words that follow the name of who was asked; None when it is one."""
    if found.failure is not None:
        return found.failure.said
    if found.status in (401, 403):
        return f"answered {found.status}: an API key is missing or wrong (api_key_file)"
    if found.status != 200:
        return f"answered {found.status}: {parsed.error or _line(found.body.decode('utf-8', 'replace')) or 'no body'}"
    if parsed.error is not None:
        return f"answered 200, but with an error: {parsed.error}"
    if found.streamed != asked.streamed:
        return f"answered 200, but {'not ' if asked.streamed else ''}as a stream"
    if asked.streamed and not found.events:
        return "answered 200, but the stream held no event"
    if asked.streamed and not found.done:
        return f"broke the stream off after {counted(len(found.events))}: [DONE] did not come"
    return _poor(asked, parsed)


def _poor(asked: Question, parsed: Parsed) -> Optional[str]:
    if parsed.finish not in FINISHED:
        return f"answered 200, but finish_reason is {parsed.finish!r}"
    if not (parsed.content or parsed.reasoning or parsed.calls):
        return f"answered 200, but the content is empty (finish_reason {parsed.finish!r})"
    tokens = parsed.completion_tokens
    # A proxy may keep the usage of a stream to itself; of a whole answer it is a part.
    if (tokens is None and not asked.streamed) or (tokens is not None and not 1 <= tokens <= asked.max_tokens):
        return f"answered 200, but counts {tokens!r} completion tokens of at most {asked.max_tokens}"
    if asked.over_tokens is not None and parsed.prompt_tokens is not None and parsed.prompt_tokens <= asked.over_tokens:
        return f"read {parsed.prompt_tokens} tokens of a prompt of {asked.words} words that was to be longer than {asked.over_tokens}"
    return None


def seconds(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 4)


def judge(asked: Question, found: Exchange, require_echo: bool) -> Tuple[Dict[str, Any], Parsed, str]:
    """The fields of an answer (without hop), what it says, and the words that follow the name of who was asked."""
    parsed = read(asked.kind, found)
    words = _trouble(asked, found, parsed)
    echoed = asked.nonce in parsed.content or asked.nonce in parsed.reasoning
    if words is None and require_echo and not echoed:
        words = f"answered, but without the word {asked.nonce} that it was asked to repeat"
    gaps: List[float] = found.gaps_s
    fields: Dict[str, Any] = {
        "kind": asked.kind,
        "size": asked.size,
        "streamed": asked.streamed,
        "status": found.status,
        "characters": len(parsed.content) + len(parsed.reasoning),
        "finish_reason": parsed.finish,
        "prompt_tokens": parsed.prompt_tokens,
        "completion_tokens": parsed.completion_tokens,
        "echoed": echoed,
        "events": len(found.events),
        "first_byte_s": seconds(found.first_byte_s),
        "gap_max_s": seconds(max(gaps)) if gaps else None,
        "gap_p50_s": seconds(statistics.median(gaps)) if gaps else None,
        "total_s": seconds(found.total_s),
        "connection": "kept" if found.kept else "fresh",
        "verdict": PASSED if words is None else FAILED,
    }
    if words is None:
        count = f"{parsed.completion_tokens} tokens" if parsed.completion_tokens is not None else "an answer"
        first = f", first byte after {found.first_byte_s:.2f} s" if found.first_byte_s is not None else ""
        words = f"gave {count} in {found.total_s:.2f} s{first}"
    return fields, parsed, plain(words)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an answer proves, whatever its status: all kinds, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.endpoint import Failure
from ansible_collections.pdops.sglang.plugins.module_utils.probe.judging import judge
from ansible_collections.pdops.sglang.plugins.module_utils.probe.questions import (
    Question,
    filler,
    kinds,
    long,
    question,
    short,
    words_for,
)
from ansible_collections.pdops.sglang.plugins.module_utils.probe.stream import Exchange

USAGE = {"prompt_tokens": 9, "completion_tokens": 3}
META = {"id": "rid-1", "finish_reason": {"type": "length", "length": 3}, **USAGE}


def whole(data: Any, status: int = 200) -> Exchange:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Exchange(status=status, body=body, first_byte_s=0.2, total_s=0.2)


def stream(*parts: Any, done: bool = True, **more: Any) -> Exchange:
    events = [(0.1 * (n + 1), part if isinstance(part, str) else json.dumps(part)) for n, part in enumerate(parts)]
    return Exchange(status=200, events=events, streamed=True, done=done, first_byte_s=0.1, total_s=1.0, **more)


def chat(content: Any = "nonce one", finish: Any = "stop", **more: Any) -> dict[str, Any]:
    return {
        "id": "rid-1",
        "choices": [{"message": {"content": content}, "finish_reason": finish}],
        "usage": USAGE,
        **more,
    }


def delta(content: str = "", finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": "rid-1", "choices": [{"delta": {"content": content}, "finish_reason": finish}], **more}


def ask(kind: str = "chat", streamed: bool = False, **more: Any) -> Question:
    return question(kind, streamed, "m", "say nonce-x", 8, "nonce", **more)


def words(asked: Question, found: Exchange, require_echo: bool = False) -> str:
    fields, _parsed, said = judge(asked, found, require_echo)
    assert (fields["verdict"] == "passed") == said.startswith("gave ")
    return said


GOOD = [
    (ask(), whole(chat())),
    (ask(), whole(chat(None, "tool_calls", choices=[
        {"message": {"content": None, "tool_calls": [{"id": 1}]}, "finish_reason": "tool_calls"}]))),
    (ask(), whole(chat("", choices=[
        {"message": {"content": "", "reasoning_content": "so"}, "finish_reason": "length"}]))),
    (ask("completions"), whole({"id": "rid-1", "choices": [{"text": "nonce", "finish_reason": "length"}], "usage": USAGE})),
    (ask("generate"), whole({"text": "nonce", "meta_info": META})),
    (ask(streamed=True), stream(delta("non"), delta("ce"), delta("", "stop"), {"choices": [], "usage": USAGE})),
    (ask(streamed=True), stream(delta("x"), delta("", "length"))),  # a proxy that keeps the usage to itself
    (ask("generate", True), stream({"text": "n", "meta_info": {**META, "finish_reason": None}}, {"text": "nonce", "meta_info": META})),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_good_answers_pass(number):
    asked, found = GOOD[number]
    fields, parsed, said = judge(asked, found, False)
    assert fields["verdict"] == "passed", said
    assert fields["completion_tokens"] in (3, None) and parsed.rid == "rid-1"
    assert fields["events"] == len(found.events) and (fields["gap_max_s"] is None) == (len(found.events) < 2)


ABORT = {"type": "abort", "message": "KV transfer failed"}
SHORT = "read 9 tokens of a prompt of 2 words that was to be longer than 64"
BAD = [
    ("an error in 200", ask(), whole(chat("", "error")), "finish_reason is 'error'"),
    ("no finish", ask(streamed=True), stream(delta("a")), "finish_reason is None"),
    ("abort", ask("generate"), whole({"text": "", "meta_info": {**META, "finish_reason": ABORT}}), "error: KV transfer failed"),
    ("empty", ask(), whole(chat("")), "content is empty (finish_reason 'stop')"),
    ("empty stream", ask(streamed=True), stream(delta("", "length")), "content is empty (finish_reason 'length')"),
    ("no events", ask(streamed=True), stream(), "held no event"),
    ("no [DONE]", ask(streamed=True), stream(delta("a"), delta("", "stop"), done=False), "[DONE] did not come"),
    ("error event", ask(streamed=True), stream(delta("a"), {"error": {"message": "decode died"}}), "error: decode died"),
    ("error object", ask(), whole({"object": "error", "message": "no room"}), "error: no room"),
    ("no JSON", ask(), whole(b"<html>"), "no JSON: <html>"),
    ("escapes", ask(), whole(b"<b>\x1b[31mlogin\x07</b>", 502), "answered 502: <b>login</b>"),
    ("escapes in an error", ask(), whole({"error": {"message": "\x1b[2Jgone\u202e"}}), "error: gone"),
    ("an endless nesting", ask(), whole(b"[" * 100000), "no JSON: [[["),
    ("no body", ask(), whole(b""), "no JSON: an empty body"),
    ("a list", ask(), whole([1]), "no object: [1]"),
    ("not as a stream", ask(streamed=True), whole(chat()), "not as a stream"),
    ("as a stream", ask(), stream(delta("a", "stop")), "but as a stream"),
    ("too many tokens", ask(), whole(chat(usage={"prompt_tokens": 1, "completion_tokens": 9})), "counts 9 completion tokens of at most 8"),
    ("no tokens", ask(), whole(chat(usage={})), "counts None completion tokens"),
    ("key", ask(), whole(b"", 401), "answered 401: an API key is missing or wrong (api_key_file)"),
    ("503", ask(), whole({"error": {"message": "all circuits open"}}, 503), "answered 503: all circuits open"),
    ("502 in text", ask(), whole(b"bad\n gateway", 502), "answered 502: bad gateway"),
    ("a short prompt", ask(streamed=True, over_tokens=64), stream(delta("a", "stop"), {"choices": [], "usage": USAGE}), SHORT),
    ("a failure", ask(streamed=True), stream(delta("a"), failure=Failure("timeout", "went silent", 1.0)), "went silent"),
]  # fmt: skip


@pytest.mark.parametrize(("_name", "asked", "found", "said"), BAD, ids=[one[0] for one in BAD])
def test_bad_answers_fail_with_what_is_wrong(_name, asked, found, said):
    assert said in words(asked, found)


def test_an_echo_is_reported_and_fails_only_when_it_is_required():
    fields, _parsed, _said = judge(ask(), whole(chat("nonce one")), True)
    assert fields["echoed"] and fields["verdict"] == "passed"
    deaf = whole(chat("something else"))
    fields, _parsed, _said = judge(ask(), deaf, False)
    assert not fields["echoed"] and fields["verdict"] == "passed"
    assert "without the word nonce" in words(ask(), deaf, require_echo=True)


def test_questions_ask_for_what_they_say():
    for kind, streamed in kinds():
        asked = short(kind, streamed, "m", 8)
        assert asked.body["stream"] is streamed and asked.nonce in json.dumps(asked.body)
        assert ("stream_options" in asked.body) == (streamed and kind != "generate")
    one, two = (long("page", 64, 90, "m", 8) for _ in range(2))
    assert one.nonce != two.nonce and one.body["messages"][0]["content"].startswith(one.nonce)
    assert len(filler(300).split()) == 300


def test_a_long_prompt_fits_into_the_context_or_is_not_sent():
    assert words_for(64, 1.0, 10_000) == 82
    assert words_for(1000, 2.0, 1500) == 551  # fewer words, but enough tokens
    assert words_for(1000, 2.0, 1000) is None

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The probe on the real pair: all kinds by the router and directly, a conversation, and what an abort leaves behind."""

from __future__ import annotations

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils.probe.plan import plan_from
from ansible_collections.pdops.sglang.plugins.module_utils.probe.probing import run

from .conftest import RealLab

KINDS = [
    (kind, streamed) for kind in ("chat", "completions", "generate") for streamed in (False, True)
]  # and a chat longer than a page, and one longer than a chunk


def probe(lab: RealLab, **more: Any) -> dict[str, Any]:
    told = lab.data["instances"]
    options: dict[str, Any] = {
        "router_url": told["lab-router"]["url"],
        "prefill_url": told["lab-prefill"]["url"],
        "decode_url": told["lab-decode"]["url"],
        "bootstrap_port": told["lab-prefill"]["bootstrap_port"],
        "hops": ["router", "pair"],
        "rounds": 0,
        "series": ["kept", "fresh"],
        "requests": True,
        "max_tokens": 24,
        "round_words": 10,
        "require_echo": False,
        "first_byte_s": 20,
        "gap_s": 20,
        "request_s": 40,
        "timeout_s": 200,
        **more,
    }
    found = run(plan_from(options), lambda line, _good: print(f"  {line}", flush=True))
    print("\n".join([*found["table"], found["said"], f"left in queues: {found['queues']}"]), flush=True)
    return found


def test_all_kinds_pass_by_the_router_and_by_the_pair(lab: RealLab) -> None:
    found = probe(lab)
    assert found["verdict"] == "passed", found["said"]
    for hop in ("pair", "router"):
        mine = [one for one in found["answers"] if one["hop"] == hop]
        assert [(one["kind"], one["streamed"]) for one in mine[:6]] == KINDS
        assert all(one["verdict"] == "passed" and one["characters"] > 0 for one in mine[:7])
        assert mine[6]["size"] == "page" and mine[6]["prompt_tokens"] > 1
        # 4096 tokens to a chunk, 1024 to the context: there is no such prompt.
        assert mine[7]["verdict"] == "not-observable" and "holds no longer prompt" in mine[7]["said"]
    assert found["left_in_queues"] == 0


def test_a_chunk_can_be_passed_when_it_is_said_to_be_short_and_rounds_grow(lab: RealLab) -> None:
    found = probe(lab, chunk_tokens=300, rounds=8, hops=["router"], max_tokens=16)
    assert found["verdict"] == "passed", found["said"]
    assert found["answers"][-1]["size"] == "chunk" and found["answers"][-1]["prompt_tokens"] > 300
    rounds = found["conversation"]["rounds"]
    assert len(rounds) == 16 and rounds[1]["prompt_tokens"] > rounds[0]["prompt_tokens"]


def test_a_request_that_is_given_up_leaves_nothing_in_a_queue(lab: RealLab) -> None:
    """A deadline that no engine can keep: the request is aborted by its id and by the closed connection."""
    found = probe(lab, hops=["pair"], requests=False, rounds=1, series=["fresh"], max_tokens=400, request_s=0.6)
    (only,) = found["conversation"]["rounds"]
    assert only["verdict"] == "failed" and only["aborted"]["told"] == ["prefill", "decode"]
    assert found["left_in_queues"] == 0, found["queues"]
    assert probe(lab, rounds=2, requests=False)["verdict"] == "passed"

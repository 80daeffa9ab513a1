# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate transfer and the prompts of gate completion, on what the real engines show."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates import completion, metrics, prompts, transfer
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Look, Peer
from ansible_collections.pdops.sglang.plugins.module_utils.gates.prompts import Sizes

FAILED_ONE = 'sglang:num_transfer_failed_reqs_total{engine_type="decode",tp_rank="0"} '
MOVED = "".join(f'sglang:kv_transfer_total_mb_count{{engine_type="prefill",tp_rank="{rank}"}} %d\n' for rank in (0, 1))


def test_counters_of_the_real_engines(recorded):
    before, after = recorded("metrics_decode.prom"), recorded("metrics_decode_after.prom")
    name = "sglang:kv_transfer_bootstrap_ms_count"
    assert (metrics.total(before, name), metrics.total(after, name)) == (1.0, 3.0)
    assert metrics.total(after, "sglang:num_transfer_failed_reqs_total") is None
    assert metrics.total(recorded("metrics_prefill.prom"), "sglang:kv_transfer_total_mb_count") is None
    assert metrics.total(MOVED % (2, 3), "sglang:kv_transfer_total_mb_count") == 5.0
    assert metrics.total("a NaN\na 2", "a") == 2.0


class Pair:
    """Two engines, each a server of its own, whose metrics change from one reading to the next."""

    def __init__(self, make, target, look):
        self.prefill, self.decode = make(), make()
        self.look = look
        look.gates = ("completion", "transfer")
        look.memory["completions"] = [{}, {}]
        self.target = target(
            "router",
            peers=(Peer("p", "prefill", self.prefill.url), Peer("d", "decode", self.decode.url)),
        )

    def step(self, prefill, decode):
        """(before, after) of both."""
        for server, (before, _after) in ((self.prefill, prefill), (self.decode, decode)):
            server.paths["/metrics"] = before if isinstance(before, tuple) else (200, before)
        transfer.remember(self.target, self.look)
        for server, (_before, after) in ((self.prefill, prefill), (self.decode, decode)):
            server.paths["/metrics"] = after if isinstance(after, tuple) else (200, after)
        return transfer.check(self.target, self.look)


@pytest.fixture
def pair(more_answers, target, look):
    return Pair(more_answers, target, look)


def test_the_decode_alone_is_a_weak_witness(pair, recorded):
    idle = recorded("metrics_prefill.prom")
    verdict = pair.step((idle, idle), (recorded("metrics_decode.prom"), recorded("metrics_decode_after.prom")))
    assert verdict.result == "passed"
    assert "kv_transfer_bootstrap_ms_count of the decode moved by 2" in verdict.said
    assert "also count health probes" in verdict.said
    assert json.dumps(verdict.evidence)


def test_the_prefill_decides_where_it_counts(pair, recorded, monkeypatch):
    idle, after = recorded("metrics_decode.prom"), recorded("metrics_decode_after.prom")
    verdict = pair.step(("", MOVED % (2, 2)), (idle, after))
    assert (verdict.result, verdict.said) == (
        "passed",
        "none failed over 2 completions, and kv_transfer_total_mb_count of the prefill moved by 4",
    )
    # Health probes moved the decode's, but nothing was transferred.
    verdict = pair.step((MOVED % (2, 2), MOVED % (2, 2)), (idle, after))
    assert (verdict.result, "no transfer is counted yet" in verdict.said) == ("pending", True)
    monkeypatch.setattr(transfer, "SETTLED_S", 0.0)
    verdict = transfer.check(pair.target, pair.look)
    assert verdict.result == "failed"
    assert "decode may have computed the prompts itself" in verdict.said
    assert pair.step(("", ""), ("", "")).result == "not-observable"


@pytest.mark.parametrize(
    ("decode", "result", "words"),
    [
        (("", FAILED_ONE + "1"), "failed", "num_transfer_failed_reqs_total of d stepped by 1"),
        ((FAILED_ONE + "3", FAILED_ONE + "5"), "failed", "stepped by 2 over 2 completions"),
        ((FAILED_ONE + "3", FAILED_ONE + "3"), "passed", "none failed"),
        (
            ("sglang:num_bootstrap_failed_reqs_total 0", "sglang:num_bootstrap_failed_reqs_total 1"),
            "failed",
            "bootstrap",
        ),
        ((FAILED_ONE + "3", ""), "failed", "went back: it was restarted"),
        (((404, ""), (404, "")), "not-observable", "d has no /metrics: put --enable-metrics into its serve script"),
        (((500, ""), ""), "not-observable", "answers 500"),
    ],
)
def test_judgement(pair, decode, result, words):
    verdict = pair.step(("", MOVED % (1, 1)), decode)
    assert verdict.result == result
    assert words in verdict.said


def test_gauges_do_not_count(pair):
    stuck = "sglang:num_prefill_inflight_queue_reqs 7\nsglang:gen_throughput 0\n"
    assert pair.step((stuck, stuck + MOVED % (1, 1)), ("", "")).result == "passed"


def test_nobody_to_ask(pair, target, look):
    assert "no engine is known" in transfer.check(target("router"), look).said
    assert transfer.check(pair.target, Look(None, {}, time.monotonic() + 5)).result == "not-observable"


# --- the prompts


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (Sizes(1, 4096, 1024, ""), 17),
        (Sizes(256, 8192, 131072, ""), 272),
        (Sizes(256, None, None, ""), 272),
        (Sizes(256, 8192, 512, ""), 64),
    ],
)
def test_the_first_prompt_is_longer_than_a_page(sizes, words):
    assert prompts.first_words(sizes) == words
    assert len(prompts.prompt(words).split()) > words


@pytest.mark.parametrize("per_word", [1.0, 1.3, 3.7])
@pytest.mark.parametrize("template", [0, 4, 40])
def test_the_second_prompt_is_longer_than_a_chunk_and_shorter_than_the_context(per_word, template):
    for chunk, context in ((8192, 131072), (2048, 40960), (4096, 5000)):
        sizes = Sizes(64, chunk, context, "")
        words = prompts.first_words(sizes)
        tokens = int(words * per_word) + template
        second, why = prompts.second_words(sizes, words, tokens, 1000000, 8)
        assert second is not None, why
        assert int(second * per_word) + template + 8 <= context
        if context > 2 * chunk:
            assert int(second * per_word) + template > chunk


@pytest.mark.parametrize(
    ("sizes", "tokens", "longest", "why"),
    [
        (Sizes(256, None, None, ""), 280, 20480, "no engine told its prefill chunk"),
        (Sizes(256, 128, 4096, ""), 280, 20480, ""),  # the first was longer already
        (Sizes(1, 4096, 1024, ""), 60, 20480, "a prefill chunk of 4096 tokens is out of reach: a prompt may have 1000"),
        (
            Sizes(256, 8192, 131072, ""),
            280,
            200,
            "a prefill chunk of 8192 tokens is out of reach: a prompt may have 200",
        ),
    ],
)
def test_no_second_prompt(sizes, tokens, longest, why):
    assert prompts.second_words(sizes, 272, tokens, longest, 8) == (None, why)


def test_sizes_are_those_of_the_real_engine(answers, target, look, recorded):
    answers.paths["/server_info"] = (200, recorded("server_info_decode.json"))
    given = target("router", peers=(Peer("p", "prefill", answers.url), Peer("d", "decode", "http://127.0.0.1:1")))
    assert prompts.sizes_of(given, look) == (Sizes(1, 4096, 1024, "p"), None)
    answers.paths.clear()
    assert prompts.sizes_of(given, look)[0].chunk == 4096  # remembered
    look.memory.clear()
    assert prompts.sizes_of(given, look) == (Sizes(256, None, None, ""), None)
    answers.paths["/server_info"] = (401, "")
    assert (
        "p: /server_info 401: it wants an API key"
        in completion.check(target("router", model="m", peers=given.peers), look).said
    )


def test_two_completions_of_a_real_engine_and_what_the_counters_say_of_a_bad_one(answers, target, look, recorded):
    info = json.loads(recorded("server_info_decode.json"))
    for one in (info, info["internal_states"][0]):
        one.update(page_size=64, chunked_prefill_size=512, context_length=4096)
    whole = json.loads(recorded("chat_completion.json"))

    def chat(server):
        words = len(json.loads(server.asked[-1][3])["messages"][0]["content"].split())
        return 200, {**whole, "usage": {**whole["usage"], "prompt_tokens": words}}

    answers.paths.update(
        {"/server_info": (200, info), "/v1/models": (200, {"data": [{"id": "tiny"}]}), "/v1/chat/completions": chat}
    )
    given = target("router", peers=(Peer("p", "prefill", answers.url),))
    look.gates = ("completion", "transfer")
    answers.paths["/metrics"] = (200, "")
    verdict = completion.check(given, look)
    assert (verdict.result, "a longer prompt is next" in verdict.said) == ("pending", True)
    look.memory = json.loads(json.dumps(look.memory))  # a slice ended
    verdict = completion.check(given, look)
    assert verdict.result == "passed"
    assert "more than a page of 64 and a chunk of 512" in verdict.said
    assert [one["prompt_tokens"] > size for one, size in zip(verdict.evidence["requests"], (64, 512))] == [True, True]

    look.memory.clear()
    answers.paths["/metrics"] = lambda server: (
        200,
        FAILED_ONE + str(sum(one[1] == "/metrics" for one in server.asked)),
    )
    answers.paths["/v1/chat/completions"] = (500, {"error": "decode_internal_error"})
    verdict = completion.check(given, look)
    assert verdict.result == "pending"
    assert "decode_internal_error" in verdict.said
    assert "num_transfer_failed_reqs_total of p stepped by 1" in verdict.said
    assert "completions" not in look.memory or not look.memory["completions"]


@pytest.mark.parametrize(
    ("bad", "result", "words"),
    [
        # 500 first, then two answers: the failure of the first try counts, and its words never say that none failed.
        (
            [500],
            "failed",
            "num_transfer_failed_reqs_total of p stepped by 1 over 2 completions and 1 before them that was",
        ),
        ([500, 500], "failed", "stepped by 2 over 2 completions and 2 before them that were not answered well"),
        # The first request after a start may take longer than anybody waits, and giving it up fails its transfer.
        (
            ["late"],
            "passed",
            "p stepped by 1 while a request was given up after its time; since then none failed over 2",
        ),
        (["late", 500], "failed", "num_transfer_failed_reqs_total of p stepped by 1 over"),
        ([500, "late"], "failed", "num_transfer_failed_reqs_total of p stepped by 2 over"),
        ([], "passed", "none failed over 2 completions, and"),
    ],
)
def test_failures_of_earlier_tries_of_the_ladder_are_not_forgotten(answers, target, look, recorded, bad, result, words):
    whole = json.loads(recorded("chat_completion.json"))
    failures, left = [0], list(bad)
    good = [0]

    def chat(server):
        if left:
            failures[0] += 1
            if left.pop(0) == "late":
                time.sleep(0.8)
            return 500, {"error": "decode_internal_error"}
        good[0] += 1
        asked = len(json.loads(server.asked[-1][3])["messages"][0]["content"].split())
        return 200, {**whole, "usage": {**whole["usage"], "prompt_tokens": asked}}

    answers.paths.update(
        {
            "/server_info": (200, recorded("server_info_decode.json")),
            "/v1/chat/completions": chat,
            "/metrics": lambda _server: (200, f"{FAILED_ONE}{failures[0]}\n{MOVED % (good[0], good[0])}"),
        }
    )
    given = target("router", model="tiny", request_timeout_s=0.5, peers=(Peer("p", "prefill", answers.url),))
    look.gates = ("completion", "transfer")
    for _look in range(len(bad) + 2):
        verdict = completion.check(given, look)
        look.memory = json.loads(json.dumps(look.memory))  # each slice may be another process
    assert verdict.result == "passed", verdict
    verdict = transfer.check(given, look)
    assert verdict.result == result and words in verdict.said, verdict
    assert ("none failed" in verdict.said) == (result == "passed")

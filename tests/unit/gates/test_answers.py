# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gates that judge an HTTP answer: health, rendezvous, router, completion."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates import completion, http_gates, rendezvous, router
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Look
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        ((200, ""), "passed", "/health 200"),
        ((503, ""), "pending", "port open, /health 503"),
        ((503, {"status": "Starting"}), "pending", "Starting"),
        ((500, "x"), "pending", "/health 500"),
        ((404, ""), "failed", "not a healthy engine"),
        ((429, ""), "pending", "429"),
    ],
)
def test_health(answers, target, look, answer, result, words):
    answers.paths["/health"] = answer
    verdict = http_gates.check_health(target(), look)
    assert verdict.result == result
    assert words in verdict.said
    assert verdict.evidence["status"] == answer[0]


def test_health_of_nobody(target, look):
    verdict = http_gates.check_health(target(url="http://127.0.0.1:1"), look)
    assert (verdict.result, verdict.evidence["kind"]) == ("pending", "refused")
    verdict = http_gates.check_health(target(url="http://no-such-host.invalid:1"), look)
    assert (verdict.result, verdict.evidence["kind"]) == ("failed", "dns")


def test_a_hanging_health_takes_no_more_than_what_is_left(answers, target):
    answers.paths["/health"] = lambda _server: time.sleep(60) or (200, "")
    begin = time.monotonic()
    verdict = http_gates.check_health(target(), Look(None, {}, time.monotonic() + 0.6))
    assert verdict.result == "pending"
    assert time.monotonic() - begin < 30


def prefill(answers, target):
    return target("prefill", bootstrap_port=answers.server.server_port)


def test_rendezvous_of_the_real_bootstrap_server(answers, target, look, recorded):
    answers.paths["/route"] = (200, recorded("route.json"))
    verdict = rendezvous.check(prefill(answers, target), look)
    assert verdict.result == "passed"
    assert verdict.evidence["route"]["page_size"] == 1
    assert "prefill_dp_rank=-1" in answers.asked[0][1]


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        ((503, "not fully registered (1 workers registered)"), "pending", "not fully registered"),
        ((404, ""), "failed", "not a bootstrap server"),
        ((200, "OK"), "failed", "no JSON"),
        ((200, "[]"), "failed", "without page_size"),
        ((200, {"dp_size": 1}), "failed", "without page_size"),
    ],
)
def test_rendezvous(answers, target, look, answer, result, words):
    answers.paths["/route"] = answer
    verdict = rendezvous.check(prefill(answers, target), look)
    assert verdict.result == result
    assert words in verdict.said


def test_rendezvous_needs_the_port(target, look):
    with pytest.raises(PdopsError, match="needs bootstrap_port"):
        rendezvous.check(target("prefill"), look)


PREFILL, DECODE = "http://127.0.0.1:33100", "http://127.0.0.1:33200"


@pytest.fixture
def real_router(answers, recorded):
    answers.paths["/readiness"] = (200, recorded("router_readiness.json"))
    answers.paths["/workers"] = (200, recorded("router_workers.json"))
    answers.paths["/metrics"] = (200, recorded("router_metrics.prom"))
    return answers


def test_router_with_the_answers_of_the_real_one(real_router, target, look):
    verdict = router.check(target("router", metrics_url=real_router.url, workers=(PREFILL, DECODE + "/")), look)
    assert verdict.result == "passed"
    assert verdict.said == "ready with 2 workers, breakers closed"
    assert verdict.evidence["breakers"] == {PREFILL: "closed", DECODE: "closed"}
    assert verdict.evidence["workers"][PREFILL] == {"role": "prefill", "healthy": True}


def test_router_without_metrics_says_so(real_router, target, look):
    verdict = router.check(target("router"), look)
    assert verdict.result == "passed"
    assert "breakers not seen" in verdict.said
    verdict = router.check(target("router", metrics_url="http://127.0.0.1:1"), look)
    assert verdict.result == "passed"
    assert "breakers not seen: nothing listens" in verdict.said


def test_an_open_breaker_is_waited_for(real_router, target, look, recorded):
    metrics = recorded("router_metrics.prom").replace(
        f'smg_worker_cb_state{{worker="{DECODE}"}} 0', f'smg_worker_cb_state{{worker="{DECODE}"}} 1'
    )
    assert metrics != recorded("router_metrics.prom")
    real_router.paths["/metrics"] = (200, metrics)
    verdict = router.check(target("router", metrics_url=real_router.url + "/metrics"), look)
    assert verdict.result == "pending"
    assert f"circuit breaker of {DECODE} is open" in verdict.said


def test_a_worker_that_is_not_registered_or_not_healthy(real_router, target, look, recorded):
    verdict = router.check(target("router", workers=(PREFILL, "http://127.0.0.1:33300")), look)
    assert verdict.result == "pending"
    assert verdict.evidence["missing"] == ["http://127.0.0.1:33300"]
    listed = json.loads(recorded("router_workers.json"))
    listed["workers"][1]["is_healthy"] = False
    real_router.paths["/workers"] = (200, listed)
    verdict = router.check(target("router", workers=(PREFILL, DECODE)), look)
    assert verdict.result == "pending"
    assert f"{DECODE} is not healthy" in verdict.said


@pytest.mark.parametrize(
    ("paths", "result", "words"),
    [
        ({"/readiness": (503, {"status": "not ready", "reason": "no healthy decode"})}, "pending", "no healthy decode"),
        ({"/readiness": (404, "")}, "failed", "404"),
        ({"/workers": (401, "")}, "failed", "wants an API key"),
        ({"/workers": (200, "hello")}, "failed", "no list of workers"),
        ({"/workers": (200, {"workers": []}), "/metrics": (200, "")}, "passed", "0 workers"),
    ],
)
def test_router_answers(real_router, target, look, paths, result, words):
    real_router.paths.update(paths)
    verdict = router.check(target("router"), look)
    assert verdict.result == result
    assert words in verdict.said


def test_samples_of_the_text_format():
    text = '# TYPE a gauge\na 1\na{b="c\\"d",e="}"} 2.5 1234\nab 3\na_total{x="y"} 4\na{b="z"} NaN\na{} oops\n'
    found = router.samples(text, "a")
    assert found[:2] == [({}, 1.0), ({"b": 'c\\"d', "e": "}"}, 2.5)]
    assert len(found) == 3


@pytest.fixture
def chat(answers, recorded):
    answers.paths["/v1/models"] = (200, {"data": [{"id": "tiny"}]})
    answers.paths["/v1/chat/completions"] = (200, recorded("chat_completion.json"))
    return answers


def test_completion_with_the_answer_of_the_real_one(chat, target, look):
    verdict = completion.check(target("router"), look)
    assert verdict.result == "passed"
    assert verdict.evidence["completion_tokens"] == 8
    assert verdict.evidence["finish_reason"] == "length"
    method, path, _headers, body = chat.asked[-1]
    assert (method, path) == ("POST", "/v1/chat/completions")
    assert json.loads(body)["model"] == "tiny"
    assert json.loads(body)["max_tokens"] == 8


def test_completion_with_a_given_model_and_key(chat, target, look):
    verdict = completion.check(target("router", model="other", api_key="k-1"), look)
    assert verdict.result == "passed"
    assert len(chat.asked) == 1
    assert chat.asked[0][2]["Authorization"] == "Bearer k-1"
    assert "k-1" not in repr(verdict)
    assert "k-1" not in repr(target("router", api_key="k-1"))


def body(**changes):
    whole = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }
    choice = whole["choices"][0]
    for name, value in changes.items():
        if name in ("content", "reasoning_content"):
            choice["message"][name] = value
        elif name in ("finish_reason", "message"):
            choice[name] = value
        else:
            whole[name] = value
    return whole


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        ((200, body()), "passed", "3 tokens"),
        ((200, body(content="", reasoning_content="hm")), "passed", "3 tokens"),
        ((200, body(finish_reason="error")), "failed", "finish_reason is 'error'"),
        ((200, body(finish_reason="abort")), "failed", "finish_reason is 'abort'"),
        ((200, body(finish_reason=None)), "failed", "finish_reason is None"),
        ((200, body(content="")), "failed", "content is empty"),
        ((200, body(content=None)), "failed", "content is empty"),
        ((200, body(message=None)), "failed", "content is empty"),
        ((200, body(usage=None)), "failed", "usage counts None"),
        ((200, body(usage={"completion_tokens": 0})), "failed", "usage counts 0"),
        ((200, body(usage={"completion_tokens": 4000})), "failed", "usage counts 4000"),
        ((200, body(choices=[])), "failed", "without choices"),
        ((200, body(choices="x")), "failed", "without choices"),
        ((200, {"error": {"message": "KV transfer failed"}}), "failed", "KV transfer failed"),
        ((200, {"object": "error", "message": "no"}), "failed", "is an error"),
        ((200, "null"), "failed", "is an error"),
        ((200, "<html>"), "failed", "no JSON"),
        ((200, ""), "failed", "no JSON"),
        ((400, {"error": "decode_bad_request"}), "failed", "decode_bad_request"),
        ((401, ""), "failed", "pd_api_key_file"),
        ((404, ""), "failed", "404"),
        ((408, ""), "pending", "408: no body"),
        ((429, ""), "pending", "429"),
        ((500, {"error": "decode_internal_error"}), "pending", "decode_internal_error"),
        ((502, {"error": "decode_server_error"}), "pending", "502"),
        ((503, {"error": "all circuits open"}), "pending", "all circuits open"),
    ],
)
def test_completion(chat, target, look, answer, result, words):
    chat.paths["/v1/chat/completions"] = answer
    verdict = completion.check(target("router"), look)
    assert verdict.result == result, verdict
    assert words in verdict.said
    assert verdict.evidence["status"] == answer[0]


def test_half_open_breakers_are_closed_by_more_requests(chat, target, look, recorded):
    half = recorded("router_metrics.prom").replace(
        f'cb_state{{worker="{DECODE}"}} 0', f'cb_state{{worker="{DECODE}"}} 2'
    )
    chat.paths["/metrics"] = (200, half)
    given = target("router", metrics_url=chat.url, workers=(DECODE + "/",))
    assert f"breaker of {DECODE} half-open" in router._judge_breakers(given, look, [DECODE], {}).said
    verdict = completion.check(given, look)
    assert (verdict.result, "is half-open" in verdict.said) == ("pending", True)
    elsewhere = target("router", metrics_url=chat.url, workers=(PREFILL,))
    assert completion.check(elsewhere, look).result == "passed"
    for _more in range(4):
        assert completion.check(given, look).result == "pending"
    assert completion.check(given, look).result == "passed"  # enough is enough
    look.memory.clear()
    chat.paths["/metrics"] = (200, recorded("router_metrics.prom"))
    assert completion.check(given, look).result == "passed"


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        ((503, ""), "pending", "/v1/models 503"),
        ((200, {"data": []}), "pending", "names no model"),
        ((200, "x"), "pending", "names no model"),
        ((401, ""), "failed", "API key"),
        ((404, ""), "failed", "names no model"),
    ],
)
def test_models(chat, target, look, answer, result, words):
    chat.paths["/v1/models"] = answer
    verdict = completion.check(target("router"), look)
    assert (verdict.result, words in verdict.said) == (result, True), verdict


def test_a_completion_that_never_comes(chat, target, look):
    chat.paths["/v1/chat/completions"] = lambda _server: time.sleep(60) or (200, "")
    verdict = completion.check(target("router", request_timeout_s=0.5), look)
    assert verdict.result == "pending"
    assert "within 0.5 s" in verdict.said

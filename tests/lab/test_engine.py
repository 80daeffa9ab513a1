# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""The simulated pair behind the real router: it must behave as the recorded real one does."""

from __future__ import annotations

import json
import time

import pytest

from lab.engine.metrics import SHAPES
from lab.engine.options import shape

from .engines import Pair, ask, counter, hello, pair, served, shared, until  # noqa: F401 (fixtures)

pytestmark = pytest.mark.lab


# --- requests through the router


def test_completion(served: Pair) -> None:
    status, text = ask(served.router, "/v1/chat/completions", hello())
    assert status == 200, text
    told = json.loads(text)
    choice = told["choices"][0]
    assert choice["message"]["content"].startswith("nonce-4711 ") and choice["finish_reason"] == "length"
    assert told["usage"]["completion_tokens"] == 8 == len(choice["message"]["content"].split())
    again = json.loads(ask(served.router, "/v1/chat/completions", hello())[1])
    assert again["choices"][0]["message"] == choice["message"] and again["id"] != told["id"]


def test_streamed_through_the_proxy(served: Pair) -> None:
    before = json.loads(ask(served.proxy, "/_proxy/status")[1])["rounds"]
    question = hello(64, stream=True, stream_options={"include_usage": True})
    status, text = ask(served.proxy, "/v1/chat/completions", question)
    assert status == 200
    parts = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert parts[-1] == "[DONE]"
    told = [json.loads(part) for part in parts[:-1]]
    content = "".join(one["choices"][0]["delta"].get("content") or "" for one in told if one["choices"])
    assert content.startswith("nonce-4711 ") and len(content.split()) == 64
    assert told[-2]["choices"][0]["finish_reason"] == "length" and told[-1]["usage"]["completion_tokens"] == 64
    assert len(told) > 8  # token by token; a busy machine may put some into one part
    assert json.loads(ask(served.proxy, "/_proxy/status")[1]) == {"rounds": before + 1, "wedged": False}


def test_generate_and_completions(served: Pair) -> None:
    told = json.loads(ask(served.router, "/generate", {"text": "nonce-7", "sampling_params": {"max_new_tokens": 4}})[1])
    assert told["text"].startswith("nonce-7") and told["meta_info"]["finish_reason"] == {"type": "length", "length": 4}
    told = json.loads(ask(served.router, "/v1/completions", {"model": "tiny", "prompt": "nonce-8", "max_tokens": 4})[1])
    assert told["choices"][0]["text"].startswith("nonce-8") and told["object"] == "text_completion"
    told = json.loads(ask(served.router, "/v1/chat/completions", hello(1000))[1])
    assert told["choices"][0]["finish_reason"] == "stop" and 128 <= told["usage"]["completion_tokens"] < 192
    assert ask(served.decode, "/v1/chat/completions", hello(0))[0] == 400
    assert ask(served.decode, "/v1/chat/completions", hello())[0] == 400  # without a room


def test_what_operators_read(served: Pair) -> None:
    info = json.loads(ask(served.decode, "/server_info")[1])
    assert info["version"] == "0.5.23-simulation" and info["disaggregation_mode"] == "decode" and info["tp_size"] == 4
    env = info["internal_states"][0]["env_vars"]
    assert env["SGLANG_SM120_FLASHMLA_BACKEND"] == "triton" and "SGLANG_SM120_MMA_TARGET_CTAS" not in env
    assert "env_vars" not in json.loads(ask(served.prefill, "/server_info")[1])["internal_states"][0]
    route = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
    told = json.loads(ask(served.bootstrap, route)[1])
    assert told["page_size"] == 1 and told["prefill_http_port"] == served.prefill
    load = json.loads(ask(served.decode, "/v1/loads?include=core,disagg,queues")[1])["loads"][0]
    assert load["disaggregation"]["mode"] == "decode" and abs(time.time() - load["timestamp"]) < 60
    before = (
        counter(served.decode, "kv_transfer_bootstrap_ms_count"),
        counter(served.prefill, "kv_transfer_latency_ms_count"),
    )
    assert ask(served.router, "/v1/chat/completions", hello())[0] == 200
    # The router's health checks count on the decode, too, as on the real engine.
    assert counter(served.decode, "kv_transfer_bootstrap_ms_count") >= before[0] + 1
    assert counter(served.prefill, "kv_transfer_latency_ms_count") == before[1] + 1
    assert "num_transfer_failed_reqs_total" not in ask(served.decode, "/metrics")[1]


def test_all_that_the_recorded_one_shows(served: Pair) -> None:
    info = json.loads(ask(served.decode, "/server_info")[1])
    inner = info["internal_states"][0]
    assert set(info) == {*shape("arguments"), *shape("top"), "internal_states"}
    assert set(inner) == {*shape("arguments"), *shape("internal")}
    assert set(json.loads(ask(served.prefill, "/server_info")[1])["internal_states"][0]) == set(inner) - {"env_vars"}
    assert ask(served.router, "/v1/chat/completions", hello())[0] == 200
    for port, role in ((served.prefill, "prefill"), (served.decode, "decode")):
        told = dict(line.split()[2:] for line in ask(port, "/metrics")[1].splitlines() if line.startswith("# TYPE"))
        wanted = {f"sglang:{name}": one["type"] for name, one in SHAPES.items() if role in one}
        assert wanted.items() <= told.items()
        assert told["sglang:http_requests_total"] == "counter"
    assert counter(served.decode, "generation_tokens_histogram_sum") >= 8


# --- faults


def test_wedge(served: Pair) -> None:
    served.faults(decode={"wedge": True})
    until(lambda: ask(served.decode, "/server_info", timeout_s=0.5)[0] == 0)
    assert served.direct(hello(), 1.5)["decode"][0] == 0
    assert ask(served.decode, "/health")[0] == 503
    first, second = (json.loads(ask(served.decode, "/v1/loads")[1])["loads"][0]["timestamp"] for _ in range(2))
    assert first == second and time.time() - first > 2
    served.faults()
    until(lambda: ask(served.decode, "/health")[0] == 200)
    until(lambda: ask(served.router, "/v1/chat/completions", hello())[0] == 200)


def test_faults_of_answers(served: Pair) -> None:
    served.faults(decode={"finish_reason_error": True})
    choice = json.loads(ask(served.router, "/v1/chat/completions", hello())[1])["choices"][0]
    assert choice["finish_reason"] == "error" and choice["message"]["content"] == ""
    served.faults(decode={"empty_content": True}, prefill={"metrics_off": True, "never_register": True})
    choice = json.loads(ask(served.router, "/v1/chat/completions", hello())[1])["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["content"] == ""
    assert ask(served.prefill, "/metrics")[0] == 404
    assert ask(served.bootstrap, "/health") == (200, "OK") and ask(served.bootstrap, "/route")[0] == 503
    served.faults(decode={"lie_on_health": True})
    assert served.direct(hello(), 0.5)["decode"][0] == 0 and ask(served.decode, "/health")[0] == 200


def test_failing_transfer(served: Pair) -> None:
    for role in ("prefill", "decode"):
        served.faults(**{role: {"transfer_fail": True}})
        before = (
            counter(served.prefill, "num_transfer_failed_reqs_total"),
            counter(served.decode, "num_transfer_failed_reqs_total"),
        )
        assert {one[0] for one in served.direct(hello()).values()} == {500}
        after = (
            counter(served.prefill, "num_transfer_failed_reqs_total"),
            counter(served.decode, "num_transfer_failed_reqs_total"),
        )
        assert after == (before[0] + 1, before[1] + 1)


def test_decode_that_never_comes(pair: Pair) -> None:
    pair.engine("prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1")
    body = hello(bootstrap_host="127.0.0.1", bootstrap_port=pair.bootstrap, bootstrap_room=7)
    begin = time.monotonic()
    status, text = ask(pair.prefill, "/v1/chat/completions", body)
    assert status == 500 and "KVPoll.Bootstrapping" in text and time.monotonic() - begin > 0.9
    assert counter(pair.prefill, "num_bootstrap_failed_reqs_total") >= 1


def test_proxy_wedges(served: Pair) -> None:
    rounds = json.loads(ask(served.proxy, "/_proxy/status")[1])["rounds"]
    served.faults(proxy={"wedge_after": 1})  # counted from when the fault is switched on
    assert ask(served.proxy, "/v1/models")[0] == 200
    assert ask(served.proxy, "/v1/models", timeout_s=0.5) == (0, "TimeoutError")
    assert json.loads(ask(served.proxy, "/_proxy/status")[1]) == {"rounds": rounds + 1, "wedged": True}


def test_logs_have_no_tracebacks(served: Pair) -> None:
    """The real router asks in HTTP/2 too, and clients leave: neither is an error."""
    for name in ("prefill", "decode", "proxy"):
        assert "Traceback" not in served.log(name)

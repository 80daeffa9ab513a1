# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The probe as a whole against servers that serve, and against such that do not: which hop is ill, and what is left."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.probe import queues
from ansible_collections.pdops.sglang.plugins.module_utils.probe.conversation import Talk
from ansible_collections.pdops.sglang.plugins.module_utils.probe.plan import plan_from
from ansible_collections.pdops.sglang.plugins.module_utils.probe.probing import run

from .conftest import OPTIONS, Call, Scripted, loads, well

ASKS = ("/v1/chat/completions", "/v1/completions", "/generate")


def quiet(_line: str, _good: bool) -> None:
    pass


def asked(server: Scripted) -> list[Call]:
    return [call for call in server.calls if call.path in ASKS]


@pytest.fixture
def places(serve):
    """Proxy, router, prefill and decode that serve, and the options to reach them."""

    def make(**plays: Any) -> dict[str, Any]:
        servers = {name: serve(plays.get(name, well)) for name in ("proxy", "router", "prefill", "decode")}
        urls = {f"{name}_url": one.url for name, one in servers.items()}
        return {"servers": servers, "options": {**urls, "bootstrap_port": 8998}}

    return make


def test_everything_is_asked_by_every_hop_and_the_proxy_nothing_before_the_conversation(places, plan):
    made = places()
    lines: list[str] = []
    found = run(plan(**made["options"]), lambda line, _good: lines.append(line))
    assert found["verdict"] == "passed" and found["hop"] is None, found["said"]
    assert found["hops"].keys() == {"proxy", "router", "pair"}
    each = [("chat", False), ("chat", True), ("completions", False), ("completions", True), ("generate", False), ("generate", True)]  # fmt: skip
    for hop in ("proxy", "router", "pair"):
        mine = [one for one in found["answers"] if one["hop"] == hop]
        assert [(one["kind"], one["streamed"]) for one in mine] == [*each, ("chat", True), ("chat", True)]
        assert [one["size"] for one in mine[-2:]] == ["page", "chunk"] and mine[-1]["prompt_tokens"] > 64
        assert all(one["echoed"] and one["verdict"] == "passed" for one in mine)
    talk = found["conversation"]
    assert [(one["series"], one["round"]) for one in talk["rounds"]] == [
        (s, n) for s in ("kept", "fresh") for n in range(1, 7)
    ]
    assert [one["connection"] for one in talk["rounds"]] == ["fresh"] + ["kept"] * 5 + ["fresh"] * 6
    grown = [one["prompt_tokens"] for one in talk["rounds"][:6]]
    assert grown == sorted(set(grown))
    through = asked(made["servers"]["proxy"])
    assert len(through) == 12 + 8 and all("messages" in call.data for call in through[:12])
    assert {call.path for call in made["servers"]["proxy"].calls} <= set(ASKS)
    assert found["left_in_queues"] == 0 and len(lines) == 24 + 12
    assert len(found["table"]) == 1 + 24 + 2


def test_the_pair_is_asked_as_the_router_asks_it(places, plan):
    made = places()
    run(plan(**made["options"], hops=["pair"], rounds=0), quiet)
    prefill, decode = (asked(made["servers"][name]) for name in ("prefill", "decode"))
    assert len(prefill) == len(decode) == 8
    rooms = [call.data["bootstrap_room"] for call in decode]
    assert rooms == [call.data["bootstrap_room"] for call in prefill] and len(set(rooms)) == 8
    assert all(0 <= room < 2**63 for room in rooms) and max(rooms) > 2**55
    assert {(call.data["bootstrap_host"], call.data["bootstrap_port"]) for call in decode} == {("127.0.0.1", 8998)}
    assert [call.body for call in decode] == [call.body for call in prefill]


def wedging(after: int):
    """A proxy that answers so many requests in its life."""

    def play(call: Call) -> bool:
        return well(call) if call.number <= after else call.hang()

    return play


def test_a_proxy_that_wedges_at_round_5_is_named_with_the_round_while_the_router_is_fine(places, plan):
    made = places(proxy=wedging(4))
    found = run(plan(**made["options"], requests=False), quiet)
    talk = found["conversation"]
    assert (talk["failed_round"], talk["series"], talk["hop"]) == (5, "kept", "proxy") and found["hop"] == "proxy"
    assert talk["said"].startswith(
        f"round 5 of 6, on the kept connection: the proxy {made['servers']['proxy'].url} gave no first byte in 0.4 s; "
        "router hop fine (0."
    )
    assert talk["said"].endswith("a fresh connection hangs too")
    assert [(one["hop"], one["verdict"]) for one in talk["tried"]] == [("router", "passed"), ("proxy", "failed")]
    assert len(talk["rounds"]) == 5 and found["verdict"] == "failed" and found["left_in_queues"] == 0


def test_a_kept_connection_that_goes_bad_is_told_from_a_bad_hop(places, plan):
    counts: dict[int, int] = {}

    def play(call: Call) -> bool:
        thread = threading.get_ident()  # one per connection
        counts[thread] = counts.get(thread, 0) + 1
        return well(call) if counts[thread] <= 2 else call.hang()

    made = places(proxy=play)
    found = run(plan(**made["options"], requests=False), quiet)
    assert found["conversation"]["failed_round"] == 3
    assert found["said"].endswith("a fresh connection to it works, so that the kept one is ill")


def test_the_hop_is_named_that_fails_while_those_further_in_work(places, plan):
    made = places(router=wedging(0), proxy=wedging(0))
    found = run(plan(**made["options"], requests=False, series=["fresh"], model="m"), quiet)
    assert found["hop"] == "router" and "pair hop fine" in found["said"]
    made = places(router=wedging(0), decode=lambda call: well(call) if call.path not in ASKS else call.hang())
    found = run(plan(**{**made["options"], "proxy_url": None}, requests=False, series=["fresh"]), quiet)
    assert found["hop"] == "pair" and "pair hop fails too: the decode" in found["said"]


def test_a_hop_that_answers_5xx_or_hangs_is_asked_no_more_and_no_conversation_is_held(places, plan):
    """Ten failed attempts open the breakers of a real router, for everybody."""
    made = places(router=lambda call: call.reply({"error": {"message": "worker gone"}}, 502))
    found = run(plan(**made["options"]), quiet)
    assert len(asked(made["servers"]["router"])) == 1 and not made["servers"]["proxy"].calls
    assert found["hop"] == "router" and found["conversation"]["verdict"] == "not-observable"
    assert found["said"].startswith(
        f"router hop: chat, whole: the router {made['servers']['router'].url} answered 502: worker gone"
    )
    assert "pair hop fine" in found["said"]
    made = places(decode=lambda call: well(call) if call.path not in ASKS else call.reply({"choices": []}))
    found = run(plan(**made["options"], hops=["pair"]), quiet)
    assert len(asked(made["servers"]["decode"])) == 2 and found["hop"] == "pair"


def test_a_prefill_that_refuses_ends_the_wait_for_decode(places, plan):
    made = places(
        prefill=lambda call: (
            call.reply({"object": "error", "message": "no such rank"}, 400) if call.path in ASKS else well(call)
        ),
        decode=lambda call: call.hang() if call.path in ASKS else well(call),
    )
    found = run(plan(**made["options"], hops=["pair"], rounds=0, request_s=20), quiet)
    assert found["seconds"] < 5
    first = found["answers"][0]
    assert first["said"] == f"the prefill {made['servers']['prefill'].url} answered 400: no such rank"


def test_a_failed_request_is_aborted_by_its_id_and_what_is_left_is_told(places, plan, monkeypatch):
    monkeypatch.setattr("ansible_collections.pdops.sglang.plugins.module_utils.probe.probing._SETTLE_S", 0.2)
    stuck: list[int] = []

    def decode(call: Call) -> bool:
        if call.path.startswith("/v1/loads"):
            return call.reply(loads(decode_transfer=3 + len(stuck)))
        if call.path not in ASKS:
            return well(call)
        stuck.append(1)
        call.begin()
        call.event({"id": "the-rid", "choices": [{"delta": {"content": "a"}}]})
        return call.hang()

    made = places(decode=decode)
    found = run(plan(**made["options"], hops=["pair"], requests=False), quiet)
    told = [call.data["rid"] for name in ("prefill", "decode") for call in made["servers"][name].calls if call.path == "/abort_request"]  # fmt: skip
    (last,) = found["conversation"]["rounds"]
    assert told == [last["request_id"]] * 2 and last["aborted"]["told"] == ["prefill", "decode"]
    assert last["said"].endswith("went silent for 0.4 s after 1 event")
    assert found["left_in_queues"] == 1 and "1 in decode's decode_transfer" in found["said"]


def test_the_budget_ends_the_probe(places, plan):
    def slow(call: Call) -> bool:
        time.sleep(0.25)
        return well(call)

    made = places(router=slow)
    options = {"router_url": made["servers"]["router"].url, "timeout_s": 1}
    found = run(plan(**options, rounds=0), quiet)
    assert found["verdict"] == "failed" and found["hop"] is None
    assert "not all was asked: what is left of the probe's 1 s (timeout_s) is too short" in found["said"]
    found = run(plan(**options, requests=False), quiet)
    assert found["verdict"] == "failed" and found["hop"] is None and found["conversation"]["failed_round"] is None
    assert "(kept) was not sent: what is left" in found["said"]


def test_the_proxy_has_a_key_of_its_own_where_one_is_given(places, plan, tmp_path):
    made = places()
    files = {}
    for name in ("proxy_api_key", "api_key", "engine_api_key"):
        files[f"{name}_file"] = str(tmp_path / name)
        (tmp_path / name).write_text(f"the-{name}\n")
        (tmp_path / name).chmod(0o600)
    found = run(plan(**made["options"], **files, rounds=1, series=["kept"]), quiet)
    sent = {name: {call.headers["authorization"] for call in one.calls} for name, one in made["servers"].items()}
    engines = {"Bearer the-engine_api_key"}
    assert found["verdict"] == "passed"
    assert sent == {
        "proxy": {"Bearer the-proxy_api_key"},
        "router": {"Bearer the-api_key"},
        "prefill": engines,
        "decode": engines,
    }


def test_a_proxy_that_passes_only_chat_on_is_not_ill(places, plan):
    made = places(proxy=lambda call: well(call) if "chat" in call.path else call.reply({"detail": "Not Found"}, 404))
    found = run(plan(**made["options"], hops=["proxy"], rounds=1), quiet)
    assert found["verdict"] == "passed", found["said"]
    unseen = [one for one in found["answers"] if one["verdict"] == "not-observable"]
    assert [one["kind"] for one in unseen] == ["completions", "completions", "generate", "generate"]
    assert unseen[-1]["said"] == f"the proxy {made['servers']['proxy'].url} does not pass /generate on (404)"


def test_nobody_names_a_model(places, plan):
    made = places(router=lambda call: call.reply("", 401, text=True))
    with pytest.raises(PdopsError, match=r"/v1/models answered 401: an API key is missing or wrong \(api_key_file\)"):
        run(plan(router_url=made["servers"]["router"].url), quiet)


def test_a_chunk_longer_than_the_context_is_not_asked_for(places, plan):
    made = places()
    options = {**made["options"], "hops": ["router"], "rounds": 0, "chunk_tokens": 200_000}
    found = run(plan(**options), quiet)
    last = found["answers"][-1]
    assert found["verdict"] == "passed" and last["verdict"] == "not-observable"
    assert "a prefill chunk has 200000 tokens, and the model's context of 100000 holds no longer prompt" in last["said"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "there is nobody to ask"),
        ({"prefill_url": "http://a:1"}, "give decode_url too"),
        ({"router_url": "a:1"}, "is not a URL of a service"),
        ({"router_url": "http://a:1", "hops": ["proxy"]}, "the hop proxy needs proxy_url"),
        ({"router_url": "http://a:1", "hops": ["pair"]}, "the hop pair needs prefill_url and decode_url"),
        ({"router_url": "http://a:1", "rounds": 0, "requests": False}, "there is nothing to send"),
        ({"router_url": "http://a:1", "rounds": -1}, "rounds is -1"),
        ({"router_url": "http://a:1", "first_byte_s": 0}, "first_byte_s is 0"),
        ({"router_url": "http://a:1", "first_byte_s": 30}, "timeout_s is 30; it must be longer than first_byte_s"),
        ({"router_url": "http://a:1", "page_tokens": 0}, "page_tokens is 0"),
        ({"router_url": "http://a:1", "api_key_file": "/nonexistent/key"}, "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(PdopsError, match=said):
        plan_from({**OPTIONS, **options})


def test_a_plan_shows_no_key(tmp_path):
    key = tmp_path / "key"
    key.write_text("the-key\n")
    key.chmod(0o600)
    made = plan_from({**OPTIONS, "router_url": "http://a:1", "prefill_url": "http://a:2", "decode_url": "http://a:3", "api_key_file": str(key)})  # fmt: skip
    assert made.api_key == "the-key" and made.engines is not None and made.engines.api_key == "the-key"
    assert "the-key" not in repr(made) + made.would()


def test_a_conversation_forgets_its_oldest_rounds_where_the_context_ends():
    talk = Talk("m", max_tokens=8, words=10, context=200)
    sizes = []
    for number in range(1, 13):
        asked = talk.next(number, 12)
        tokens = sum(len(one["content"].split()) for one in asked.body["messages"])
        sizes.append(tokens)
        talk._last_tokens, talk._tokens_per_word = tokens, 1.0
        talk.messages.append({"role": "assistant", "content": "a b c"})
    assert talk.forgotten > 0 and max(sizes) + 8 <= 200
    assert asked.body["messages"][0]["role"] == "user" and asked.body["messages"][-1]["role"] == "user"


def test_queues_are_summed_over_ranks_and_a_dead_scheduler_is_not_believed():
    two = {"loads": [*loads(decode_prealloc=2)["loads"], {**loads(decode_prealloc=3)["loads"][0], "dp_rank": 1}]}
    found = queues.parse(two)
    assert found.counts == {"running": 0, "waiting": 0, "decode_prealloc": 5}
    assert found.heartbeats == {"0": 1.0, "1": 1.0}
    later = queues.Queues(found.counts, found.heartbeats, None, found.at + 6)
    assert queues._stale(found, later)
    assert not queues._stale(found, queues.Queues(found.counts, {"0": 2.0, "1": 2.0}, None, found.at + 6))
    with pytest.raises(ValueError):
        queues.parse({"loads": []})

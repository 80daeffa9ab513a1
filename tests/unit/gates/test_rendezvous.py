# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What prefill and decode must share, by the real ones' answers."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates import rendezvous
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Peer
from ansible_collections.pdops.sglang.plugins.module_utils.gates.ladder import check_gates, default_required
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


@pytest.fixture
def route(recorded):
    # The recording has the status behind the body.
    return json.JSONDecoder().raw_decode(recorded("route.json"))[0]


@pytest.fixture
def info(recorded):
    return json.loads(recorded("server_info_decode.json"))


def told(route, theirs, own, **more):
    return {one.name: one for one in rendezvous.compare(route, theirs, own, **more)}


def set_argument(info, name, value):
    info = copy.deepcopy(info)
    info[name] = value
    for state in info["internal_states"]:
        state[name] = value
    return info


def test_a_real_pair_is_equal_and_what_is_auto_is_not_compared(route, info):
    found = told(route, info, info)
    equal = {name for name, one in found.items() if one.result == "equal"}
    assert equal == {
        "page_size",
        "decode_allocation_policy",
        "attn_tp_size",
        "attn_cp_size",
        "dp_size",
        "pp_size",
        "disaggregation_transfer_backend",
    }
    assert (found["kv_cache_dtype"].result, found["kv_cache_dtype"].why) == (
        "not compared",
        "auto on both sides, which each resolves itself",
    )
    # Neither tells these: the model is no DeepSeek-V4.
    assert found["kv_layout"].result == found["speculative_dspark_block_size"].result == "not compared"


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("page_size", "page_size", 64),
        ("kv_cache_dtype", "kv_cache_dtype", "fp8_e4m3"),  # /route says auto: the engine compares the words
        ("decode_allocation_policy", "disaggregation_decode_allocation_policy", "late"),
        ("disaggregation_transfer_backend", "disaggregation_transfer_backend", "nixl"),
        ("pp_size", "pp_size", 2),
        ("attn_tp_size", "tp_size", 4),
        ("attn_cp_size", "attn_cp_size", 2),
        ("dp_size", "dp_size", 2),
    ],
)
def test_each_difference_is_seen(route, info, name, argument, value):
    own = set_argument(set_argument(info, "tp_size", 1), argument, value)
    found = told(route, info, own)
    assert found[name].result == "differs"
    assert found[name].decode == value


def test_a_decode_that_says_auto_may_have_made_the_same_of_it(route, info):
    """/route tells what the prefill resolved, /server_info of decode what was asked for."""
    one = told({**route, "kv_cache_dtype": "fp8_e4m3"}, info, info)["kv_cache_dtype"]
    assert (one.result, one.why) == ("not compared", "decode says auto, which it resolves itself")
    own = set_argument(info, "kv_cache_dtype", "fp8_e5m2")
    assert told({**route, "kv_cache_dtype": "fp8_e4m3"}, info, own)["kv_cache_dtype"].result == "differs"


def test_what_the_scheduler_has_after_its_hooks_counts_and_not_what_was_asked_for(route, info):
    own = copy.deepcopy(info)
    own["page_size"] = 64
    assert told(route, info, own)["page_size"].result == "equal"
    own["internal_states"][0]["page_size"] = 256
    assert told(route, info, own)["page_size"].decode == 256


def test_dp_attention_divides_the_tensor_parallel_ranks(info):
    own = set_argument(set_argument(info, "tp_size", 8), "dp_size", 4)
    assert rendezvous.decode_side(own)["attn_tp_size"] == 8
    own = set_argument(own, "enable_dp_attention", True)
    assert rendezvous.decode_side(own)["attn_tp_size"] == 2


def test_sizes_may_differ_where_that_is_said(route, info):
    own = set_argument(info, "tp_size", 2)
    assert told(route, info, own, may_differ=("attn_tp_size",))["attn_tp_size"].result == "may differ"


def test_the_kv_layout_of_deepseek_v4(route, info):
    theirs, own = set_argument(info, "dsv4_attn_backend", "flashmla"), set_argument(info, "dsv4_attn_backend", "auto")
    one = told(route, theirs, own)["dsv4_attn_backend"]
    assert (one.result, one.why) == ("not compared", "auto on one side, which it resolves itself")
    own = set_argument(info, "dsv4_attn_backend", "triton")
    assert told(route, theirs, own)["dsv4_attn_backend"].result == "differs"
    assert "SGLANG_DSV4_KV_LAYOUT" not in told(route, info, info)
    theirs, own = copy.deepcopy(info), copy.deepcopy(info)
    own["internal_states"][0]["env_vars"]["SGLANG_DSV4_KV_LAYOUT"] = "bf16"
    assert told(route, theirs, own)["SGLANG_DSV4_KV_LAYOUT"].result == "differs"
    theirs["internal_states"][0]["env_vars"]["SGLANG_DSV4_KV_LAYOUT"] = "bf16"
    assert told(route, theirs, own)["SGLANG_DSV4_KV_LAYOUT"].result == "equal"
    del theirs["internal_states"][0]["env_vars"]
    assert "SGLANG_EXPOSE_OWN_ENV_VARS=1" in told(route, theirs, own)["SGLANG_DSV4_KV_LAYOUT"].why
    assert told({**route, "kv_layout": "fp8"}, None, info)["kv_layout"].why == "decode does not tell it"


@pytest.fixture
def pair(answers, target, route, info):
    """A prefill and a decode that answer at one address."""
    answers.paths["/route"] = (200, route)
    answers.paths["/server_info"] = (200, info)
    port = answers.server.server_port
    return {
        "prefill": target("prefill", bootstrap_port=port, peers=(Peer("d", "decode", answers.url),)),
        "decode": target("decode", peers=(Peer("p", "prefill", answers.url, port), Peer("r", "router", answers.url))),
    }


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_gate_of_both_roles(pair, look, role, answers, info):
    verdict = rendezvous.check(pair[role], look)
    assert verdict.result == "passed"
    assert "equal to " in verdict.said
    assert "not compared: kv_cache_dtype and dsv4_attn_backend (auto on both sides" in verdict.said
    assert json.dumps(verdict.evidence)
    answers.paths["/server_info"] = (200, set_argument(info, "page_size", 64))
    verdict = rendezvous.check(pair[role], look)
    assert verdict.result == "failed"
    names = ("prefill", "d") if role == "prefill" else ("p", "decode")
    assert f"page_size is 1 on {names[0]} and 64 on {names[1]}: decode dies at its first request" in verdict.said
    answers.paths["/server_info"] = (200, set_argument(info, "tp_size", 2))
    assert "name attn_tp_size in pd_may_differ" in rendezvous.check(pair[role], look).said


def test_a_decode_that_is_down_is_left_to_its_own_ladder(pair, target, look):
    lonely = target(
        "prefill", bootstrap_port=pair["prefill"].bootstrap_port, peers=(Peer("d", "decode", "http://127.0.0.1:1"),)
    )
    verdict = rendezvous.check(lonely, look)
    assert verdict.result == "passed"
    assert "d is not compared now (/server_info: nothing listens" in verdict.said


def test_a_decode_waits_for_its_prefill_and_says_when_there_is_none(pair, look, answers, target):
    answers.paths["/route"] = (503, "not fully registered (3 workers registered)")
    verdict = rendezvous.check(pair["decode"], look)
    assert (verdict.result, verdict.said.startswith("p: /route 503")) == ("pending", True)
    verdict = rendezvous.check(target("decode"), look)
    assert (verdict.result, "no prefill is known" in verdict.said) == ("not-observable", True)


@pytest.mark.parametrize(
    ("answer", "result", "words"),
    [
        ((401, ""), "failed", "it wants an API key; set pd_api_key_file"),
        ((404, ""), "failed", "answers 404"),
        ((500, ""), "pending", "answers 500"),
        ((200, "x"), "pending", "no JSON"),
    ],
)
def test_a_server_info_that_does_not_help(pair, look, answers, answer, result, words):
    answers.paths["/server_info"] = answer
    verdict = rendezvous.check(pair["decode"], look)
    assert verdict.result == result
    assert words in verdict.said


def test_ladders(target):
    check_gates(target("decode"), ["rendezvous"], ())
    with pytest.raises(PdopsError, match="needs bootstrap_port"):
        check_gates(target("prefill"), ["rendezvous"], ())
    with pytest.raises(PdopsError, match="is for a prefill or a decode"):
        check_gates(target("router"), ["rendezvous"], ())
    with pytest.raises(PdopsError, match="name completion before it"):
        check_gates(target("router"), ["transfer", "completion"], ())
    assert default_required(target("decode"), ["port", "rendezvous", "effective"]) == {"port"}
    assert default_required(target("prefill"), ["port", "rendezvous", "transfer"]) == {"port", "rendezvous"}

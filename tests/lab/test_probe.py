# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The probe on the lab (simulated engines, the real router, a proxy that can wedge): which hop is ill, and at which round."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.probe.plan import plan_from
from ansible_collections.pdops.sglang.plugins.module_utils.probe.probing import run

from .conftest import Lab
from .engines import Pair, ask, counter, pair, served, shared, until  # noqa: F401 (fixtures)

pytestmark = pytest.mark.lab
URL = "http://127.0.0.1:{}".format


def probe(at: Pair, *hops: str, **more: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "prefill_url": URL(at.prefill),
        "decode_url": URL(at.decode),
        "bootstrap_port": at.bootstrap,
        "hops": list(hops),
        "rounds": 0,
        "series": ["kept", "fresh"],
        "requests": True,
        "max_tokens": 8,
        "round_words": 40,
        "require_echo": True,  # the simulation repeats a nonce
        "first_byte_s": 30,
        "gap_s": 30,
        "request_s": 60,
        "timeout_s": 600,
        **more,
    }
    if hops != ("pair",):
        options.update(router_url=URL(at.router), proxy_url=URL(at.proxy))
    return run(plan_from(options), lambda line, good: print(f"  {'' if good else '! '}{line}"))


def test_every_kind_passes_by_every_hop_and_24_rounds_over_kept_and_fresh_connections(served: Pair) -> None:  # noqa: F811
    found = probe(served, "proxy", "router", "pair", rounds=24)
    assert found["verdict"] == "passed", found["said"]
    assert len(found["answers"]) == 24 and all(one["verdict"] == "passed" for one in found["answers"])
    chunk = [one for one in found["answers"] if one["size"] == "chunk"]
    assert [one["hop"] for one in chunk] == ["pair", "router", "proxy"] and all(
        one["prompt_tokens"] > 8192 for one in chunk
    )
    assert len(found["conversation"]["rounds"]) == 48 and found["left_in_queues"] == 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("finish_reason_error", "answered 200, but finish_reason is 'error'"),
        ("empty_content", "answered 200, but the content is empty (finish_reason 'length')"),
    ],
)
def test_a_200_that_is_none_is_the_pairs_own(served: Pair, fault: str, said: str) -> None:  # noqa: F811
    served.faults(decode={fault: True})
    found = probe(served, "router", "pair", rounds=3)
    assert found["hop"] == "pair" and said in found["said"], found["said"]
    bad = [one for one in found["answers"] if one["verdict"] == "failed"]
    assert {(one["hop"], one["streamed"], one["status"]) for one in bad} == {
        (hop, streamed, 200) for hop in ("pair", "router") for streamed in (False, True)
    }
    assert found["conversation"]["verdict"] == "not-observable"


def test_a_transfer_that_fails_costs_one_request_per_hop(served: Pair) -> None:  # noqa: F811
    served.faults(decode={"transfer_fail": True})
    found = probe(served, "router", "pair")
    bad = [one for one in found["answers"] if one["verdict"] == "failed"]
    assert [one["hop"] for one in bad] == ["pair", "router"] and found["hop"] == "pair"
    assert all("KVTransferError" in one["said"] for one in bad) and found["left_in_queues"] == 0


def test_a_wrong_key_and_a_decode_that_dies_in_the_middle_of_a_stream(pair: Pair, tmp_path: Path) -> None:  # noqa: F811
    key = tmp_path / "key"
    key.write_text("the-right-one\n")
    key.chmod(0o600)
    wrong = tmp_path / "wrong"
    wrong.write_text("another\n")
    wrong.chmod(0o600)
    pair.engine("prefill", "--api-key", "the-right-one")
    decode = pair.engine("decode", "--api-key", "the-right-one", PDOPS_LAB_TOKEN_S="0.1")
    assert probe(pair, "pair", api_key_file=str(key))["verdict"] == "passed"

    with pytest.raises(PdopsError, match=r"/v1/models answered 401: an API key is missing or wrong \(api_key_file\)"):
        probe(pair, "pair", api_key_file=str(wrong))
    found = probe(pair, "pair", api_key_file=str(wrong), model="tiny")
    assert "answered 401: an API key is missing or wrong" in found["said"] and "another" not in str(found)
    assert found["queues"]["not_observable"].keys() == {"prefill", "decode"} and found["left_in_queues"] is None

    made = counter(pair.decode, "realtime_tokens_total")

    def kill_in_the_middle() -> None:
        until(lambda: counter(pair.decode, "realtime_tokens_total") > made + 10)
        decode.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    found = probe(pair, "pair", api_key_file=str(key), requests=False, rounds=1, max_tokens=100)
    killer.join()
    (only,) = found["conversation"]["rounds"]
    assert only["status"] == 200 and only["events"] > 2 and only["characters"] > 0
    assert f"the decode {URL(pair.decode)} broke the stream off after {only['events']} events" in found["said"]
    assert found["left_in_queues"] is None and not any(found["queues"]["after"]["prefill"].values())


def test_a_wedged_scheduler_is_not_believed_about_its_queues(pair: Pair) -> None:  # noqa: F811
    pair.engine("prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="3")
    pair.engine("decode")
    pair.faults(decode={"wedge": True})
    found = probe(pair, "pair", requests=False, rounds=2, series=["kept"], first_byte_s=1.5)
    assert found["conversation"]["failed_round"] == 1
    assert f"the decode {URL(pair.decode)} gave no first byte in 1.5 s" in found["said"]
    only = found["conversation"]["rounds"][-1]
    assert "prefill" in only["aborted"]["told"]


def test_24_rounds_through_the_storys_proxy_name_round_5_and_the_proxy(module_lab: Lab) -> None:
    module_lab.story()
    quick = ("-e", "max_tokens=4", "-e", "requests=false")
    whole = module_lab.play("probe.yml", "-e", "hop=router", "-e", "series=kept", *quick)
    assert whole.rc == 0 and whole.recap["changed"] == 0
    assert "lab: all 24 rounds by the router, on the kept connection, were answered" in whole.words
    assert "round 24 of 24 (kept): gave 4 tokens" in whole.words

    module_lab.lab("fault", "wedge_after=4")
    ran = module_lab.play("probe.yml", "-e", "first_byte_s=5", *quick)
    proxy = module_lab.told["proxy"]["url"]
    assert ran.rc == 2 and ran.recap["failed"] == 1 and ran.recap["changed"] == 0
    said = f"lab: round 5 of 24, on the kept connection: the proxy {proxy} gave no first byte in 5 s; router hop fine ("
    assert said in ran.words and "a fresh connection hangs too" in ran.words
    # What was found is kept, on the machine and in the record.
    (entry,), (line,) = module_lab.entries(), module_lab.journal("found")
    assert (entry["kind"], entry["verb"], entry["found"]) == ("observe", "probe", "hop proxy") and said in entry["said"]
    assert (line["by"], line["found"], line["entry"]) == ("probe", "hop proxy", entry["id"])

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""Each gate against the lab: what is broken is caught by the gate that is there for it, with evidence.

The gates run in this process, as the module runs them on a machine.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.endpoint import Answer, post_json, request
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Look, Target, Watched
from ansible_collections.pdops.sglang.plugins.module_utils.gates.ladder import LadderState, run_ladder
from ansible_collections.pdops.sglang.plugins.module_utils.gates.router import breakers
from ansible_collections.pdops.sglang.plugins.module_utils.gates.router import check as check_router
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

from .conftest import KNOB
from .gated import Gated, breakers_open_for, faults, gated  # noqa: F401 (fixtures)

pytestmark = pytest.mark.lab
ENGINE = ["unit", "port", "health", "rendezvous", "effective"]
ROUTER = ["unit", "port", "health", "router", "completion", "transfer"]


def found(state: LadderState) -> list[tuple[str, str]]:
    return [(result.gate, result.result) for result in state.results]


def test_a_lab_in_order_passes_everything(gated: Gated) -> None:
    for name, gates in (("lab-prefill", ENGINE), ("lab-decode", ENGINE), ("lab-router", ROUTER)):
        state = gated.climb(name, gates)
        assert found(state) == [(gate, "passed") for gate in gates], state.results
    by_name = {result.gate: result for result in state.results}
    assert by_name["router"].said == "ready with 2 workers, breakers closed"
    short, long = by_name["completion"].evidence["requests"]
    assert short["completion_tokens"] >= 1
    assert long["prompt_tokens"] > by_name["completion"].evidence["chunked_prefill_size"] == 8192
    assert by_name["transfer"].evidence["moved"]["prefill"]["kv_transfer_total_mb_count"] == 2
    assert json.dumps([result.as_dict() for result in state.results])


def test_the_knob_of_the_story_is_not_in_effect_and_by_what_that_is_known(gated: Gated) -> None:
    state = gated.climb("lab-decode", ["effective"], expect={KNOB: "512"})
    assert found(state) == [("effective", "failed")]
    seen = state.results[0].evidence["knobs"][KNOB]
    assert (seen["state"], seen["value"]) == ("absent", None)
    assert "scheduler" not in seen["evidence"]  # its environ is overwritten by setproctitle
    assert len(state.results[0].evidence["processes"]["scheduler_pids"]) >= 1
    assert gated.climb("lab-decode", ["effective"], expect={KNOB: None}).outcome == "passed"


def test_the_routers_knobs_cannot_be_seen(gated: Gated) -> None:
    """The real router calls setproctitle as well, and it is one process."""
    state = gated.climb("lab-router", ["effective"], expect={"RUST_LOG": "info"})
    assert found(state) == [("effective", "not-observable")]
    assert "overwritten" in state.results[0].said
    assert state.outcome == "passed"


def test_an_orphan_on_the_port(faults: Gated) -> None:
    faults.bring("lab-decode", "stopped")
    told = faults.lab.lab("orphan", "decode")
    with pytest.raises(
        PdopsError, match=r"sglang-dsv4-decode was not touched: port \d+ is held by process \d+"
    ) as caught:
        faults.bring("lab-decode", "started")
    (orphan,) = caught.value.details["holder_pids"]
    assert str(orphan) in told
    assert faults.manager.status("sglang-dsv4-decode").pid is None
    # Started by somebody without looking: the orphan answers /health, and gate unit names it at once.
    faults.manager.start("sglang-dsv4-decode", settle_s=0.0)
    state = faults.climb("lab-decode", ENGINE)
    assert state.outcome == "failed"
    assert f"process {orphan}" in state.results[-1].said or "died" in state.results[-1].said
    faults.bring("lab-decode", "stopped")
    os.kill(orphan, signal.SIGKILL)


def test_ranks_that_never_register(faults: Gated) -> None:
    faults.fault("never_register", role="prefill")
    state = faults.stays("lab-prefill", ["unit", "port", "health", "rendezvous"])
    assert found(state) == [("rendezvous", "pending")]
    assert "/route 503" in state.results[-1].said


def test_a_knob_value_that_the_engine_refuses(faults: Gated) -> None:
    faults.fault("refuse_start_with", "SGLANG_LOG_MS=1")
    faults.fault("slow_load", "1.5")
    script = faults.lab.script
    before = script.read_text()
    script.write_text(before.replace("\nexec ", "\nexport SGLANG_LOG_MS=1\nexec ", 1))
    try:
        try:
            faults.bring("lab-decode", "restarted")
        except PdopsError as error:
            assert "died at once" in str(error)
            assert error.details["log_tail"]
        else:
            state = faults.climb("lab-decode", ENGINE)
            assert state.outcome == "failed"
            # Seen while it loads, between two tries of supervisord, or after the last one.
            said = state.results[-1].said
            assert "died with exit code" in said or "does not run: " in said, said
            assert state.log_tail
    finally:
        script.write_text(before)


def test_a_slow_load_is_waited_for(faults: Gated) -> None:
    for load_s in ("2", "6", "18", "54"):  # a busy machine may have loaded it before this test comes to look
        faults.fault("slow_load", load_s)
        faults.bring("lab-decode", "restarted")
        decode = faults.targets["lab-decode"]
        runs = faults.climb("lab-decode", ["unit"])
        seen = run_ladder(decode, ENGINE, None, 0.0, runs, remaining_s=90.0, manager=faults.manager)
        if found(seen)[-1] == ("port", "pending"):
            break
    assert found(seen)[-1] == ("port", "pending"), seen.results
    state = run_ladder(decode, ENGINE, None, 90.0, seen, remaining_s=90.0, manager=faults.manager)
    assert state.outcome == "passed", state.results


def test_bad_completions_are_caught_by_their_bodies(faults: Gated) -> None:
    for fault, words in (("finish_reason_error", "finish_reason is 'error'"), ("empty_content", "content is empty")):
        faults.lab.fault(clear=True)
        faults.fault(fault)
        state = faults.climb("lab-router", ROUTER)
        assert found(state)[-1] == ("completion", "failed"), state.results
        assert words in state.results[-1].said
        assert state.results[-1].evidence["status"] == 200


def test_an_engine_that_lies_on_health(faults: Gated) -> None:
    faults.fault("lie_on_health")
    assert faults.climb("lab-decode", ENGINE[:3]).outcome == "passed"
    state = faults.stays("lab-router", ROUTER[: ROUTER.index("completion") + 1])
    assert found(state) == [("completion", "pending")]
    assert "no whole answer" in state.results[-1].said


def test_a_decode_that_dies_at_the_first_request_is_named_by_the_routers_gate(faults: Gated) -> None:
    """supervisord starts it again: without watching, the second request would be answered as if nothing had been."""
    decode = faults.targets["lab-decode"]
    faults.fault("die_at_first_request")
    watched = Watched("lab-decode", decode.unit, None, "supervisor", decode.supervisor_config)
    state = faults.climb("lab-router", ROUTER, watched=(watched,), request_timeout_s=20.0)
    assert found(state)[-1] == ("completion", "failed")
    assert "lab-decode died with" in state.results[-1].said
    assert state.log_tail


def both_healthy(router_url: str) -> bool:
    reply = request(f"{router_url}/workers", timeout_s=2.0)
    return isinstance(reply, Answer) and all(worker["is_healthy"] for worker in reply.data()["workers"])


def all_breakers(router: Target, state: str) -> bool:
    return set((breakers(str(router.metrics_url), 2.0)[0] or {}).values()) == {state}


def waited_out(faults: Gated) -> bool:
    """Both workers go while clients ask, and come back: whether the gate found the breakers still open, and waited for them.

    A loaded machine may need longer than they stay so to load two engines, or to come to the gate.
    """
    router = faults.targets["lab-router"]
    for name in ("lab-decode", "lab-prefill"):
        faults.bring(name, "stopped")
    question = {"model": "x", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
    ask = [
        threading.Thread(target=post_json, args=(f"{router.url}/v1/chat/completions", question, 3.0))
        for _one in range(8)
    ]
    for thread in ask:
        thread.start()
    for thread in ask:
        thread.join()
    opened = all_breakers(router, "open")
    for name in ("lab-prefill", "lab-decode"):
        faults.bring(name, "started")
    faults.lab.wait("that the router finds its workers healthy again", lambda: both_healthy(router.url))
    state = faults.climb("lab-router", ["unit", "router", "completion"])
    assert state.outcome == "passed", state.results
    assert all_breakers(router, "closed")
    return opened and "waited_for_breaker_s" in state.results[1].evidence


def test_open_breakers_are_waited_out_and_closed(faults: Gated) -> None:
    """Both workers gone, and clients that do not stop: the breakers open, and outlive the workers' return."""
    with breakers_open_for(faults, 15):
        assert any(waited_out(faults) for _try in range(4)), "never were both engines loaded while breakers were open"


def test_a_worker_that_the_router_does_not_know(gated: Gated) -> None:
    look = Look(gated.manager, {}, time.monotonic() + 5)
    target = replace(gated.targets["lab-router"], workers=("http://127.0.0.1:1",))
    verdict = check_router(target, look)
    assert verdict.result == "pending"
    assert "http://127.0.0.1:1 is not registered" in verdict.said
    assert json.dumps(verdict.evidence)


def test_page_sizes_that_differ_are_named_before_a_request_kills_decode(faults: Gated) -> None:
    faults.fault("page_size", "64")
    decode = faults.lab.pid("lab-decode")
    for name in ("lab-prefill", "lab-decode"):
        state = faults.climb(name, ENGINE)
        assert found(state)[-1] == ("rendezvous", "failed")
        assert "page_size is 1 on lab-prefill and 64 on lab-decode" in state.results[-1].said
    assert state.results[-1].evidence["compared"]["lab-prefill"]["page_size"] == {
        "prefill": 1,
        "decode": 64,
        "result": "differs",
    }
    assert faults.lab.pid("lab-decode") == decode


def test_transfers_that_fail_and_metrics_that_are_off(faults: Gated) -> None:
    """The router asks again, so that the client sees nothing of a transfer that failed once."""
    faults.fault("transfer_fail_times=1", role="prefill")
    state = faults.climb("lab-router", ROUTER)
    assert found(state)[-2:] == [("completion", "passed"), ("transfer", "failed")], state.results
    assert "num_transfer_failed_reqs_total of lab-prefill stepped by 1" in state.results[-1].said
    assert "num_transfer_failed_reqs_total of lab-decode stepped by 1" in state.results[-1].said

    faults.lab.fault(clear=True)
    faults.fault("metrics_off", role="prefill")
    state = faults.climb("lab-router", ROUTER)
    assert (state.outcome, found(state)[-1]) == ("passed", ("transfer", "not-observable"))
    ran = faults.lab.play("verify.yml", "-e", "pd_require_gates=transfer")
    assert ran.rc == 2
    assert "lab-router: gate transfer is not observable, and is required" in ran.words
    assert "lab-prefill has no /metrics: put --enable-metrics into its serve script" in ran.words

    # So often that the router gives up once: the gate waits and tells what it saw; what failed before an answer came counts.
    faults.lab.fault(clear=True)
    faults.fault("transfer_fail_times=5")
    gates, target = ["completion", "transfer"], replace(faults.targets["lab-router"], request_timeout_s=30.0)
    state = run_ladder(target, gates, None, 0.0, remaining_s=60.0, manager=faults.manager)
    assert found(state) == [("completion", "pending")], state.results
    assert "num_transfer_failed_reqs_total of lab-decode stepped by 5" in state.results[-1].said
    state = run_ladder(target, gates, None, 60.0, state, remaining_s=60.0, manager=faults.manager)
    assert found(state) == [("completion", "passed"), ("transfer", "failed")], state.results
    assert (
        "num_transfer_failed_reqs_total of lab-decode stepped by 5 over 2 completions and 1 before" in state.last.said
    )


def test_api_keys_that_are_missing_or_wrong_and_a_worker_that_the_router_has_given_up(gated: Gated) -> None:
    """One test, since both need other scripts and a restart of everything; the last one, since it leaves them like that."""
    key, router, decode = "the-right-one", gated.targets["lab-router"], gated.targets["lab-decode"]
    scripts = [Path(target.serve_script or "") for target in gated.targets.values()]
    for script in scripts:
        text = script.read_text().replace("--host 127.0.0.1", f"--api-key {key} --host 127.0.0.1")
        script.write_text(text)
    right = {
        name: {"api_key": key, "peers": tuple(replace(peer, api_key=key) for peer in target.peers)}
        for name, target in gated.targets.items()
    }
    for name in ("lab-router", "lab-decode", "lab-prefill"):
        gated.bring(name, "stopped")
    gated.bring("lab-prefill", "started")
    script, pending = Path(router.serve_script or ""), False
    keyed = script.read_text()
    # A busy machine may look when the router has given up already, or ask it when it still waits: it counts from when it is ready itself.
    for patience_s, then_s in ((8, 8), (24, 40), (60, 100)):
        script.write_text(keyed.replace("--policy", f"--worker-startup-timeout-secs {patience_s} --policy"))
        gated.bring("lab-router", "started")
        state = gated.stays("lab-router", ROUTER[: ROUTER.index("router") + 1], **right["lab-router"])
        if found(state) == [("router", "pending")]:
            assert f"decode lab-decode ({decode.url}) is not registered (nothing listens" in state.results[-1].said
            pending = True
            time.sleep(then_s)
            gated.bring("lab-decode", "started")
            state = gated.climb("lab-router", ROUTER, **right["lab-router"])
            if state.outcome == "failed":
                break
        for name in ("lab-router", "lab-decode"):
            gated.bring(name, "stopped")
    assert pending and found(state)[-1] == ("router", "failed")
    said = state.results[-1].said
    assert (
        f"forgets a worker that is not up within --worker-startup-timeout-secs ({patience_s} s, serve script)" in said
    )
    assert "register it with ansible-playbook register_worker.yml -l lab-decode" in said
    assert state.results[-1].evidence["missing"] == [decode.url]

    for wrong, words in ((None, "it wants an API key; set pd_api_key_file"), ("x", "is not the one that it wants")):
        for name, gates in (
            ("lab-prefill", ["health", "rendezvous"]),
            ("lab-decode", ["health", "rendezvous"]),
            ("lab-decode", ["effective"]),
            ("lab-router", ["router"]),
        ):
            state = gated.climb(name, gates, api_key=wrong)
            assert found(state)[-1] == (gates[-1], "failed"), state.results
            assert "401: " in state.results[-1].said
            assert words in state.results[-1].said

    worker = {"url": decode.url, "worker_type": "decode", "api_key": key}
    assert getattr(post_json(f"{router.url}/workers", worker, 5.0, key), "status", None) == 202
    for name, gates in (("lab-prefill", ENGINE), ("lab-decode", ENGINE), ("lab-router", ROUTER)):
        state = gated.climb(name, gates, **right[name])
        assert state.outcome == "passed", (state.results, state.log_tail)
        assert key not in json.dumps([state.as_dict(), state.log_tail])

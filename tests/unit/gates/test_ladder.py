# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The whole ladder on a real supervisord with small engines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates import ladder
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Target, Watched
from ansible_collections.pdops.sglang.plugins.module_utils.gates.ladder import LadderState, run_ladder, state_from_dict
from ansible_collections.pdops.sglang.plugins.module_utils.listeners import listeners
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.processes import ProcessId, read_process
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for
from supervised import engine, free_port

HEALTHY = {"/health": [200, ""], "/server_info": [200, {"internal_states": [{"env_vars": {}}]}]}
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class One:
    """A supervisord with one engine, and its target."""

    def __init__(self, supervisord, answers=HEALTHY, more="", **options):
        self.port = free_port()
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        command = engine("--port", self.port, "--answers", json.dumps(answers), *words)
        self.daemon = supervisord({"decode": (command, more), "other": engine("--say", "here is the other")})
        self.manager = manager_for("supervisor", str(self.daemon.config))

    def target(self, **more):
        return Target(
            **{
                "name": "lab-decode",
                "role": "decode",
                "unit": "decode",
                "url": f"http://127.0.0.1:{self.port}",
                "manager": "supervisor",
                "supervisor_config": str(self.daemon.config),
                **more,
            }
        )

    def climb(self, gates, timeout_s=60.0, expectations=None, slice_s=0.4, **more):
        """As the action plugin does: slice after slice, the state as JSON in between."""
        required = more.pop("required", None)
        deadline = time.monotonic() + timeout_s
        state = LadderState()
        self.slices = 0
        while True:
            left_s = deadline - time.monotonic()
            state = run_ladder(self.target(**more), gates, expectations, slice_s, state, left_s, required)
            self.slices += 1
            if state.outcome != "pending" or left_s <= slice_s:
                return state
            state = state_from_dict(json.loads(json.dumps(state.as_dict())))


def results(state):
    return [(result.gate, result.result) for result in state.results]


def test_a_ladder_over_several_slices(supervisord):
    one = One(supervisord, load=2.0, children=2, title="sglang::scheduler", more=f"environment={KNOB}=512")
    old = one.manager.start("other", settle_s=0.1).main
    one.manager.stop("other", 5)
    begin = time.time()
    one.manager.start("decode", settle_s=0.1)
    gates = ["unit", "port", "health", "effective"]
    state = one.climb(gates, expectations={KNOB: "512"}, not_process=old, started_after=begin, required=gates)
    assert results(state) == [(gate, "passed") for gate in gates]
    assert state.outcome == "passed"
    assert one.slices > 1
    _unit, port, _health, _effective = state.results
    summary = state.summary()
    assert summary["main"] == {
        "pid": one.manager.status("decode").pid,
        "started_ticks": one.manager.status("decode").started_ticks,
    }
    # Each gate's own time is in the whole.
    assert summary["seconds"] >= sum(result.seconds for result in state.results) - 0.1
    assert port.evidence["holder_pids"] == [summary["main"]["pid"]]


def test_the_old_process_is_not_good_enough(supervisord):
    one = One(supervisord)
    status = one.manager.start("decode", settle_s=0.1)
    state = one.climb(["unit"], not_process=status.main)
    assert results(state) == [("unit", "failed")]
    assert "still runs in the old process" in state.last.said
    state = one.climb(["unit"], started_after=time.time() + 5)
    assert "started" in state.last.said
    assert "too early" in state.last.said
    with subprocess.Popen(["sleep", "60"]) as lingering:
        state = one.climb(["unit"], timeout_s=0.6, not_process=read_process(lingering.pid).id)
        assert results(state) == [("unit", "pending")]
        assert f"the old process {lingering.pid} is still there" in state.last.said
        lingering.kill()


def test_a_stranger_on_the_port_fails_at_once(supervisord):
    one = One(supervisord, load=30)
    text = f"import socket, time; s = socket.create_server(('127.0.0.1', {one.port})); time.sleep(60)"
    stranger = subprocess.Popen([sys.executable, "-c", text, "--api-key", "hunter2"])
    try:
        wait_for(lambda: listeners(one.port))
        one.manager.start("decode", settle_s=0.1)
        state = one.climb(["unit", "port", "health"])
        assert results(state) == [("unit", "failed")]
        assert f"port {one.port} is held by process {stranger.pid}" in state.last.said
        assert "hunter2" not in json.dumps(state.as_dict())
        alone = one.climb(["port"])
        assert results(alone) == [("port", "failed")]
        assert f"process {stranger.pid}" in alone.last.said
    finally:
        stranger.kill()
        stranger.wait()


def test_a_death_while_loading_fails_at_once_with_code_and_log(supervisord):
    one = One(supervisord, more="autorestart=false", load=0.5, die_after=3, exit_code=4, answers={"/health": [503, ""]})
    one.manager.start("decode", settle_s=0.1)
    state = one.climb(["unit", "port", "health"])
    assert state.outcome == "failed"
    assert state.last.gate == "health"
    assert "lab-decode died with exit code 4" in state.last.said
    assert state.last.evidence["exit_code"] == 4
    assert state.log_tail[-1] == "fatal: fell over"


def test_a_death_followed_by_an_automatic_restart_is_still_a_death(supervisord):
    one = One(supervisord, answers={"/health": [503, ""]})
    first = one.manager.start("decode", settle_s=1.2)
    state = run_ladder(one.target(), ["unit", "port", "health"], None, 1.5)
    assert (state.outcome, state.last.gate) == ("pending", "health")
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: one.manager.status("decode").pid not in (None, first.pid))
    state = run_ladder(one.target(), ["unit", "port", "health"], None, 1.0, state)
    assert state.outcome == "failed"
    assert "died with signal SIGKILL" in state.last.said
    assert "its service manager starts it again" in state.last.said


def test_a_change_of_the_main_process_within_gate_unit(supervisord):
    one = One(supervisord)
    one.manager.start("decode", settle_s=0.1)
    state = LadderState(memory={"began": 0.0, "gate_since": 0.0, "main": [1, 2]})
    state = run_ladder(one.target(), ["unit"], None, 0.5, state)
    assert state.outcome == "failed"
    assert "lab-decode died with " in state.last.said
    assert "its service manager starts it again" in state.last.said
    assert state.last.evidence["died_pid"] == 1


def test_an_instance_that_does_not_run(supervisord):
    one = One(supervisord)
    for gates in (["unit", "health"], ["health"]):
        state = one.climb(gates)
        assert state.outcome == "failed"
        assert "does not run: STOPPED" in state.last.said


def test_a_program_in_backoff_is_a_death(supervisord, patient):
    one = One(supervisord, die_after=0.0, more="startretries=3")
    with pytest.raises(PdopsError):
        one.manager.start("decode")
    state = one.climb(["unit"])
    while state.outcome == "passed":  # seen in the short life of one of its tries
        state = one.climb(["unit"])
    assert state.outcome == "failed"
    # The look may fall into the moment in which supervisord tries it again.
    assert re.search("BACKOFF|FATAL|died with exit code 3", state.last.said), state.last.said
    assert state.log_tail[-1] == "fatal: no such knob"


def test_a_watched_peer_that_dies_fails_the_ladder(supervisord):
    one = One(supervisord, answers={"/health": [503, ""]})
    one.manager.start("decode", settle_s=0.1)
    peer = one.manager.start("other", settle_s=1.1)
    watched = Watched("lab-prefill", "other", peer.main, "supervisor", str(one.daemon.config))
    state = run_ladder(one.target(watched=(watched,)), ["unit", "port", "health"], None, 1.0)
    assert (state.outcome, state.last.gate) == ("pending", "health")
    os.kill(peer.pid, signal.SIGKILL)
    state = one.climb(["unit", "health"], watched=(watched,))
    assert state.outcome == "failed"
    assert "lab-prefill died with signal SIGKILL" in state.last.said
    assert "here is the other" in state.log_tail


def test_a_watched_peer_without_a_pid_is_the_one_of_the_first_look(supervisord):
    one = One(supervisord, answers={"/health": [503, ""]})
    one.manager.start("decode", settle_s=0.1)
    watched = Watched("lab-prefill", "other", None, "supervisor", str(one.daemon.config))
    state = one.climb(["unit", "health"], watched=(watched,))
    assert "lab-prefill does not run" in state.last.said
    peer = one.manager.start("other", settle_s=1.1)
    state = run_ladder(one.target(watched=(watched,)), ["unit", "health"], None, 1.0)
    assert state.outcome == "pending"
    os.kill(peer.pid, signal.SIGKILL)
    wait_for(lambda: one.manager.status("other").pid not in (None, peer.pid))  # started again by supervisord
    state = run_ladder(one.target(watched=(watched,)), ["unit", "health"], None, 1.0, state)
    assert "lab-prefill died with signal SIGKILL" in state.last.said


def test_a_death_is_noticed_while_a_request_hangs(supervisord):
    one = One(supervisord, answers={"/health": ["hang", 120]})
    one.manager.start("decode", settle_s=1.1)
    peer = one.manager.start("other", settle_s=0.1)
    watched = Watched("lab-prefill", "other", None, "supervisor", str(one.daemon.config))
    timer = threading.Timer(1.0, os.kill, (peer.pid, signal.SIGKILL))
    timer.start()
    state = run_ladder(one.target(watched=(watched,)), ["unit", "health"], None, 100.0)
    assert "lab-prefill died with signal SIGKILL" in state.last.said


def test_the_deadline_brings_the_log_and_leaves_it_pending(supervisord):
    one = One(supervisord, answers={"/health": [503, {"status": "Starting"}]}, say="loading weights")
    one.manager.start("decode", settle_s=0.1)
    assert one.climb(["unit", "port"]).outcome == "passed"
    begin = time.monotonic()
    state = one.climb(["unit", "port", "health"], timeout_s=2.5)
    assert time.monotonic() - begin > 2.0
    assert results(state) == [("unit", "passed"), ("port", "passed"), ("health", "pending")]
    assert "Starting" in state.last.said
    assert "loading weights" in state.log_tail


def test_not_observable_is_enough_unless_it_is_required(supervisord):
    one = One(supervisord, children=0)
    one.manager.start("decode", settle_s=0.1)
    gates = ["unit", "port", "health", "effective"]
    state = one.climb(gates, expectations={KNOB: "512"})
    assert results(state)[-1] == ("effective", "not-observable")
    assert state.outcome == "passed"
    state = one.climb(gates, expectations={KNOB: "512"}, required=["effective"])
    assert results(state)[-1] == ("effective", "not-observable")
    assert state.outcome == "failed"


def test_a_wrong_knob_is_final(supervisord):
    one = One(supervisord, children=1, title="sglang::scheduler", more=f"environment={KNOB}=256")
    one.manager.start("decode", settle_s=0.1)
    state = one.climb(["unit", "port", "health", "effective"], expectations={KNOB: "512"})
    assert state.outcome == "failed"
    assert f"{KNOB}=256" in state.last.said


def test_a_gate_that_was_passed_is_not_asked_again(supervisord, monkeypatch, tmp_path):
    one = One(supervisord, load_until=tmp_path / "go")
    one.manager.start("decode", settle_s=0.1)
    asked = {"unit": 0, "port": 0}
    unit, port = ladder.unit.check, ladder.unit.check_port

    def count_unit(target, look):
        asked["unit"] += 1
        return unit(target, look)

    def count_port(target, look):
        asked["port"] += 1
        if one.slices == 3:
            (tmp_path / "go").touch()
        return port(target, look)

    monkeypatch.setattr(ladder.unit, "check", count_unit)
    monkeypatch.setattr(ladder.unit, "check_port", count_port)
    assert one.climb(["unit", "port", "health"], slice_s=0.3).outcome == "passed"
    # Once to begin with, and once in each slice, where its process may be another one.
    assert asked["unit"] <= one.slices + 1 and one.slices > 3, (asked, one.slices)


@pytest.mark.parametrize(
    ("role", "gates", "required", "words"),
    [
        ("decode", [], [], "gates is empty"),
        ("decode", ["unit", "transfers"], [], "no gate 'transfers'"),
        ("decode", ["unit"], ["all"], "no gate 'all'"),
        ("decode", ["unit", "unit"], [], "named twice"),
        ("prefill", ["rendezvous"], [], "needs bootstrap_port"),
        ("decode", ["router"], [], "gate router is for a router"),
    ],
)
def test_ladders_that_make_no_sense(role, gates, required, words):
    with pytest.raises(PdopsError, match=words):
        ladder.check_gates(Target("x", role, "u", "http://h"), gates, required)


@pytest.mark.parametrize("data", [{"results": 1}, {"results": [{}], "outcome": "x", "memory": {}}, {"a": 1}])
def test_states_that_are_none(data):
    with pytest.raises(PdopsError, match="resume is not a state"):
        state_from_dict(data)


def test_process_ids_survive_json():
    state = LadderState(memory={"began": 1.0, "gate_since": 1.0, "main": list(ProcessId(5, 6))})
    again = state_from_dict(json.loads(json.dumps(state.as_dict())))
    assert again.summary()["main"] == {"pid": 5, "started_ticks": 6}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The action plugin: slices, live lines, deadline, lost connections. The machine's answers are given by the tests."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.pdops.sglang.plugins.action import pd_gate


def gate(name, result="passed", said="fine", seconds=0.1):
    return {"gate": name, "result": result, "said": said, "evidence": {"a": 1}, "seconds": seconds}


def answer(*gates, outcome="pending", **more):
    return {
        "changed": False,
        "outcome": outcome,
        "gates": list(gates),
        "gate": gates[-1]["gate"],
        "evidence": gates[-1]["evidence"],
        "main": {"pid": 1, "started_ticks": 2},
        "resume": {"n": len(gates)},
        "log_tail": [],
        **more,
    }


class Machine:
    """Gives one answer after the other; an exception is raised, a function is called."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.resets = 0

    def __call__(self, module_args=None, task_vars=None, **_more):
        self.asked.append(module_args)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        found = found() if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return dict(found)

    def reset(self):
        self.resets += 1


@pytest.fixture
def run(monkeypatch):
    printed = []
    monkeypatch.setattr(pd_gate.display, "display", lambda text, color=None, **_more: printed.append((text, color)))
    monkeypatch.setattr(pd_gate, "RECONNECT_S", 0.05)
    monkeypatch.setattr(pd_gate.OneModule, "run", lambda *_a, **_k: {})

    def go(machine, check=False, **arguments):
        task = SimpleNamespace(args={"name": "lab-decode", "timeout_s": 5, **arguments}, check_mode=check, async_val=0)
        connection = SimpleNamespace(reset=machine.reset, _shell=SimpleNamespace(tmpdir="/tmp/gone"))
        action = pd_gate.ActionModule(task, connection, None, None, None, None)
        action._execute_module = machine
        begin = time.monotonic()
        result = action.run(task_vars={"inventory_hostname": "h"})
        return SimpleNamespace(
            result=result, lines=[text for text, _color in printed], colors=printed, s=time.monotonic() - begin
        )

    return go


def test_slices_go_on_from_where_the_last_one_ended_and_each_gate_is_printed_once(run):
    machine = Machine(
        answer(gate("unit"), gate("health", "pending")),
        answer(gate("unit"), gate("health", "pending")),
        answer(gate("unit"), gate("health"), outcome="passed"),
    )
    ran = run(machine)
    assert not ran.result.get("failed")
    assert ran.result["msg"].startswith("lab-decode: unit, health decided in ")
    assert "resume" not in ran.result
    assert [asked["resume"] for asked in machine.asked] == [None, {"n": 2}, {"n": 2}]
    left = [asked["timeout_s"] for asked in machine.asked]
    assert left == sorted(left, reverse=True)
    assert left[0] <= 5
    assert ran.lines == [
        "  lab-decode  unit        passed in 0.1 s: fine",
        "  lab-decode  health      passed in 0.1 s: fine",
    ]


def test_a_failure_carries_gate_evidence_and_log(run):
    lines = ["one", "two", "three", "four"]
    last = gate("effective", "failed", "SGLANG_X=256, expected 512")
    ran = run(Machine(answer(gate("unit"), last, outcome="failed", log_tail=lines)))
    result = ran.result
    assert result["failed"] is True
    assert result["gate"] == "effective"
    assert result["evidence"] == {"a": 1}
    assert result["log_tail"] == lines
    assert re.match(r"lab-decode: gate effective failed after \d+\.\d s", result["msg"])
    assert result["msg"].endswith(": SGLANG_X=256, expected 512")
    assert ran.colors[-1][1] == "red"


def test_a_required_gate_that_cannot_be_observed(run):
    last = gate("effective", "not-observable", "X cannot be seen")
    result = run(Machine(answer(last, outcome="failed"))).result
    assert re.search(
        r"gate effective is not observable, and is required, after \d+\.\d s: X cannot be seen", result["msg"]
    )


def test_the_deadline_is_ours(run):
    waiting = answer(gate("unit"), gate("health", "pending", "port open, /health 503 (Starting)"), log_tail=["loading"])
    machine = Machine(lambda: time.sleep(0.2) or waiting)
    ran = run(machine, timeout_s=0.7)
    assert ran.s > 0.6
    assert ran.result["failed"] is True
    assert ran.result["outcome"] == "failed"
    assert re.search(r"gate health not passed after \d+\.\d s", ran.result["msg"])
    assert "of at most 0.7 s: last seen: port open, /health 503 (Starting)" in ran.result["msg"]
    assert "resume" not in ran.result


def test_progress_is_told_at_growing_intervals(run, monkeypatch):
    now = 1000.0
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time, sleep=time.sleep)
    monkeypatch.setattr(pd_gate, "time", clock)
    waiting = answer(gate("health", "pending", "/health 503"))

    def ask():
        nonlocal now
        now += 0.5
        return waiting

    ran = run(Machine(ask), timeout_s=50)
    lines = [line for line in ran.lines if "of at most 50 s: /health 503" in line]
    assert [line.split()[2] for line in lines] == ["3.0", "9.0", "21.0", "45.0"]


def test_lines_go_on_while_one_call_takes_long(run, monkeypatch):
    monkeypatch.setattr(pd_gate, "FIRST_LINE_S", 0.1)
    monkeypatch.setattr(pd_gate, "TICK_S", 0.05)
    done = answer(gate("completion"), outcome="passed")
    told = []
    monkeypatch.setattr(pd_gate.display, "display", lambda text, **_more: told.append(text))

    def until_two_lines_are_told():
        while len([line for line in told if "the machine is being asked" in line]) < 2:
            time.sleep(0.01)
        return done

    run(Machine(until_two_lines_are_told), timeout_s=600)
    assert told[-1].endswith("passed in 0.1 s: fine")


def test_a_lost_connection_is_outlived(run):
    done = answer(gate("unit"), gate("health"), outcome="passed")
    machine = Machine(
        answer(gate("unit"), gate("health", "pending")),
        AnsibleConnectionFailure("Connection refused by\nhost"),
        AnsibleConnectionFailure("Connection refused"),
        {"unreachable": True, "msg": "still down"},
        done,
    )
    ran = run(machine)
    assert not ran.result.get("failed")
    assert machine.resets == 3
    assert machine.asked[-1]["resume"] == {"n": 2}
    lost = [line for line in ran.lines if "connection lost" in line]
    assert len(lost) == 1
    assert "Connection refused by host" in lost[0]
    assert len([line for line in ran.lines if "connected again" in line]) == 1


def test_a_machine_that_stays_away_is_failed_and_not_unreachable(run):
    machine = Machine(answer(gate("health", "pending", "/health 503")), AnsibleConnectionFailure("no route to host"))
    ran = run(machine, timeout_s=0.5)
    assert ran.result["failed"] is True
    assert not ran.result.get("unreachable")
    assert "the machine is not reachable (no route to host); last seen: /health 503" in ran.result["msg"]
    never = run(Machine(AnsibleConnectionFailure("no route to host")), timeout_s=0.3).result
    assert never["failed"] is True
    assert never["gates"] == []
    assert "the gates not passed" in never["msg"]
    assert "nothing was seen" in never["msg"]


def test_a_reset_that_fails_is_no_reason_to_end(run):
    machine = Machine(AnsibleConnectionFailure("x"), answer(gate("unit"), outcome="passed"))
    machine.reset = lambda: (_ for _ in ()).throw(RuntimeError("no reset"))
    assert not run(machine).result.get("failed")


def test_what_the_module_refuses_fails_at_once(run):
    machine = Machine({"failed": True, "msg": "url is no URL", "log_tail": []})
    ran = run(machine)
    assert ran.result["failed"] is True
    assert ran.result["msg"] == "url is no URL"
    assert len(machine.asked) == 1


def test_a_module_without_an_answer_is_tried_again_a_few_times(run):
    killed = {"failed": True, "module_stdout": "", "module_stderr": "Killed", "msg": "MODULE FAILURE"}
    machine = Machine(killed, answer(gate("unit"), outcome="passed"))
    assert not run(machine).result.get("failed")
    broken = Machine(killed)
    ran = run(broken)
    assert ran.result["failed"] is True
    assert ran.result["msg"] == "MODULE FAILURE"
    assert len(broken.asked) == 3


def test_check_mode_asks_once(run):
    machine = Machine({"skipped": True, "changed": False, "msg": "would wait"})
    ran = run(machine, check=True)
    assert ran.result == {"skipped": True, "changed": False, "msg": "would wait"}
    assert ran.lines == []


def test_a_timeout_that_is_no_number_is_left_to_the_module(run):
    machine = Machine({"failed": True, "msg": "argument 'timeout_s' is of type str"})
    assert run(machine, timeout_s="soon").result["failed"] is True


def test_a_timeout_of_zero_is_a_failure_and_not_an_error(run):
    ran = run(Machine(answer(gate("unit"), outcome="passed")), timeout_s=0)
    assert ran.result["failed"] is True

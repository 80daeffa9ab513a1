# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two prefills and two decodes under streams: one at a time is restarted and no request fails. The router is the real one."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from .conftest import KNOB, QUICK, Lab
from .streams import Streams

pytestmark = [pytest.mark.lab, pytest.mark.long]
CLIENTS = 16


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.lab("up", "--prefills", "2", "--decodes", "2", "--load-time-s", "0.4", "--health-time-s", "0.2")
    module_lab.inventory = module_lab.told["inventory"]
    return module_lab


def router(lab: Lab) -> str:
    return str(lab.told["instances"]["lab-router"]["url"])


def workers(lab: Lab) -> dict[str, Any]:
    with urllib.request.urlopen(router(lab) + "/workers", timeout=10) as answer:
        return {worker["url"]: worker["is_healthy"] for worker in json.load(answer)["workers"]}


def test_decodes_restart_one_by_one_under_streams_and_no_request_fails(lab: Lab) -> None:
    before = lab.pids()
    with Streams(router(lab), CLIENTS) as streams:
        ran = lab.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode")
    assert ran.rc == 0, ran.text
    assert not streams.lost and streams.whole > 2 * CLIENTS, (streams.whole, streams.lost)
    assert "restart one by one: lab-decode-1 -> lab-decode-2" in ran.words
    assert "scope=rolling: only scripts of decodes change, and there are several" in ran.words
    assert "expected outage: none" in ran.words and "requests lost 0" in ran.words
    after = lab.pids()
    assert {name for name in before if before[name] != after[name]} == {"lab-decode-1", "lab-decode-2"}
    assert [lab.running_knob(f"lab-decode-{number}") for number in (1, 2)] == ["384", "384"]
    assert len(workers(lab)) == 4 and all(workers(lab).values())
    steps = [(step["step"], step["instance"]) for step in lab.changes()[-1]["steps"]]
    one = ["take out", "stop", "start", "register"]
    assert steps == [("apply", "")] + [(step, f"lab-decode-{number}") for number in (1, 2) for step in one]
    assert ran.text.count("ready with 3 workers") == 2, "gate router expects the registered without the drained one"


def test_the_second_fails_and_the_first_goes_back_too_under_streams(lab: Lab) -> None:
    lab.lab("fault", "--role", "decode-2", "refuse_start_with", f"{KNOB}=512")
    before = lab.pids()
    with Streams(router(lab), CLIENTS) as streams:
        ran = lab.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=512", "-e", "role=decode")
    lab.lab("fault", "--clear")
    assert ran.rc == 2
    assert not streams.lost and streams.whole > 2 * CLIENTS, (streams.whole, streams.lost)
    assert [lab.running_knob(f"lab-decode-{number}") for number in (1, 2)] == ["384", "384"]
    assert len(workers(lab)) == 4 and all(workers(lab).values()), "the guard put both back into the router"
    after = lab.pids()
    assert all(before[name] == after[name] for name in ("lab-prefill-1", "lab-prefill-2", "lab-router"))
    assert "simulated: the engine does not start with" in ran.words
    assert "lab-decode-2, lab-decode-1 serve again" in ran.words


def test_a_knob_of_the_pair_restarts_both_roles_and_is_refused_on_one_side(lab: Lab) -> None:
    arguments = ("-e", "knob=SGLANG_DSV4_KV_LAYOUT", "-e", "value=paged", "--check")
    refused = lab.play("set_knob.yml", *arguments, "-e", "role=decode")
    assert refused.rc == 2
    assert "must be equal on prefill and decode, and would be unset on lab-prefill-1, lab-prefill-2" in refused.words
    assert "-e one_sided=yes" in refused.words
    both = lab.play("set_knob.yml", *arguments)
    assert both.rc == 0, both.text
    assert "scope=co: SGLANG_DSV4_KV_LAYOUT is a knob of the pair" in both.words
    assert both.text.count("edit lab-") == 4


def test_prefills_one_by_one_under_streams(lab: Lab) -> None:
    before = lab.pids()
    with Streams(router(lab), CLIENTS) as streams:
        ran = lab.play("restart.yml", "-e", "scope=rolling", "-e", "role=prefill")
    assert ran.rc == 0, ran.text
    assert not streams.lost and streams.whole > 2 * CLIENTS, (streams.whole, streams.lost)
    after = lab.pids()
    assert {name for name in before if before[name] != after[name]} == {"lab-prefill-1", "lab-prefill-2"}


@pytest.mark.long
@pytest.mark.parametrize("fault", ["finish_reason_error", "transfer_fail"])
def test_one_of_two_decodes_that_fails_requests_is_found_though_the_other_answers(lab: Lab, fault: str) -> None:
    """The router asks only some of the pairs."""
    knobs = [lab.running_knob(f"lab-decode-{number}") for number in (1, 2)]
    new = "512" if knobs[0] != "512" else "384"
    lab.lab("fault", "--role", "decode-2", fault)
    known = len(lab.changes())
    more = ("-e", "scope=co", "-e", "pd_load_timeout_s=30", *QUICK)
    process = lab.start("set_knob.yml", "-e", f"knob={KNOB}", "-e", f"value={new}", "-e", "role=decode", *more)
    lab.wait("the way back", lambda: len(lab.changes()) > known and lab.changes()[-1]["state"] != "open")
    lab.fault(clear=True)
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 2, text
    steps = [(step["step"], step["instance"]) for step in lab.changes()[-1]["steps"]]
    assert ("start", "lab-router") not in steps[: steps.index(("files", ""))], "it was found before traffic"
    assert "lab-decode-2" in text
    assert [lab.running_knob(f"lab-decode-{number}") for number in (1, 2)] == knobs and lab.serves()


def step(lab: Lab) -> tuple[str, str]:
    for note in lab.changes()[-1]["steps"][-1:]:
        return note["step"], note["instance"]
    return "", ""


def kill_with_the_second_out(lab: Lab, value: str) -> str:
    """The controller dies when the first decode has the new value and serves, and the second is out of the router and still runs."""
    known = len(lab.changes())
    process = lab.start("set_knob.yml", "-e", f"knob={KNOB}", "-e", f"value={value}", "-e", "role=decode", *QUICK)
    second = lab.told["instances"]["lab-decode-2"]["url"]

    def out() -> bool:
        return len(lab.changes()) > known and step(lab) == ("take out", "lab-decode-2") and second not in workers(lab)

    reached, text = lab.kill_at(process, "that the second is out", out)
    assert reached, text
    assert step(lab) == ("take out", "lab-decode-2") and lab.changes()[-1]["state"] == "open"
    return str(lab.changes()[-1]["id"])


@pytest.mark.long
@pytest.mark.parametrize("way", ["its guard alone", "finish=back", "finish=forward", "the next run"])
def test_a_controller_that_dies_between_two_decodes_loses_no_request(lab: Lab, way: str) -> None:
    old, before = lab.running_knob("lab-decode-1"), lab.pids()
    new = "512" if old != "512" else "384"
    with Streams(router(lab), CLIENTS) as streams:
        change_id = kill_with_the_second_out(lab, new)
        if way == "its guard alone":
            lab.expire()
            lab.wait("the guard", lambda: lab.changes()[-1]["state"] == "rolled-back")
            text = lab.changes()[-1]["reason"]
        else:
            arguments = ("recover.yml", "-e", way, "-e", f"take_over={change_id}")
            if way == "the next run":
                arguments = ("set_knob.yml", "-e", f"knob={KNOB}", "-e", f"value={new}", "-e", "role=decode")
            ran = lab.play(*arguments)
            text = ran.text
            assert ran.rc == 0, text
    assert not streams.lost and streams.whole > 2 * CLIENTS, (streams.whole, streams.lost, text)
    forward = way in ("finish=forward", "the next run")
    assert [lab.running_knob(f"lab-decode-{number}") for number in (1, 2)] == [new if forward else old] * 2
    assert len(workers(lab)) == 4 and all(workers(lab).values())
    after = lab.pids()
    assert all(before[name] == after[name] for name in ("lab-prefill-1", "lab-prefill-2", "lab-router"))
    states = {change["id"]: change["state"] for change in lab.changes()}
    assert states[change_id] == ("superseded" if forward else "rolled-back")
    assert lab.changes()[-1]["state"] == ("confirmed" if forward else "rolled-back")
    if forward:
        assert "restart one by one: lab-decode-2" in " ".join(text.split())

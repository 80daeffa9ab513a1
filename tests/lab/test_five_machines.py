# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two prefills, two decodes and a router, each on a machine of its own: one is cut off, one comes back unequal."""

from __future__ import annotations

import pytest

from ..process_tree import kill_tree
from .conftest import KNOB, Lab
from .test_machines import QUICK, UP, newest, scripts, start_and, steps
from .test_rolling import workers

pytestmark = [pytest.mark.lab, pytest.mark.long]
MACHINES = tuple(f"lab-m{number}" for number in range(1, 6))


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.lab("up", "--prefills", "2", "--decodes", "2", "--machines", "5", *UP)
    module_lab.inventory = module_lab.told["inventory"]
    return module_lab


def test_a_machine_that_is_cut_off_in_the_middle_is_named_and_all_of_them_go_back(lab: Lab) -> None:
    old, pids = scripts(lab), lab.pids()
    process = start_and(
        lab,
        ("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode", "-e", "scope=co", *QUICK),
        lambda: steps(lab, "lab-m1")[-1:] == [("start", "lab-prefill-1")],
        lambda _process: lab.lab("cut", "lab-m4"),
    )
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2, text
    assert "lab-m4 became unreachable" in words or "machine lab-m4 is cut off" in words
    assert "the state of lab-decode-2 is not known from here; its guard puts the old state back by itself" in words
    told = [
        words.index(f"{machine} ({name}): ")
        for machine, name in zip(MACHINES, lab.told["instances"])
        if machine != "lab-m4"
    ]
    assert told == sorted(told), "they went back in order: prefill, decode, router"
    lab.expire("lab-m4")
    lab.wait("the guards", lambda: all(newest(lab, one)["state"] == "rolled-back" for one in MACHINES))
    lab.lab("cut", "--mend")
    assert scripts(lab) == old and lab.serves()
    first = {entry["instance"]: entry for entry in lab.entries()}
    assert {name: entry["outcome"] for name, entry in first.items()} == {
        "lab-decode-1": "rolled-back",
        "lab-decode-2": "not-known",
    }
    assert "lab-decode-2 did not answer" in first["lab-decode-2"]["reason"]
    assert lab.play("verify.yml").rc == 0
    told = [entry for entry in lab.entries() if first["lab-decode-2"]["id"] in entry.get("refs", ())]
    assert [(entry["instance"], entry["outcome"]) for entry in told] == [("lab-decode-2", "rolled-back")]
    checked = lab.play("record.yml", "-e", "show=check")
    assert checked.rc == 0, checked.text
    assert all(pids[name] != pid for name, pid in lab.pids().items()), "the pairs met afresh"


def test_a_prefill_that_comes_back_unequal_is_refused_before_traffic(lab: Lab) -> None:
    lab.fault("page_size=64", role="prefill-2")
    process = start_and(
        lab,
        ("restart.yml", *QUICK),
        lambda: newest(lab, "lab-m1")["state"] != "open",
        lambda _process: lab.fault(clear=True),
    )
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2, text
    assert "page_size is 64 on lab-prefill-2 and 1 on lab-decode-1" in words
    assert ("start", "lab-router") not in steps(lab, "lab-m5")[: steps(lab, "lab-m5").index(("files", ""))]
    assert all(newest(lab, one)["state"] == "rolled-back" for one in MACHINES) and lab.serves()


@pytest.mark.parametrize("way", ["their guards alone", "finish=back", "finish=forward"])
def test_a_controller_that_dies_with_a_decode_out_of_the_router_leaves_none_out(lab: Lab, way: str) -> None:
    """That step is the router's machine's; the decode's own has none of it yet."""
    old = scripts(lab)
    value = "384" if lab.running_knob("lab-decode-1") != "384" else "512"
    start_and(
        lab,
        ("set_knob.yml", "-e", f"knob={KNOB}", "-e", f"value={value}", "-e", "role=decode", *QUICK),
        lambda: steps(lab, "lab-m5")[-1:] == [("take out", "lab-decode-2")] and len(workers(lab)) == 3,
        kill_tree,
    )
    assert steps(lab, "lab-m4") == [("apply", "")]
    if way == "their guards alone":
        for machine in MACHINES:
            lab.expire(machine)
    else:
        ran = lab.play("recover.yml", "-e", way, *QUICK)
        assert ran.rc == 0, ran.text
    end = "confirmed" if way == "finish=forward" else "rolled-back"
    lab.wait("the end", lambda: all(newest(lab, one)["state"] == end for one in MACHINES))
    assert len(workers(lab)) == 4 and all(workers(lab).values()) and lab.serves()
    assert (scripts(lab) == old) is (end == "rolled-back")
    assert lab.running_knob("lab-decode-1") == lab.running_knob("lab-decode-2")
    if way == "finish=forward":
        assert "restart one by one: lab-decode-2" in ran.words

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The network fails in the middle of a change: around one machine, and between two of them."""

from __future__ import annotations

from .fleet import SOON, Fleet, ended


def test_a_machine_that_is_cut_off_is_named_and_the_others_go_back_and_serve(fleet: Fleet) -> None:
    old, pids, knobs = fleet.scripts(), fleet.pids(), fleet.knobs()
    process = fleet.start("start", "dsv4-prefill-1", "set_knob.yml", *fleet.other_knob(), ANSIBLE_SSH_ARGS=SOON)
    with fleet["dsv4-decode-2"].dropping("INPUT -i eth0", "OUTPUT -o eth0"):
        ran = ended(process)
        assert ran.rc == 2, ran.text
        # Without it the others serve, with the old state.
        fleet.wait("a request", fleet.serves)
        assert all(
            fleet[one].changes()[-1]["state"] == "rolled-back" for one in fleet.machines if one != "dsv4-decode-2"
        )
    assert "gpu4.example.net became unreachable" in ran.words, ran.text
    assert "the state of dsv4-decode-2 is not known from here; its guard puts the old state back by itself" in ran.words
    for instance, machine in fleet.machines.items():
        if instance != "dsv4-decode-2":
            assert f"{machine.name}.example.net ({instance}): the old state is back" in ran.words, ran.text
    fleet.wait("its own guard", lambda: fleet.states() == {"rolled-back"})
    assert fleet.scripts() == old and fleet.knobs() == knobs
    assert fleet.changed(pids) == set(fleet.machines), "the pairs met afresh"
    fleet.wait("four workers", fleet.whole)


def test_a_pair_that_is_parted_is_not_kept(fleet: Fleet) -> None:
    """The controller and the router reach both; a prefill and a decode do not reach each other."""
    old, pids, knobs = fleet.scripts(), fleet.pids(), fleet.knobs()
    process = fleet.start("start", "dsv4-prefill-1", "set_knob.yml", *fleet.other_knob())
    decode, prefill = fleet["dsv4-decode-1"], fleet["dsv4-prefill-1"]
    with decode.dropping(f"INPUT -s {prefill.address}", f"OUTPUT -d {prefill.address}"):
        fleet.wait("the way back", lambda: prefill.changes()[-1]["state"] != "open")
    ran = ended(process)
    assert ran.rc == 2, ran.text
    assert "dsv4-decode-1: gate rendezvous not passed" in ran.words, ran.text
    assert "last seen: dsv4-prefill-1: no connection to gpu1.example.net:8998" in ran.words, ran.text
    assert fleet.states() == {"rolled-back"} and fleet.scripts() == old and fleet.knobs() == knobs
    assert fleet.changed(pids) == set(fleet.machines)
    assert fleet.whole()

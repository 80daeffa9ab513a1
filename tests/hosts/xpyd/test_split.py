# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A controller that dies between its first and its last confirm: the one split that can remain is named and converged."""

from __future__ import annotations

from ...process_tree import kill_tree
from .fleet import QUICK, Fleet

#: Keeps a machine from confirming. A module that waits there is killed with the controller, as its connection would be.
HOLD = "systemd-run --quiet --collect --unit=pdops-hold flock -x /var/lib/pdops/lock sleep 600"
LET_GO = "pkill -KILL -x -f '/usr/bin/python3[.0-9]*'; systemctl stop pdops-hold"


def kill_between_confirms(fleet: Fleet, knob: tuple[str, ...]) -> str:
    """The first decode's machine has confirmed, the second one's has not; the id of the change."""
    last = fleet["dsv4-decode-2"]
    process = fleet.start("start", "dsv4-router", "set_knob.yml", *knob)
    last.sh(HOLD)
    try:
        fleet.wait("its confirm", lambda: fleet["dsv4-decode-1"].changes()[-1]["state"] == "confirmed")
        kill_tree(process)
    finally:
        last.sh(LET_GO, check=False)
    states = {instance: change["state"] for instance, change in fleet.newest().items()}
    assert states == {**dict.fromkeys(fleet.machines, "confirmed"), "dsv4-decode-2": "open"}
    return str(last.changes()[-1]["id"])


def test_a_split_goes_back_by_recover(fleet: Fleet) -> None:
    old, knobs = fleet.scripts(), fleet.knobs()
    change_id = kill_between_confirms(fleet, fleet.other_knob())
    # The machine cannot see whether the controller lives, which the operator knows.
    back = fleet.play("recover.yml", "-e", "finish=back", "-e", f"take_over={change_id}", *QUICK)
    assert back.rc == 0, back.text
    assert "is SPLIT over its machines" in back.words
    assert fleet.scripts() == old and fleet.knobs() == knobs and fleet.whole()


def test_a_split_is_named_by_recover_and_brought_forward_by_the_next_run(fleet: Fleet) -> None:
    old, knobs, knob = fleet.scripts(), fleet.knobs(), fleet.other_knob()
    change_id = kill_between_confirms(fleet, knob)
    last = fleet["dsv4-decode-2"]
    fleet.wait("its guard", lambda: last.changes()[-1]["state"] == "rolled-back")
    assert fleet.scripts()["dsv4-decode-2"] == old["dsv4-decode-2"]
    seen = fleet.play("recover.yml")
    assert seen.rc == 0, seen.text
    assert f"change {change_id} is SPLIT over its machines" in seen.words
    assert "gpu3.example.net: confirmed, its scripts have the new content" in seen.words
    assert "gpu4.example.net: rolled-back, its scripts have the old content" in seen.words
    forward = fleet.play("set_knob.yml", *knob)
    assert forward.rc == 0, forward.text
    assert f"change {change_id} is SPLIT over its machines" in forward.words
    after = fleet.knobs()
    assert after[0] == after[1] != knobs[0] and fleet.whole()
    assert "SPLIT" not in fleet.play("recover.yml").words

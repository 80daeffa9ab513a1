# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One of two decodes, or of two prefills, is not what it seems: everything goes back, on all five machines."""

from __future__ import annotations

from typing import Any

import pytest

from .fleet import QUICK, Fleet, ended

#: By what happens: the fault of the simulated engine, and what the run says of it.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "never healthy": ({"slow_load": 300}, "dsv4-decode-2: gate "),
    "dies at its first request": ({"die_at_first_request": True}, "dsv4-decode-2"),
    "passes all but completion": ({"transfer_fail": True}, "dsv4-decode-2"),
    "answers 200 with an error": ({"finish_reason_error": True}, "finish_reason"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_one_of_two_decodes(fleet: Fleet, what: str) -> None:
    fault, words = FAULTS[what]
    old, pids, knobs = fleet.scripts(), fleet.pids(), fleet.knobs()
    broken = fleet["dsv4-decode-2"]
    with broken.faults(**fault):
        process = fleet.start("start", "dsv4-prefill-1", "set_knob.yml", *fleet.other_knob())
        met = fleet.pids()["dsv4-prefill-1"]
        fleet.wait("the way back", lambda: fleet["dsv4-prefill-1"].changes()[-1]["state"] != "open")
    ran = ended(process)
    assert ran.rc == 2 and words in ran.words, ran.text
    assert fleet.states() == {"rolled-back"} and fleet.scripts() == old and fleet.knobs() == knobs
    assert fleet.changed(pids) == set(fleet.machines)
    assert fleet.pids()["dsv4-prefill-1"] != met, "it was restarted in going back, too"
    assert fleet.whole()


def test_a_prefill_with_another_page_size_is_refused_before_traffic(fleet: Fleet) -> None:
    old = fleet.scripts()
    with fleet["dsv4-prefill-2"].faults("prefill", page_size=64):
        process = fleet.start("start", "dsv4-prefill-1", "restart.yml", *QUICK)
        fleet.wait("the way back", lambda: fleet["dsv4-prefill-1"].changes()[-1]["state"] != "open")
    ran = ended(process)
    assert ran.rc == 2, ran.text
    assert "page_size is 64 on dsv4-prefill-2 and 1 on dsv4-decode-1" in ran.words
    steps = [(step["step"], step["instance"]) for step in fleet["dsv4-router"].changes()[-1]["steps"]]
    assert ("start", "dsv4-router") not in steps[: steps.index(("files", ""))]
    assert fleet.states() == {"rolled-back"} and fleet.scripts() == old and fleet.whole()

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What fails undoes itself: the old script byte for byte, all three serving, the reason told."""

from __future__ import annotations

import pytest

from .conftest import KNOB, QUICK, Lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """One story for all: each leaves the old state, which is the story's."""
    module_lab.story()
    return module_lab


def old_state_is_back(lab: Lab, before: bytes) -> None:
    assert lab.script.read_bytes() == before
    assert lab.running_knob() is None
    assert lab.serves()


def test_a_decode_that_refuses_the_new_value_is_put_back(lab: Lab) -> None:
    lab.lab("fault", "refuse_start_with", f"{KNOB}=512")
    before = lab.script.read_bytes()

    ran = lab.play("restore_knob.yml", *QUICK)
    assert ran.rc == 2
    old_state_is_back(lab, before)
    assert "sglang-dsv4-decode died at once after its start" in ran.words or "lab-decode: gate" in ran.words
    assert f"{KNOB}" in ran.words and "log:" in ran.words
    assert "the old state is back, lab-prefill, lab-decode, lab-router serve again" in ran.words
    assert lab.changes()[-1]["state"] == "rolled-back"
    lab.lab("fault", "--clear")


def test_a_decode_that_passes_all_but_a_real_request_is_put_back(lab: Lab) -> None:
    """Health lies for the new value only: the fault goes when the old script is back, as it would in the field."""
    before = lab.script.read_bytes()
    process = lab.start("restore_knob.yml", *QUICK)
    with lab.standing_at(process, "the apply", lambda: lab.script.read_bytes() != before):
        lab.fault("finish_reason_error")
    with lab.moment(process, "the rollback", lambda: lab.changes()[-1]["state"] == "rolling-back") as reached:
        assert reached
        lab.fault(clear=True)  # the guard, which goes back, waits for the lock
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2
    assert "found:" not in text, "the rollback of the test before was told by that very run"
    assert "lab-router: gate completion" in words
    assert "finish_reason" in words
    old_state_is_back(lab, before)


def test_a_rollback_that_fails_is_loud_and_names_both_versions_and_the_way_on(lab: Lab) -> None:
    before = lab.script.read_bytes()
    process = lab.start("restore_knob.yml", *QUICK)
    with lab.standing_at(process, "the apply", lambda: lab.script.read_bytes() != before):
        # Now the decode starts with neither value.
        lab.fault("refuse_start_with", "SGLANG_SM120_FLASHMLA_BACKEND=triton")
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2
    assert "THE ROLLBACK FAILED TOO" in words
    assert "Both versions are kept" in words and "restart.yml" in words
    assert lab.script.read_bytes() == before

    lab.lab("fault", "--clear")
    found = lab.play("restart.yml", *QUICK)
    assert found.rc == 0, found.text
    assert "was rollback-failed" in found.words
    assert lab.serves()

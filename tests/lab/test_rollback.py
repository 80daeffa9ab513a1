# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What fails undoes itself: the old script byte for byte, all three serving, the reason told."""

from __future__ import annotations

import pytest

from .conftest import KNOB, QUICK, Lab

pytestmark = pytest.mark.lab


def old_state_is_back(lab: Lab, before: bytes) -> None:
    assert lab.script.read_bytes() == before
    assert lab.running_knob() is None
    assert lab.serves()


def test_a_decode_that_refuses_the_new_value_is_put_back(story: Lab) -> None:
    story.lab("fault", "refuse_start_with", f"{KNOB}=512")
    before = story.script.read_bytes()

    ran = story.play("restore_knob.yml", *QUICK)
    assert ran.rc == 2
    old_state_is_back(story, before)
    assert "sglang-dsv4-decode died at once after its start" in ran.words or "lab-decode: gate" in ran.words
    assert f"{KNOB}" in ran.words and "log:" in ran.words
    assert "the old state is back, lab-prefill, lab-decode, lab-router serve again" in ran.words
    assert [change["state"] for change in story.changes()] == ["rolled-back"]
    # Told by this very run, so the next one has nothing to tell.
    assert "found:" not in story.play("restore_knob.yml", "--check").text


def test_a_decode_that_passes_all_but_a_real_request_is_put_back(story: Lab) -> None:
    """Health lies for the new value only: the fault goes when the old script is back, as it would in the field."""
    before = story.script.read_bytes()
    process = story.start("restore_knob.yml", *QUICK)
    story.wait("the apply", lambda: story.script.read_bytes() != before)
    story.lab("fault", "finish_reason_error")
    story.wait("the rollback", lambda: story.changes()[0]["state"] == "rolling-back")
    story.lab("fault", "--clear")
    text, _ = process.communicate(timeout=120)
    words = " ".join(text.split())
    assert process.returncode == 2
    assert "lab-router: gate completion" in words
    assert "finish_reason" in words
    old_state_is_back(story, before)


def test_a_rollback_that_fails_is_loud_and_names_both_versions_and_the_way_on(story: Lab) -> None:
    before = story.script.read_bytes()
    process = story.start("restore_knob.yml", *QUICK)
    story.wait("the apply", lambda: story.script.read_bytes() != before)
    # Now the decode starts with neither value.
    story.lab("fault", "refuse_start_with", "SGLANG_SM120_FLASHMLA_BACKEND=triton")
    text, _ = process.communicate(timeout=120)
    words = " ".join(text.split())
    assert process.returncode == 2
    assert "THE ROLLBACK FAILED TOO" in words
    assert "Both versions are kept" in words and "restart.yml" in words
    assert story.script.read_bytes() == before

    story.lab("fault", "--clear")
    found = story.play("restart.yml", *QUICK)
    assert found.rc == 0, found.text
    assert "was rollback-failed" in found.words
    assert story.serves()

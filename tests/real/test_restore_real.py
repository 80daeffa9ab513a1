# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The story on the real engines: one command brings the knob back, and proves it. The tests build on each other."""

from __future__ import annotations

import difflib
from types import SimpleNamespace

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.processes import read_environ

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
LINE = b"export SGLANG_SM120_MMA_TARGET_CTAS=512   # A/B: +12.8% at C64, +5.7% at C96\n"
DECODE = "serve_dsv4_decode.sh"
BACKUP = "serve_dsv4_decode.sh.pretgt_revert_2025.bak"


@pytest.fixture(scope="module")
def restored(lab):
    """The bare command, once; and how things were before it."""
    before = SimpleNamespace(scripts=lab.scripts(), mains=lab.mains(), answer=lab.answer())
    assert LINE not in before.scripts[DECODE] and LINE in before.scripts[BACKUP]
    played = lab.play("restore_knob.yml")
    assert played.code == 0, played.text[-3000:]
    return SimpleNamespace(before=before, played=played)


def test_it_says_what_it_did(restored):
    assert f"restored {KNOB}=512 on decode" in restored.played.text
    assert restored.played.recap()["failed"] == 0
    assert restored.played.recap()["changed"] > 0


def test_one_line_came_back_byte_for_byte(lab, restored):
    before, now = restored.before.scripts, lab.scripts()
    assert now.keys() == before.keys(), "nothing new lies beside the scripts"
    changes = [
        line
        for line in difflib.diff_bytes(
            difflib.unified_diff, before[DECODE].splitlines(True), now[DECODE].splitlines(True), n=0
        )
        if line[:1] in b"+-" and not line.startswith((b"+++", b"---"))
    ]
    assert changes == [b"+" + LINE]
    assert now[DECODE] == before[BACKUP]
    assert {name: data for name, data in now.items() if name != DECODE} == {
        name: data for name, data in before.items() if name != DECODE
    }


def test_all_three_were_restarted(lab, restored):
    now = lab.mains()
    assert all(now[name] != process for name, process in restored.before.mains.items())
    # In order: prefill, decode, router.
    assert now["lab-prefill"][1] < now["lab-decode"][1] < now["lab-router"][1]


def test_the_knob_is_in_the_running_process(lab, restored):
    assert read_environ(lab.status("lab-decode").pid).values[KNOB] == "512"
    assert KNOB not in read_environ(lab.status("lab-prefill").pid).values


def test_the_scheduler_cannot_show_it_and_the_gate_says_by_what_else_it_knows(lab, restored):
    scheduler = lab.scheduler("lab-decode")
    assert read_environ(scheduler).why == "overwritten"
    result = lab.gate("lab-decode", "effective", expect={KNOB: "512"})
    assert result.result == "passed", result.said
    found = result.evidence["knobs"][KNOB]
    assert (found["state"], found["value"]) == ("set", "512")
    assert "scheduler" not in found["evidence"] and str(scheduler) not in found["evidence"].split()
    # The run itself said so too, on the line of the gate.
    said = next(line for line in restored.played.text.splitlines() if f"{KNOB}=512 by the" in line)
    assert "lab-decode" in said and "passed" in said and "scheduler" not in said


def test_a_request_through_the_router_is_answered_as_before(lab, restored):
    """Greedy, from the same seeded weights: the same words prove that the KV cache crosses as it did."""
    answer = lab.answer()
    assert answer["finish_reason"] == "length"
    assert answer["message"]["content"]
    assert answer["message"]["content"] == restored.before.answer["message"]["content"]


def test_breakers_are_closed_and_workers_healthy(lab, restored):
    result = lab.gate("lab-router", "unit", "port", "health", "router")
    assert result.result == "passed", result.said
    assert set(result.evidence["breakers"].values()) == {"closed"}


def test_again_changes_nothing(lab, restored):
    scripts, mains = lab.scripts(), lab.mains()
    played = lab.play("restore_knob.yml")
    assert played.code == 0, played.text[-3000:]
    assert played.recap()["changed"] == 0
    assert (lab.scripts(), lab.mains()) == (scripts, mains)


def test_with_spt_noenv_the_scheduler_shows_its_environ(lab, restored):
    """setproctitle then spares the environ, and the best rung of the ladder is there."""
    played = lab.play("set_knob.yml", "-e", "knob=SPT_NOENV", "-e", "value=1", "-e", "role=decode")
    assert played.code == 0, played.text[-3000:]
    scheduler = lab.scheduler("lab-decode")
    assert read_environ(scheduler).whole
    assert read_environ(scheduler).values[KNOB] == "512"
    result = lab.gate("lab-decode", "effective", expect={KNOB: "512", "SPT_NOENV": "1"})
    assert result.result == "passed", result.said
    assert result.evidence["knobs"][KNOB]["evidence"] == f"environ of the scheduler {scheduler}"


def test_a_value_that_the_engine_refuses_is_rolled_back(lab, restored):
    """The real engine ends at its start when this file is not there. (A junk number would not do: it warns and uses
    its default; nor would a protocol that Mooncake does not know: it serves over TCP.)"""
    scripts, mains = lab.scripts(), lab.mains()
    setting = ("-e", "knob=SGLANG_LOGGING_CONFIG_PATH", "-e", "value=/nonexistent/logging.json", "-e", "role=decode")
    played = lab.play("set_knob.yml", *setting)
    assert played.code != 0
    assert "lab-decode" in played.text, "who failed"
    assert "/nonexistent/logging.json but it does not exist" in played.text, "the engine's own last words"
    assert lab.scripts() == scripts, "the old scripts are back byte for byte"
    now = lab.mains()
    assert all(now[name] != process for name, process in mains.items())
    assert lab.answer()["message"]["content"] == restored.before.answer["message"]["content"]
    verified = lab.play("verify.yml")
    assert verified.code == 0 and verified.recap()["changed"] == 0

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""recover.yml after crashes: what is where, back and forward on demand; rollback.yml of a confirmed change."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from .conftest import KNOB, QUICK, Lab
from .test_interrupted import kill_at, stepping

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.story()
    return module_lab


def kill_guard(lab: Lab, change_id: str) -> None:
    """As a reboot does; the lease is made one of an earlier boot."""
    found = subprocess.run(["pgrep", "-f", f"guard .*--change {change_id}"], capture_output=True, text=True, check=True)
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    path = lab.dir / "state" / "changes" / f"{change_id}.json"
    path.write_text(path.read_text().replace(lab.changes()[-1]["lease"]["boot_id"], "an earlier boot"))


def test_back_after_a_reboot_and_again_after_a_rollback_that_failed(lab: Lab) -> None:
    before = lab.script.read_bytes()
    change_id, _ = kill_at(lab, "all stopped")
    kill_guard(lab, change_id)

    seen = lab.play("recover.yml")
    assert seen.rc == 0, seen.text
    assert f"change {change_id} is OPEN: restored {KNOB}=512 on decode" in seen.words
    assert "controller gone, of an earlier boot of this machine" in seen.words
    assert "last step 'stop lab-prefill'" in seen.words and "NO GUARD: nothing happens by itself" in seen.words
    assert f"{lab.script} has the new content" in seen.words
    assert "recover.yml -e finish=back" in seen.words and "recover.yml -e finish=forward" in seen.words
    assert "lab-decode: sglang-dsv4-decode STOPPED" in seen.words
    assert lab.changes()[-1]["state"] == "open", "looking must change nothing"

    lab.lab("fault", "refuse_start_with", "SGLANG_SM120_FLASHMLA_BACKEND=triton")
    failed = lab.play("recover.yml", "-e", "finish=back", *QUICK)
    assert failed.rc == 2
    assert "THE ROLLBACK FAILED TOO" in failed.words and "recover.yml -e finish=back" in failed.words
    assert f"change {change_id} is ROLLBACK-FAILED" in failed.words
    assert f"change {change_id} is still rollback-failed; run recover.yml again" in failed.words

    lab.lab("fault", "--clear")
    back = lab.play("recover.yml", "-e", "finish=back", *QUICK)
    assert back.rc == 0, back.text
    assert lab.script.read_bytes() == before and lab.running_knob() is None and lab.serves()
    assert "lab-prefill, lab-decode, lab-router serve again" in back.words
    report = (lab.dir / "reports" / "lab" / "latest.html").read_text()
    assert "Rolled back" in report and change_id in report and "asked for with recover.yml" in report
    told = [entry for entry in lab.entries() if entry.get("change_id") == change_id]
    assert [entry["outcome"] for entry in told] == ["rolled-back"]
    again = lab.play("recover.yml", "-e", "finish=back")
    assert again.rc == 0 and again.recap["changed"] == 0
    assert "no change waits to be ended" in again.words


def test_forward_keeps_a_new_state_that_is_proved_and_rollback_puts_it_back_later(lab: Lab) -> None:
    before = lab.script.read_bytes()
    known = len(lab.changes())
    process = lab.start("restore_knob.yml")
    with lab.standing_at(process, "a step", lambda: stepping(lab, known)):
        refused = lab.play("recover.yml", "-e", "finish=back", "--check")
    assert refused.rc == 2
    assert "its controller is alive" in refused.words and "-e take_over=" in refused.words
    process.communicate()
    assert lab.play("rollback.yml").rc == 0
    assert lab.script.read_bytes() == before

    kill_at(lab, "before confirm")
    lab.wait("the router", lab.serves)
    pids = lab.pids()
    kept = lab.play("recover.yml", "-e", "finish=forward")
    assert kept.rc == 0, kept.text
    assert lab.pids() == pids, "all processes have the new state: nothing restarts"
    assert lab.running_knob() == "512"
    confirmed, left = lab.changes()[-1], lab.changes()[-2]
    assert (confirmed["verb"], confirmed["state"]) == ("recover", "confirmed")
    assert (left["verb"], left["state"]) == ("restore", "superseded")
    entry = lab.entries()[-1]
    assert (entry["kind"], entry["verb"], entry["after"]) == ("restore", "recover", "512")
    assert "interrupted as restore, and finished by recover.yml" in entry["said"]

    new = lab.script.read_bytes()
    lab.script.write_bytes(new.replace(b"exec ", b"# by hand\nexec ", 1))
    drifted = lab.play("rollback.yml")
    assert drifted.rc == 2 and "+" in drifted.words and "# by hand" in drifted.words
    assert "-e expect_only=no" in drifted.words
    lab.script.write_bytes(new)
    back = lab.play("rollback.yml", "-e", f"change={confirmed['id']}")
    assert back.rc == 0, back.text
    assert lab.script.read_bytes() == before and lab.running_knob() is None and lab.serves()
    again = lab.play("rollback.yml")
    assert again.rc == 0 and again.recap["changed"] == 0, again.text
    assert "nothing to roll back: the newest is change" in again.words

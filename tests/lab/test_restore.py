# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The main job, as an operator does it."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import KNOB, LINE, Lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """One story for the tests in this order; those that want a fresh one come last."""
    module_lab.story()
    return module_lab


def test_nothing_to_restore_says_so(lab: Lab) -> None:
    away = lab.backup.rename(lab.dir / "away")
    ran = lab.play("restore_knob.yml")
    away.rename(lab.backup)
    assert ran.rc == 0
    assert ran.recap["changed"] == 0
    assert "nothing to restore: no older version or backup has a knob that its script lacks" in ran.words


def test_a_backup_that_differs_in_two_lines_is_refused_with_both_shown(lab: Lab) -> None:
    content = lab.backup.read_text()
    lab.backup.write_text(content.replace("WAITING_TIMEOUT=20", "WAITING_TIMEOUT=600"))
    before, pids = lab.script.read_bytes(), lab.pids()

    ran = lab.play("restore_knob.yml")
    lab.backup.write_text(content)
    assert ran.rc == 2
    assert "differs in more than" in ran.words
    assert "WAITING_TIMEOUT=20" in ran.words and "WAITING_TIMEOUT=600" in ran.words
    assert lab.script.read_bytes() == before and lab.pids() == pids and not lab.changes()


def test_a_right_file_with_an_old_process_is_restarted_and_not_written(lab: Lab) -> None:
    lab.script.write_bytes(lab.backup.read_bytes())
    written = lab.script.stat()

    ran = lab.play("restore_knob.yml")
    assert ran.rc == 0, ran.text
    assert "its process started before the edit" in ran.words
    assert f"restored {KNOB}=512 on decode" in ran.text
    now = lab.script.stat()
    assert (now.st_ino, now.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
    assert lab.running_knob() == "512"


def test_several_candidates_are_listed_and_one_is_chosen_by_name(lab: Lab) -> None:
    """Also a script that somebody edited by hand, under a process that still has what was taken out."""
    lab.script.write_bytes(lab.script.read_bytes().replace(LINE.encode(), b""))
    changes = lab.changes()
    other = "export SGLANG_LOG_MS=1\n"
    lab.backup.with_name(f"{lab.script.name}.old.bak").write_text(
        lab.script.read_text().replace("export UCX_TLS", other + "export UCX_TLS")
    )
    ran = lab.play("restore_knob.yml")
    assert ran.rc == 2
    assert f"{KNOB}=512 on decode" in ran.words and "SGLANG_LOG_MS=1 on decode" in ran.words
    assert "-e knob=" in ran.words
    assert lab.changes() == changes

    # By an inventory in which reports and record are of the deployment; the limit makes an instance the one that leads.
    inventory = str(lab.dir / "inventory.json")
    ran = lab.play("restore_knob.yml", "-e", "knob=SGLANG_LOG_MS", "-i", inventory, "-l", "lab-decode")
    assert ran.rc == 0, ran.text
    assert f"report: {lab.dir}/reports/lab/" in ran.text
    newest = max((lab.dir / "evidence" / "lab").iterdir())
    assert '"SGLANG_LOG_MS"' in newest.read_text()
    assert other in lab.script.read_text() and LINE not in lab.script.read_text()


@pytest.mark.long
def test_the_bare_command_restores_the_knob_and_again_changes_nothing(story: Lab) -> None:
    before, pids = story.script.read_text(), story.pids()
    assert LINE not in before and story.running_knob() is None

    checked = story.play("restore_knob.yml", "--check", "--diff")
    assert checked.rc == 0
    assert checked.recap["changed"] == 1  # true to what a run would do
    assert f"+{LINE}" in checked.text
    assert story.script.read_text() == before and story.pids() == pids and not story.changes()

    ran = story.play("restore_knob.yml")
    assert ran.rc == 0, ran.text
    assert f"restored {KNOB}=512 on decode" in ran.text
    assert f"{KNOB}=512 by the environ of the main process" in ran.text
    assert "completion  passed" in ran.text
    assert story.script.read_bytes() == story.backup.read_bytes()
    assert set(story.pids().values()).isdisjoint(pids.values())
    assert story.running_knob() == "512"
    assert story.serves()
    assert [change["state"] for change in story.changes()] == ["confirmed"]

    pids = story.pids()
    again = story.play("restore_knob.yml")
    assert again.rc == 0
    assert again.recap["changed"] == 0
    assert "nothing to restore" in again.text
    assert story.pids() == pids

    # The way back and forth keeps every byte.
    reverted = story.play("revert_knob.yml", "-e", f"knob={KNOB}", "-e", "reason=suspicion")
    assert reverted.rc == 0, reverted.text
    assert f"reverted {KNOB} (now unset) on decode" in reverted.text
    # What a plan expects is what the report of the last one told.
    told = re.search(r", outage ([^,\n]+)", ran.text)
    assert told and f"expected outage: {told[1]}, as in the last change of this kind here" in reverted.text
    assert story.script.read_text() == before
    assert story.running_knob() is None


@pytest.mark.long
def test_set_and_restart_and_verify(story: Lab) -> None:
    first = story.play("verify.yml")
    assert first.rc == 0, first.text
    assert first.recap["changed"] == 0
    pids = story.pids()

    ran = story.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=768")
    assert ran.rc == 0, ran.text  # the backup has the knob, so it is known where it belongs
    assert story.running_knob() == "768"

    router = story.pid("lab-router")
    engines = (story.pid("lab-prefill"), story.pid("lab-decode"))
    assert story.play("restart.yml", "-e", "scope=router").rc == 0
    assert story.pid("lab-router") != router
    assert (story.pid("lab-prefill"), story.pid("lab-decode")) == engines
    assert pids["lab-decode"] not in engines

    # By hand behind its back: verify tells, and changes nothing.
    story.script.write_text(story.script.read_text().replace(f"{KNOB}=768", f"{KNOB}=1024"))
    found = story.play("verify.yml")
    assert found.rc == 2
    assert f"{KNOB}=768 by the environ of the main process" in found.words
    assert story.running_knob() == "768"

    # It is kept once, and no record that cannot be written hides it.
    (entry,) = [one for one in story.entries() if one.get("found")]
    assert (entry["verb"], entry["instance"], entry["found"]) == ("verify", "lab-decode", "gate effective")
    (story.dir / "in the way").write_text("")
    for more in ((), ("-e", json.dumps({"pd_evidence_dir": str(story.dir / "in the way")}))):
        again = story.play("verify.yml", *more)
        assert again.rc == 2 and f"{KNOB}=768 by the environ of the main process" in again.words
        assert ("the record was not written: " in again.words) == bool(more)
    assert len([one for one in story.entries() if one.get("found")]) == 1
    (line,) = story.journal("found")
    assert line["entry"] == entry["id"] and story.journal("over") == []
    shown = story.play("record.yml", "-e", "show=fold")
    assert f"finding: {entry['said']}" in shown.text
    assert '<h2 id="open">' in (story.dir / "reports" / "lab" / "record.html").read_text()
    story.script.write_text(story.script.read_text().replace(f"{KNOB}=1024", f"{KNOB}=768"))
    whole = story.play("verify.yml")
    assert whole.rc == 0 and whole.recap["changed"] == 0, whole.text
    over = story.entries()[-1]
    assert over["over"] and over["refs"] == [entry["id"]] and len(story.journal("over")) == 1

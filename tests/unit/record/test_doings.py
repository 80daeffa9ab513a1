# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a verb leaves in the record; and the record against what a machine's journal and scripts have."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.record import doings, joining, planned
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded
from ansible_collections.pdops.sglang.plugins.module_utils.record.reasons import Reason
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import fold_lines, open_lines

from .conftest import KNOB

INSTANCE = "dsv4-decode"


def edit(before=None, after="512", **more):
    return {"instance": INSTANCE, "knob": KNOB, "before": before, "after": after, "line_after": None, **more}


def made(checkout, verb, outcome="confirmed", reason=None, **more):
    """The entries of a run, kept, and what each says without what is common to all."""
    done = {"verb": verb, "outcome": outcome, "change_id": f"c-{verb}", "said": f"{verb} it\nlog: more", **more}
    kept = [checkout.add(**entry) for entry in doings.entries_of(done, reason, checkout.folded)]
    assert all(item.data["verb"] == verb and item.data["change_id"] == f"c-{verb}" for item in kept)
    return kept


def test_each_verb_leaves_its_kind_and_refers_to_what_it_takes_back(checkout):
    (apply,) = made(checkout, "set", edits=[edit()], fingerprint={"engine": "x"})
    assert apply.kind == "apply" and apply.data["fingerprint"] == {"engine": "x"} and apply.data["said"] == "set it"
    measure = checkout.measure()
    (revert,) = made(checkout, "revert", edits=[edit("512", None)], reason=Reason("suspicion", True, "2026-12-13"))
    assert (
        revert.refs == [apply.id, measure.id] and revert.data["suspicion"] and revert.data["review_by"] == "2026-12-13"
    )
    assert revert.data["forgoing"] == [{"load": "C64", "effect_pct": 12.8}]
    (restore,) = made(checkout, "restore", edits=[edit()], reason=Reason("it was the proxy", False, ""))
    assert restore.refs == [revert.id] and restore.data["said"] == "restore it; it was the proxy"
    (rollback,) = made(checkout, "rollback", edits=[{"instance": INSTANCE, "knob": "", "expect": {KNOB: None}}])
    assert (rollback.data["outcome"], rollback.data["before"], rollback.data["after"]) == ("undone", "512", None)
    (restart,) = made(checkout, "restart", expect={})
    assert restart.kind == "observe" and "knob" not in restart.data
    assert checkout.folded.contradictions == [] and checkout.knob.deployed == {INSTANCE: None}


def test_a_revert_without_measurements_forgoes_nothing_that_anybody_knows(checkout):
    (entry,) = doings.entries_of({"verb": "revert", "outcome": "confirmed", "edits": [edit("1", None)]}, None, Folded())
    assert entry["forgoing"] == [] and entry["reason"] == "none was given" and not entry["suspicion"]


def test_a_change_that_was_rolled_back_says_what_was_tried_and_why_not(checkout):
    checkout.set()
    (entry,) = made(
        checkout, "set", "rolled-back", edits=[edit("512", "768")], said="lab-decode, gate port: failed\nlog: x"
    )
    assert entry.data["outcome"] == "rolled-back" and entry.data["reason"] == "lab-decode, gate port: failed"
    (entry,) = made(checkout, "restart", "rollback-failed")
    assert entry.data["outcome"] == "rollback-failed" and "said" not in entry.data
    assert made(checkout, "set", "refused", edits=[edit()]) == []
    assert checkout.knob.deployed == {INSTANCE: "512"} and checkout.folded.contradictions == []


def test_what_an_interrupted_run_changed_is_known_from_the_machine(checkout):
    changes = [{"files": [{"instance": INSTANCE, "knobs": {KNOB: [None, "512"], "HF_TOKEN": ["a", "b"]}}]}, {}]
    (entry,) = made(checkout, "recover", changes=changes)
    assert (entry.kind, entry.data["after"]) == ("apply", "512")
    # The plan's own edit is not told twice.
    assert len(made(checkout, "restore", edits=[edit("512", "512")], changes=changes)) == 1


@pytest.mark.parametrize(("interrupted", "kind"), [("set", "apply"), ("restore", "restore"), ("revert", "revert")])
def test_what_recover_finished_is_recorded_as_what_it_was_with_why_it_was_wanted(checkout, interrupted, kind):
    checkout.set()
    checkout.measure()
    why = {"text": "suspicion", "suspicion": True, "review_by": "2026-12-13"}
    kept = {
        "id": "c-recover",
        "finishes": {"id": "c-before", "verb": interrupted, "why": why},
        "why": why if interrupted == "revert" else {},
        "files": [{"instance": INSTANCE, "knobs": {KNOB: ["512", None]}}],
    }
    (entry,) = made(checkout, "recover", changes=[kept, {}], said="carried through: it (change c-before)")
    assert entry.kind == kind and entry.data["verb"] == "recover"
    assert f"interrupted as {interrupted}, and finished by recover.yml" in entry.data["said"]
    if kind == "revert":
        assert checkout.knob.debts[0].review_by == "2026-12-13" and entry.data["forgoing"][0]["effect_pct"] == 12.8


def test_a_machine_that_did_not_answer_is_not_known_and_told_by_the_run_that_reaches_it(checkout):
    checkout.set()
    knobs = [edit("512", "768"), {**edit(None, "768"), "instance": "dsv4-prefill"}]
    there, unknown = made(
        checkout, "set", "failed", edits=knobs, said="gate port failed", silent=["dsv4-prefill", "dsv4-router"]
    )
    assert (there.data["outcome"], unknown.data["outcome"]) == ("rolled-back", "not-known")
    assert unknown.data["instance"] == "dsv4-prefill" and unknown.data["reason"] == (
        "gate port failed; dsv4-prefill, dsv4-router did not answer: the guard there puts the old state back by itself"
    )
    (line,) = open_lines(checkout.folded)
    assert line.startswith("change c-set: what became of it on dsv4-prefill is not known since ")
    # The next run: the guard has put it back, and tells so until it is marked as told.
    change = {"id": "c-set", "files": [{"instance": "dsv4-prefill", "knobs": {KNOB: [None, "768"]}}]}
    done = {"verb": "set", "outcome": "rolled-back", "change_id": "c-set", "said": "no word", "changes": [change]}
    for expected in (1, 0):
        fresh = doings.not_told_yet(doings.entries_of(done, None, checkout.folded), checkout.folded)
        assert len(fresh) == expected
        for entry in fresh:
            assert entry["refs"] == [unknown.id]
            checkout.add(**entry)
    assert open_lines(checkout.folded) == [] and checkout.knob.deployed == {INSTANCE: "512"}


def test_a_rollback_that_failed_is_written_once_and_again_when_it_came_to_a_good_end(checkout):
    done = {
        "verb": "restart",
        "outcome": "rollback-failed",
        "change_id": "c",
        "said": "gate port",
        "changes": [{"files": []}],
    }
    for _run in range(3):
        for entry in doings.not_told_yet(doings.entries_of(done, None, checkout.folded), checkout.folded):
            checkout.add(**entry)
    (failed,) = checkout.reading.entries
    (entry,) = doings.not_told_yet(
        doings.entries_of({**done, "outcome": "rolled-back"}, None, checkout.folded) * 2, checkout.folded
    )
    assert entry["refs"] == [failed.id]


@pytest.mark.parametrize(
    ("verb", "outcome", "state", "says"),
    [
        ("set", "rolled-back", "confirmed", "rolled-back"),
        ("set", "rollback-failed", "confirmed", "rollback-failed"),
        ("set", "confirmed", "rolled-back", "confirmed"),
        ("set", "confirmed", "confirmed", ""),
        ("set", "rolled-back", "rolled-back", ""),
        ("set", "failed", "rolled-back", ""),
        ("set", "failed", "confirmed", ""),
    ],
)
def test_a_change_that_ended_otherwise_than_the_record_says_is_named(checkout, verb, outcome, state, says):
    kept = made(checkout, verb, outcome, edits=[edit()])
    told = joining.against_journal(checkout.folded, [change(state=state)])
    if says:
        assert f"has change c-set by bob on ops2 as {state}, and the record says that it was {says}:" in told[0]
        checkout.add("correct", refs=[kept[0].id], said="wrong")
        told = joining.against_journal(checkout.folded, [change(state=state)])
    assert not [one for one in told if "and the record says that it was" in one]


def test_a_deploy_leaves_an_entry_for_each_knob_that_it_changed(checkout):
    knobs = {KNOB: {"before": None, "after": "512"}, "HF_TOKEN": {"before": "a", "after": "b"}}
    whole = {"instance": INSTANCE, "knob": "", "before": None, "after": None, "expect": {KNOB: "512"}, "knobs": knobs}
    (entry,) = made(checkout, "deploy", edits=[whole])
    assert (entry.kind, entry.data["knob"], entry.data["after"]) == ("apply", KNOB, "512")


def test_a_value_that_only_a_restart_brought_into_effect_contradicts_nothing(checkout):
    checkout.set()
    checkout.revert()
    (entry,) = made(checkout, "restore", expect={INSTANCE: {KNOB: "512"}})
    assert (entry.data["before"], entry.data["after"]) == (None, "512")
    assert checkout.folded.contradictions == [] and checkout.knob.debts == []


def test_a_value_that_only_a_run_tells_is_kept_as_its_line(checkout):
    (entry,) = made(checkout, "restore", edits=[edit(after=None, line_after=f"export {KNOB}=$(nproc)")])
    assert entry.data["after"] == f"export {KNOB}=$(nproc)"
    assert joining.against_scripts(checkout.folded, {INSTANCE: {}}) == []


def change(identity="c-set", after="512", **more):
    files = [{"instance": INSTANCE, "knobs": {KNOB: [None, after]}}]
    return {
        "id": identity,
        "verb": "set",
        "state": "confirmed",
        "who": "bob on ops2",
        "ended": "2099-01-01T00:00:00Z",
        "files": files,
        **more,
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (change(), ""),
        (change(after="768"), f"({KNOB}: unset -> =768 on {INSTANCE}), and the record says that it became =512"),
        (change("c-other"), "change c-other by bob on ops2"),
        (change("c-other"), "and the record has no entry of it: was it deleted, or is it in another checkout?"),
        (change("c-other", ended="2000-01-01T00:00:00Z"), ""),
        (change("c-other", state="rolled-back"), ""),
        (change("c-other", verb="restart", files=[]), ""),
        (change("c-other", verb="restart"), "the record has no entry of it"),
    ],
)
def test_what_the_journal_has_and_the_record_does_not_is_named(checkout, given, words):
    made(checkout, "set", edits=[edit()])
    told = joining.against_journal(checkout.folded, [given])
    assert (words in told[0]) if words else told == []


def test_a_script_that_was_edited_by_hand_is_named_in_every_plan(checkout):
    kept = checkout.set()
    infos = [{"instances": {INSTANCE: {"intended": {KNOB: "768"}}, "dsv4-prefill": {"error": "unreadable"}}}]
    (line,) = planned.lines_of(checkout.folded, [], "verify", [], infos, None, "2026-11-29")
    assert line.startswith(
        f"record: the script of {INSTANCE} has {KNOB}=768, and the record =512 since {kept.at[:10]} (apply {kept.id})"
    )
    assert planned.lines_of(checkout.folded, ["x"], "verify", [], [], None, "2026-11-29") == [
        "record: 1 of its files cannot be trusted; see ansible-playbook record.yml -e show=check"
    ]


def test_a_plan_of_a_revert_says_what_it_costs_and_that_the_knob_was_cleared(checkout):
    checkout.set()
    checkout.measure()
    reason = Reason("suspicion", True, "2026-12-13")
    lines = planned.lines_of(checkout.folded, [], "revert", [edit("512", None)], [], reason, "2026-11-29")
    assert lines == ["costs: forgoing +12.8 % at C64; review by 2026-12-13"]
    checkout.add("exonerate", knob=KNOB, cause="proxy")
    checkout.add("suspect", knob=KNOB, said="again")
    checkout.add("exonerate", knob=KNOB, cause="proxy")
    assert planned.lines_of(Folded(), [], "revert", [edit("512", None)], [], None, "2026-11-29") == [
        "costs: what it costs was never measured"
    ]


def test_a_plan_that_brings_back_what_was_reverted_for_a_reason_says_the_reason(checkout):
    def notes():
        lines = planned.lines_of(checkout.folded, [], "restore", [edit(None, "512")], [], None, "2026-11-29")
        return [line for line in lines if line.startswith("note: ")]

    checkout.set()
    assert notes() == []
    kept = checkout.set(None, "512", "revert", reason="p99 at C8 rose by 9 %", suspicion=False)
    (line,) = notes()
    assert line == (
        f"note: {KNOB}=512 was reverted on {kept.at[:10]} by alice on ops1: p99 at C8 rose by 9 %; see ansible-playbook record.yml -e knob={KNOB}"
    )
    assert any("512 was reverted by alice on ops1" in said for said in fold_lines(checkout.folded, [], "2026-11-29"))
    checkout.add("rollback", knob=KNOB, instance=INSTANCE, before=None, after="512", outcome="rolled-back")
    assert len(notes()) == 1, "it was not put in place"
    checkout.set(kind="restore")
    assert notes() == [], "somebody knew better"
    checkout.revert()
    assert all("was reverted" not in note for note in notes()), "a suspicion is a verdict"


@pytest.mark.parametrize("verb", ["set", "restore", "deploy", "rollback", "recover"])
def test_each_verb_that_replaces_a_measured_value_says_what_it_costs(checkout, verb):
    checkout.set()
    checkout.measure()
    one = edit("512", "256")
    if verb in ("deploy", "rollback"):  # they replace whole scripts, and name the knobs in them
        one = {"instance": INSTANCE, "knobs": {KNOB: {"before": "512", "after": "256"}}}

    def lines(*edits):
        return planned.lines_of(checkout.folded, [], verb, edits, [], None, "2026-11-29")

    assert lines(one) == ["costs: forgoing +12.8 % at C64"]
    assert lines(edit("256", "512")) == lines(edit("512", "512")) == []
    checkout.add("measure", knob=KNOB, value="256", load="C64", effect_pct=14, verdict="adopted")
    assert lines(one) == [f"costs: forgoing +12.8 % at C64; {KNOB}=256 measured +14 % at C64"]
    other = {"instance": INSTANCE, "knob": "SGLANG_LOG_MS", "before": None, "after": "1"}
    assert lines(one, other) == [f"costs: {KNOB}=512: forgoing +12.8 % at C64; {KNOB}=256 measured +14 % at C64"]

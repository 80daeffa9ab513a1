# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the record says: deployed value and verdict per knob, debts, contradictions, and what nobody has verified since."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.record.data import knob_data
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import fold
from ansible_collections.pdops.sglang.plugins.module_utils.record.joining import against_journal, against_scripts
from ansible_collections.pdops.sglang.plugins.module_utils.record.regions import render
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import debt_lines, entry_line, fold_lines, losses
from ansible_collections.pdops.sglang.plugins.module_utils.secret_masking import mask_text

from .conftest import KNOB

TODAY = "2026-11-29"


def state(checkout):
    knob = checkout.knob
    return knob.deployed, knob.value, knob.verdict, len(debt_lines(checkout.folded, TODAY))


def test_the_story_step_by_step(checkout):
    there, gone = {"dsv4-decode": "512"}, {"dsv4-decode": None}
    checkout.add("propose", knob=KNOB, value="512", said="more CTAs for SM120")
    assert state(checkout) == ({}, "512", "unknown", 0)
    checkout.set()
    assert state(checkout) == (there, "512", "trial", 0)
    checkout.measure("C64", 12.8)
    checkout.measure("C96", 5.7)
    assert state(checkout) == (there, "512", "adopted", 0)
    suspect = checkout.add("suspect", knob=KNOB, said="an agent hung")
    assert state(checkout) == (there, "512", "suspected", 0)
    revert = checkout.revert(refs=[suspect.id], forgoing=losses(checkout.knob.measured("512")))
    assert state(checkout) == (gone, "512", "suspected", 1)
    (line,) = debt_lines(checkout.folded, TODAY)
    assert line == (
        f"{KNOB}=512 reverted on suspicion on {revert.at[:10]}: forgoing +12.8 % at C64, +5.7 % at C96; "
        f"review by 2026-12-13; resolve: ansible-playbook record.yml -e kind=exonerate -e knob={KNOB} -e cause=WHAT, or kind=convict"
    )
    assert "review was due by 2026-12-13" in debt_lines(checkout.folded, "2026-12-14")[0]
    checkout.add("exonerate", knob=KNOB, cause="proxy", refs=[revert.id])
    assert state(checkout) == (gone, "512", "exonerated", 1)
    assert "exonerated (proxy), yet not restored" in debt_lines(checkout.folded, TODAY)[0]
    assert f"resolve: ansible-playbook restore_knob.yml -e knob={KNOB}" in debt_lines(checkout.folded, TODAY)[0]
    checkout.set(kind="restore")
    assert state(checkout) == (there, "512", "adopted", 0)
    assert checkout.folded.contradictions == []


def test_what_was_measured_outlasts_the_next_value(checkout):
    checkout.set()
    kept = checkout.measure(low_pct=10.9, high_pct=14.7)
    checkout.set("256", "512")
    assert state(checkout) == ({"dsv4-decode": "256"}, "256", "trial", 0)
    said = "512 measured +12.8 % [+10.9, +14.7] at C64 (adopted), forgone now"
    assert f"  {said} [evidence:{kept.id}]" in fold_lines(checkout.folded, [], TODAY)
    assert knob_data(checkout.knob, TODAY)["elsewhere"] == [{"id": kept.id, "said": said}]
    assert f"- {said} [evidence:{kept.id}]" in render(f"knob knob={KNOB}", checkout.folded)
    assert f"{said} [evidence:{kept.id}]" in "".join(render("knobs", checkout.folded))
    checkout.set("512", "256", kind="restore")
    assert checkout.knob.elsewhere == [] and checkout.knob.measured("512")
    # Of a value that is worse it is told that it was measured, and nothing is forgone by another one.
    checkout.add("measure", knob=KNOB, value="1024", load="C64", effect_pct=-3, verdict="rejected")
    assert any(
        line.startswith("  1024 measured -3 % at C64 (rejected) [") for line in fold_lines(checkout.folded, [], TODAY)
    )


def test_a_conviction_ends_the_debt_and_a_restore_after_it_is_named(checkout):
    checkout.set()
    checkout.revert()
    convict = checkout.add("convict", knob=KNOB, cause="hangs at CTA 512")
    assert state(checkout) == ({"dsv4-decode": None}, "512", "convicted", 0)
    checkout.set(kind="restore")
    (said,) = checkout.folded.contradictions
    assert "it is convicted (hangs at CTA 512)" in said and convict.id
    assert checkout.knob.verdict == "convicted"


def test_a_suspicion_adds_nothing_to_a_conviction(checkout):
    checkout.set()
    checkout.add("convict", knob=KNOB, cause="hangs")
    checkout.add("suspect", knob=KNOB, said="x")
    checkout.revert()
    assert state(checkout) == ({"dsv4-decode": None}, "512", "convicted", 0)


def test_who_judges_otherwise_and_knows_of_the_former_judgement_contradicts_nobody(checkout):
    checkout.set()
    first = checkout.add("exonerate", knob=KNOB, cause="proxy")
    checkout.add("convict", knob=KNOB, cause="hangs", refs=[first.id])
    assert checkout.folded.contradictions == [] and checkout.knob.verdict == "convicted"


def test_only_gains_are_losses(checkout):
    checkout.set()
    checkout.measure("C64", -3.0, verdict="inconclusive")
    checkout.measure("C96", 5.7, verdict="rejected")
    checkout.measure("C8", 2.0, verdict="inconclusive")
    assert losses(checkout.knob.measured("512")) == [{"load": "C8", "effect_pct": 2.0}]


def test_a_suspicion_is_not_cleared_by_a_measurement_or_by_putting_the_value_back(checkout):
    checkout.set()
    checkout.revert()
    checkout.measure()
    assert checkout.knob.verdict == "suspected" and checkout.knob.debts
    checkout.set(kind="restore")
    assert checkout.knob.verdict == "suspected" and checkout.knob.debts == []


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([{"effect_pct": 12.8, "verdict": None}], "trial"),
        ([{"low_pct": 10.9, "high_pct": 14.7, "verdict": None}], "adopted"),
        ([{"effect_pct": 2, "low_pct": -1, "high_pct": 4, "verdict": None}], "inconclusive"),
        ([{"effect_pct": -3, "low_pct": -5, "high_pct": -1, "verdict": None}], "rejected"),
        ([{}, {"load": "C96", "verdict": "inconclusive"}], "adopted"),
        ([{}, {"load": "C96", "effect_pct": -4.0, "verdict": "rejected"}], "rejected"),
        ([{"verdict": "inconclusive"}, {"verdict": "adopted"}], "adopted"),
    ],
)
def test_measurements_make_the_verdict_and_a_bare_figure_makes_none(checkout, figures, verdict):
    checkout.set()
    for given in figures:
        checkout.measure(**given)
    assert checkout.knob.verdict == verdict


def test_a_revert_for_another_reason_is_no_debt_unless_somebody_means_to_come_back(checkout):
    checkout.set()
    checkout.measure()
    checkout.revert(reason="memory is needed elsewhere", suspicion=False, review_by=None)
    assert state(checkout) == ({"dsv4-decode": None}, "512", "adopted", 0)
    checkout.set()
    checkout.revert(reason="memory is needed elsewhere", suspicion=False)
    assert "reverted (memory is needed elsewhere) on" in debt_lines(checkout.folded, TODAY)[0]
    assert "what it costs was never measured" in debt_lines(checkout.folded, TODAY)[0]
    checkout.measure(effect_pct=-2.0, verdict="rejected")
    assert checkout.knob.debts == []


def test_another_value_starts_afresh_and_the_old_one_keeps_its_figures(checkout):
    checkout.set()
    checkout.measure()
    checkout.set("768", "512")
    assert state(checkout)[1:3] == ("768", "trial")
    checkout.set("512", "768")
    assert state(checkout)[1:3] == ("512", "adopted")


def test_two_instances_have_their_own_values(checkout):
    checkout.set()
    checkout.add("apply", knob=KNOB, instance="dsv4-prefill", before=None, after="256")
    assert checkout.knob.deployed == {"dsv4-decode": "512", "dsv4-prefill": "256"}
    assert "512 on dsv4-decode, 256 on dsv4-prefill" in fold_lines(checkout.folded, [], TODAY)[0]


def test_contradictions_are_named(checkout):
    checkout.set()
    checkout.set("768", "640")
    measured = checkout.add("measure", knob=KNOB, value="768", load="C64", effect_pct=3, verdict="adopted")
    worse = checkout.add("measure", knob=KNOB, value="768", load="C64", effect_pct=-3, verdict="rejected")
    checkout.add("observe", knob=KNOB, instance="dsv4-decode", value="1")
    told = checkout.folded.contradictions
    assert [said.split()[0] for said in told] == ["apply", "measure", "observe"]
    assert f"found {KNOB}=640 on dsv4-decode, and the record has =512 there since apply " in told[0]
    assert f"measure {measured.id} says adopted" in told[1]
    # One who knows of the former figure means to replace it.
    checkout.add("measure", knob=KNOB, value="768", load="C64", effect_pct=4, verdict="adopted", refs=[worse.id])
    assert len(checkout.folded.contradictions) == 3


def test_a_rolled_back_change_moves_nothing_and_one_that_was_put_back_does(checkout):
    checkout.set()
    both = {"knob": KNOB, "instance": "dsv4-decode"}
    checkout.add("rollback", **both, before="512", after="768", outcome="rolled-back", reason="gate port failed")
    assert checkout.knob.deployed == {"dsv4-decode": "512"} and checkout.knob.value == "512"
    checkout.add("rollback", **both, before="512", after=None, outcome="undone")
    assert checkout.knob.deployed == {"dsv4-decode": None} and checkout.folded.contradictions == []


def test_what_was_measured_under_another_fingerprint_is_unverified_since_it_changed(checkout):
    old = {"engine": "sglang 0.5.22", "driver": "580.65", "gpu": "not observable"}
    new = {**old, "engine": "sglang 0.5.23", "gpu": "8 x B200"}
    checkout.set(fingerprint=old)
    checkout.measure(fingerprint=old)
    assert checkout.knob.unverified_since == ""
    later = checkout.add("observe", verb="restart", fingerprint=new)
    knob = checkout.knob
    assert knob.unverified_since == later.at and knob.unverified_why == "engine: sglang 0.5.22 -> sglang 0.5.23"
    assert f"  unverified since {later.at[:10]}: engine: sglang 0.5.22 -> sglang 0.5.23" in fold_lines(
        checkout.folded, [], TODAY
    )
    now = fold(checkout.reading.entries, {**old, "driver": "590"}).knobs[KNOB]
    assert now.unverified_why == "driver: 580.65 -> 590"
    checkout.measure(fingerprint=new)
    assert checkout.knob.unverified_since == ""
    # Since the next change after the measurement, not since one before it, nor since one that was an error.
    wrong = checkout.add("observe", verb="restart", fingerprint={**new, "engine": "sglang 9"})
    checkout.add("correct", refs=[wrong.id], said="another machine")
    assert checkout.knob.unverified_since == ""
    newest = checkout.add("observe", verb="restart", fingerprint=old)
    assert checkout.knob.unverified_since == newest.at


def test_figures_of_a_simulation_are_called_so_wherever_they_show(checkout):
    checkout.set()
    checkout.measure(simulation=True)
    checkout.measure("C96", 5.7, simulation=True, low_pct=4.0, high_pct=7.5)
    checkout.revert(forgoing=losses(checkout.knob.measured("512")))
    lines = [*fold_lines(checkout.folded, [], TODAY), *(entry_line(kept, {}) for kept in checkout.reading.entries)]
    for line in lines:
        assert ("%" in line) == ("(simulation)" in line), line
    assert "forgoing +12.8 % at C64, +5.7 % [+4, +7.5] at C96 (simulation)" in debt_lines(checkout.folded, TODAY)[0]


def test_ten_thousand_entries_fold_to_the_same_as_one_by_one(checkout):
    """The bench says how fast (bench/bench_record.py); here only that many entries are no other case."""
    first = checkout.set()
    content = json.loads(Path(checkout.top, "dsv4", first.file).read_text())
    entries = [first]
    for at in range(10_000):
        entries.append(
            first._replace(id=f"{at:016x}", data={**content, "knob": f"SGLANG_{at % 7}", "after": "1", "before": None})
        )
    begin = time.process_time()
    folded = fold(entries)
    assert time.process_time() - begin < 20
    assert len(folded.knobs) == 8 and len(folded.contradictions) == 10_000 - 7


def test_an_unset_knob_is_not_written_together_with_its_name(checkout):
    checkout.set()
    checkout.add("observe", knob=KNOB, instance="dsv4-decode", value=None)
    (found,) = checkout.folded.contradictions
    assert f" found {KNOB} unset on dsv4-decode, and the record had =512 there" in found
    (missed,) = against_scripts(fold(checkout.folded.entries[:1]), {"dsv4-decode": {}})
    assert f" has {KNOB} unset, and the record =512 since " in missed
    checkout.add("measure", knob=KNOB, value=None, load="C64", effect_pct=1, verdict="adopted")
    assert f" {KNOB} unset " in entry_line(checkout.folded.entries[-1], {})


@pytest.mark.parametrize(
    "value", ["redis://:p4ss" + "w0rdX@h:1", "x" * 5000, "redis://:p4ss" + "w0rdX@h:1/" + "y" * 4500]
)
def test_a_script_with_a_masked_or_long_value_is_what_the_record_has(checkout, value):
    checkout.set(value)
    folded = checkout.folded
    for there in (value, mask_text(value)):
        assert against_scripts(folded, {"dsv4-decode": {KNOB: there}}) == []
    (said,) = against_scripts(folded, {"dsv4-decode": {KNOB: "redis://:0ther" + "W0rd@g:1"}})
    assert "W0rd" not in said and "w0rdX" not in said and "=redis://:********@g:1" in said
    change = {"id": "c", "verb": "set", "state": "confirmed", "who": "a", "ended": "2099", "files": []}
    checkout.set(value, change_id="c")
    change["files"] = [{"instance": "dsv4-decode", "knobs": {KNOB: [None, value]}}]
    assert against_journal(checkout.folded, [change]) == []


def test_an_entry_that_somebody_forged_with_a_password_is_told_without_it(checkout):
    checkout.set("512")
    folded = checkout.folded
    folded.knobs[KNOB].deployed["dsv4-decode"] = "redis://:p4ss" + "w0rdX@h:1"
    assert "w0rdX" not in against_scripts(folded, {"dsv4-decode": {KNOB: "1"}})[0]

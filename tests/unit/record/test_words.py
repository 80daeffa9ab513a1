# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What people type becomes an entry, with what it refers to; what cannot be read is refused with what to type."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.record import reasons, words
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded

from .conftest import KNOB

TODAY = datetime.date(2026, 11, 29)


def test_a_measurement_as_people_type_it(checkout):
    apply = checkout.set()
    checkout.add("note", said="x")
    typed = {
        "kind": "measure",
        "knob": KNOB,
        "load": "C64",
        "effect": "+12.8 %",
        "interval": "14.7..10.9",
        "pairs": "4",
        "cv": 1.8,
    }
    assert words.entry_of(typed, checkout.folded) == {
        "kind": "measure", "knob": KNOB, "value": "512", "load": "C64", "effect_pct": 12.8, "low_pct": 10.9, "high_pct": 14.7,
        "pairs": 4, "cv_pct": 1.8, "refs": [apply.id],
    }  # fmt: skip
    for interval in ("[10.9, 14.7]", [10.9, "14.7"], "10.9 14.7", "10.9%, 14.7%"):
        entry = words.entry_of({**typed, "interval": interval}, checkout.folded)
        assert (entry["low_pct"], entry["high_pct"]) == (10.9, 14.7)
    assert words.entry_of({**typed, "interval": "-3..-1.5", "effect": "-2"}, checkout.folded)["low_pct"] == -3
    assert words.entry_of({**typed, "value": 512}, Folded())["value"] == "512"
    checkout.add(**{**words.entry_of(typed, checkout.folded), "kind": "measure"})


def test_judgements_refer_to_what_they_are_about_and_corrections_to_what_they_say(checkout):
    checkout.set()
    suspect = checkout.add("suspect", knob=KNOB, said="hang")
    revert = checkout.revert()
    triage = words.entry_of(
        {"kind": "triage", "knob": KNOB, "found": "upstream-proxy", "missing": "a,b"}, checkout.folded
    )
    assert triage["missing"] == ["a", "b"]
    entry = words.entry_of({"kind": "exonerate", "knob": KNOB, "cause": "proxy"}, checkout.folded)
    assert entry["refs"] == [suspect.id, revert.id]
    entry = words.entry_of({"kind": "correct", "entry": f"{suspect.id[:6]},{revert.id}", "why": "no"}, checkout.folded)
    assert entry["refs"] == [suspect.id, revert.id] and entry["said"] == "no"
    entry = words.entry_of({"kind": "observe", "knob": KNOB, "state": "absent", "instance": "i"}, checkout.folded)
    assert entry["value"] is None


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({}, "kind= is unknown; it must be one of propose, measure"),
        ({"kind": "mesure"}, "did you mean kind=measure?"),
        ({"kind": "apply", "knob": KNOB}, "kind=apply is written by set_knob.yml when it has done it"),
        ({"kind": "revert", "knob": KNOB}, "kind=revert is written by revert_knob.yml"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "effect": "1"}, "kind=measure needs load=; type for instance: ansible-playbook record.yml"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": "much"}, "effect=much is no number; type for instance effect=+12.8"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": True}, "effect=True is no number"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": 1, "interval": "3"}, "interval=3 is no interval"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": 1, "pairs": "-1"}, "pairs=-1 is no number of pairs"),
        ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": 1, "verdict": "good"}, "verdict=good is unknown"),
        ({"kind": "measure", "knob": KNOB, "value": True, "load": "C64", "effect": 1}, "is the boolean true"),
        ({"kind": "exonerate", "knob": KNOB}, "kind=exonerate needs cause="),
        ({"kind": "exonerate", "knob": KNOB, "cause": "x", "load": "C64"}, "kind=exonerate takes no load="),
        ({"kind": "suspect", "knob": "HF_TOKEN", "why": "x"}, "HF_TOKEN looks like a secret"),
        ({"kind": "suspect", "knob": "a b", "why": "x"}, "cannot be the name of a knob"),
        ({"kind": "correct", "why": "x"}, "kind=correct needs entry=ID"),
        ({"kind": "correct", "entry": "0123456", "why": "x"}, "there is no entry '0123456'"),
        ({"kind": "observe", "knob": KNOB, "state": "gone"}, "state=gone is unknown"),
        *(
            ({"kind": "measure", "knob": KNOB, "value": "1", "load": "C64", "effect": 12, **more}, said)
            for more, said in (
                ({"interval": "10-14"}, "interval=10-14 is no interval of percent; type for instance interval=10.9..14.7."),
                ({"interval": "10..14..15"}, "interval=10..14..15 is no interval"),
                ({"interval": "about 10 14"}, "is no interval"),
                ({"interval": "1e999..1e999"}, "is no interval"),
                ({"interval": "+10±4"}, "is no interval"),
                ({"effect": -50, "interval": "10..14"}, "the effect -50 is not within its interval 10..14"),
                ({"effect": "1e400"}, "effect=1e400 must be a number of percent, at most"),
                ({"effect": "9" * 400}, "must be a number of percent, at most"),
                ({"cv": -3}, "cv=-3 must be between 0 and"),
                ({"level": "95"}, "level=95 must be between 0 and 1"),
                ({"refs": True}, "refs=True names no entry; give ids, separated by commas"),
                ({"entry": {"a": 1}}, "names no entry"),
                ({"refs": 1.5}, "refs=1.5 names no entry"),
            )
        ),
        ({"kind": "triage", "found": "x", "confidence": -1}, "confidence=-1 must be between 0 and 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_what_to_type(typed, said):
    with pytest.raises(PdopsError) as told:
        words.entry_of(typed, Folded())
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("given", "text", "suspicion", "review"),
    [
        ({"reason": "suspicion"}, "suspicion", True, "2026-12-13"),
        ({"reason": "Suspected:  hangs\nat 512"}, "Suspected: hangs at 512", True, "2026-12-13"),
        ({"reason": "suspicion", "review_by": "3"}, "suspicion", True, "2026-12-02"),
        ({"reason": "suspicion", "review_by": "2026-12-01"}, "suspicion", True, "2026-12-01"),
        ({"reason": "suspicion", "review_by": 7}, "suspicion", True, "2026-12-06"),
        ({"reason": "memory"}, "memory", False, ""),
        ({"reason": "memory", "review_by": "30 days"}, "memory", False, "2026-12-29"),
    ],
)
def test_one_word_is_reason_enough_and_a_suspicion_has_to_be_reviewed(given, text, suspicion, review):
    assert reasons.check("revert", given, TODAY) == reasons.Reason(text, suspicion, review)


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("revert", {"knob": KNOB}, "revert_knob needs a reason: add -e reason=suspicion (then it shows as debt"),
        ("revert", {"knob": KNOB}, f"ansible-playbook revert_knob.yml -e knob={KNOB}"),
        ("revert", {"reason": "WHY"}, "-e reason=WHY says nothing"),
        ("revert", {"reason": "suspicion", "review_by": "soon"}, "review_by=soon is no day: type it as 2026-12-13"),
        ("revert", {"reason": "suspicion", "review_by": "2026-11-28"}, "review_by=2026-11-28 is over; today is 2026-11-29"),
        ("restart", {"review_by": "3"}, "review_by=3 belongs to a revert"),
        ("restart", {"reason": "x", "review_by": "3"}, "review_by=3 belongs to revert_knob.yml; restart takes none"),
    ],
)  # fmt: skip
def test_a_revert_without_a_reason_is_refused_with_what_to_type(verb, given, said):
    with pytest.raises(PdopsError) as told:
        reasons.check(verb, given, TODAY)
    assert said in str(told.value)


def test_other_verbs_need_no_reason():
    assert reasons.check("restore", {"knob": KNOB}, TODAY) is None
    assert reasons.check("set", {"reason": "try more"}, TODAY) == reasons.Reason("try more", False, "")


def test_a_misspelled_knob_gets_no_history_of_its_own(checkout):
    checkout.set()
    typed = {"kind": "suspect", "knob": KNOB[:-1], "why": "x"}
    with pytest.raises(PdopsError, match=rf"did you mean {KNOB}\? .*add -e new_knob=yes"):
        words.entry_of(typed, checkout.folded)
    assert words.entry_of({**typed, "new_knob": "yes"}, checkout.folded)["knob"] == KNOB[:-1]
    assert words.entry_of({**typed, "knob": "SGLANG_LOG_MS"}, checkout.folded)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What verify.yml and probe.yml find: once in the record and once in the machine's journal, until it is over."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.record import findings
from ansible_collections.pdops.sglang.plugins.module_utils.record.joining import findings_gone
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import fold_lines, open_lines
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from .conftest import KNOB

SAID = "dsv4-decode: gate health failed after {} s: 503 by pid {}"
FIRST = SAID.format("3.0", 4711)


def found(checkout, said=FIRST, verb="verify", place=("gate health", "dsv4-decode")):
    done = {"verb": verb, "outcome": "found", "finding": {"found": place[0], "instance": place[1], "said": said}}
    return [checkout.add(**entry) for entry in findings.entries_of(done, checkout.folded)]


def held(checkout, verb="verify", *asked):
    done = {"verb": verb, "outcome": "held", "held": list(asked)}
    return [checkout.add(**entry) for entry in findings.entries_of(done, checkout.folded)]


def test_a_finding_is_written_once_and_again_when_it_is_another_or_came_back(checkout):
    (first,) = found(checkout)
    assert first.data == {**first.data, "kind": "observe", "verb": "verify", "found": "gate health"}
    assert found(checkout, SAID.format("7.25", 99)) == []
    (line,) = open_lines(checkout.folded)
    assert SAID.format("3.0", 4711) in line and f"finding: {line}" in fold_lines(checkout.folded, [], "2026-11-29")
    (other,) = found(
        checkout, f"dsv4-decode: gate effective failed: {KNOB}=512", place=("gate effective", "dsv4-decode")
    )
    assert other.refs == [first.id]
    # Another value is another finding: only times, pids and the like do not count.
    assert found(checkout, f"dsv4-decode: gate effective failed: {KNOB}=256", place=("gate effective", "dsv4-decode"))
    assert len(checkout.folded.findings) == 1
    (over,) = held(checkout)
    assert over.data["said"] == "found no more: gate effective of dsv4-decode" and held(checkout) == []
    assert open_lines(checkout.folded) == [] and found(checkout) != []


@pytest.mark.parametrize(("outcome", "again"), [("rolled-back", 1), ("rollback-failed", 0), ("not-known", 0)])
def test_a_change_that_ended_with_every_gate_passed_makes_the_same_finding_worth_telling(checkout, outcome, again):
    found(checkout)
    checkout.add("rollback", outcome=outcome, change_id="c-1", reason="x")
    assert len(found(checkout)) == again


def test_a_probe_that_asked_less_does_not_end_what_a_longer_way_had(checkout):
    found(checkout, "dsv4: round 5 of 24: the proxy gave no first byte", "probe", ("hop proxy", ""))
    assert found(checkout, "dsv4: round 7 of 24: the proxy gave no first byte", "probe", ("hop proxy", "")) == []
    assert held(checkout, "probe", "hop router", "hop pair") == [] and held(checkout) == []
    assert len(held(checkout, "probe", "hop proxy", "hop router", "hop pair")) == 1


def test_what_a_person_observed_is_no_finding(checkout):
    checkout.add("observe", found="x", said="y")
    assert checkout.folded.findings == {}


def line(verb="found", **more):
    base = {"verb": verb, "by": "verify", "deployment": "dsv4", "actor": "alice on ops1"}
    if verb == "found":
        base.update(instance="dsv4-decode", found="gate health", said=SAID.format("3.0", 4711))
    return {**base, **more}


def test_the_journal_has_a_finding_once_until_it_is_over_or_a_change_ended_well(tmp_path):
    store = Store(str(tmp_path / "state"))
    secret = "hf_AbCdEfGhIjKlMnOp" + "QrStUv"
    assert findings.note(store, line(said=f"401 with --api-key {secret}"), dry=True) and store.journal() == []
    assert findings.note(store, line(said=f"401 with --api-key {secret}", entry="0" * 16))
    assert not findings.note(store, line(said=f"401 with --api-key {secret}"))
    (row,) = store.journal()
    assert secret not in str(row) and row["entry"] == "0" * 16 and row["at"]
    assert findings.note(store, line()) and not findings.note(store, line(said=SAID.format("9", 1)))
    # Of another deployment on the same machine, and of another verb, it is another one.
    assert findings.note(store, line(deployment="other")) and findings.note(store, line(by="probe"))
    assert findings.note(store, line("over")) and not findings.note(store, line("over"))
    assert findings.note(store, line())
    store.write_journal({"verb": "confirm", "deployment": "dsv4", "change_id": "c"})
    assert findings.note(store, line()) and findings.note(store, {**line("registered"), "by": "register"})


def test_the_entry_of_a_finding_that_was_deleted_is_missed_by_the_journal(checkout):
    (kept,) = found(checkout)
    rows = [{"at": "T", "actor": "alice", "said": "x", "entry": kept.id}, {"said": "no entry could be written"}]
    assert findings_gone(checkout.folded, rows) == []
    (said,) = findings_gone(checkout.folded, [{**rows[0], "entry": "f" * 16}])
    assert f"the record has no entry {'f' * 16}: was it deleted" in said

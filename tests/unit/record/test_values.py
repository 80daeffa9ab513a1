# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A verdict belongs to a knob and a value: what is suspected of one value is not suspected of the next, and is not forgotten."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.record import planned
from ansible_collections.pdops.sglang.plugins.module_utils.record.data import knob_data
from ansible_collections.pdops.sglang.plugins.module_utils.record.prose import Line, findings_of
from ansible_collections.pdops.sglang.plugins.module_utils.record.regions import render
from ansible_collections.pdops.sglang.plugins.module_utils.record.text import (
    debt_lines,
    fold_lines,
    losses,
    suspicion_lines,
)
from ansible_collections.pdops.sglang.plugins.module_utils.record.words import entry_of

from .conftest import KNOB

TODAY = "2026-11-29"


def verdicts(checkout):
    return {value: one.verdict for value, one in checkout.knob.standings.items()}


def test_a_suspicion_leaves_with_its_value_stays_in_sight_and_comes_back_with_it(checkout):
    checkout.set()
    checkout.measure()
    suspect = checkout.add("suspect", knob=KNOB, said="an agent hung")
    assert len(suspicion_lines(checkout.folded)) == 1
    checkout.set("256", "512")
    assert (checkout.knob.value, checkout.knob.verdict) == ("256", "trial")
    assert verdicts(checkout) == {"512": "suspected", "256": "trial"} and suspicion_lines(checkout.folded) == []
    lines = fold_lines(checkout.folded, [], TODAY)
    assert lines[0] == f"{KNOB}: 256 on dsv4-decode; verdict trial (=256)"
    assert f"  512 is suspected (an agent hung) [evidence:{suspect.id}]" in lines
    assert f"- 512 is suspected (an agent hung) [evidence:{suspect.id}]" in render(f"knob knob={KNOB}", checkout.folded)
    assert knob_data(checkout.knob, TODAY)["verdicts"][0] == {
        "value": "512",
        "verdict": "suspected",
        "cause": "an agent hung",
    }
    edit = {"instance": "dsv4-decode", "knob": KNOB, "before": "256", "after": "512"}
    assert planned.lines_of(checkout.folded, [], "set", [edit], [], None, TODAY)[0] == (
        f"note: {KNOB}=512 is suspected (an agent hung); see ansible-playbook record.yml -e knob={KNOB}"
    )
    checkout.set("512", "256")
    assert checkout.knob.verdict == "suspected" and len(suspicion_lines(checkout.folded)) == 1


def test_the_debt_of_a_value_outlasts_other_values_and_their_reverts_until_it_is_resolved(checkout):
    checkout.set()
    checkout.measure()
    checkout.revert(forgoing=losses(checkout.knob.measured("512")))
    checkout.set("256")
    checkout.set(None, "256", "revert", reason="suspicion", suspicion=True, review_by="2026-12-20")
    first, second = debt_lines(checkout.folded, TODAY)
    assert first.startswith(f"{KNOB}=512 reverted") and "forgoing +12.8 % at C64; review by 2026-12-13" in first
    assert second.startswith(f"{KNOB}=256 reverted") and f"-e knob={KNOB} -e value=256 -e cause=WHAT" in second
    assert knob_data(checkout.knob, TODAY)["debt"] == f"{first}; {second}"

    checkout.add(**entry_of({"kind": "exonerate", "knob": KNOB, "value": 512, "cause": "proxy"}, checkout.folded))
    assert verdicts(checkout) == {"512": "exonerated", "256": "suspected"}
    assert "exonerated (proxy), yet not restored" in debt_lines(checkout.folded, TODAY)[0]
    checkout.add(**entry_of({"kind": "convict", "knob": KNOB, "value": 256, "cause": "hangs"}, checkout.folded))
    (only,) = debt_lines(checkout.folded, TODAY)
    assert f"restore_knob.yml -e knob={KNOB} -e value=512" in only
    checkout.set(kind="restore")
    assert checkout.folded.debts == [] and checkout.knob.verdict == "adopted" and checkout.folded.contradictions == []
    assert verdicts(checkout)["256"] == "convicted"


def test_a_judgement_is_about_the_value_that_is_suspected_and_says_which_when_there_are_several(checkout):
    checkout.set()
    suspect = checkout.add("suspect", knob=KNOB, said="hang")
    checkout.set("256", "512")
    one = entry_of({"kind": "exonerate", "knob": KNOB, "cause": "proxy"}, checkout.folded)
    assert one["value"] == "512" and one["refs"] == [suspect.id]
    checkout.add("suspect", knob=KNOB, said="slow", value="256")
    checkout.set("128", "256")
    with pytest.raises(
        PdopsError, match=r"several values that wait for a judgement \(512 and 256\): say which with value="
    ):
        entry_of({"kind": "exonerate", "knob": KNOB, "cause": "proxy"}, checkout.folded)
    # An entry of a former version has no value: what it refers to tells.
    checkout.add("exonerate", knob=KNOB, cause="proxy", refs=[suspect.id])
    assert verdicts(checkout) == {"512": "exonerated", "256": "suspected", "128": "trial"}
    checkout.add("convict", knob=KNOB, cause="hangs")
    assert verdicts(checkout)["256"] == "convicted" and checkout.folded.contradictions == []


@pytest.mark.parametrize("kind", ["apply", "restore"])
def test_a_convicted_value_that_comes_back_is_named_whatever_brings_it(checkout, kind):
    checkout.set()
    checkout.measure()
    checkout.add("convict", knob=KNOB, cause="hangs")
    checkout.set("256", "512")
    assert "forgone" not in "".join(fold_lines(checkout.folded, [], TODAY))
    checkout.set("512", "256", kind=kind)
    (said,) = checkout.folded.contradictions
    assert said.startswith(f"{kind} ") and f"brought {KNOB}=512 back, and it is convicted (hangs)" in said


def test_prose_that_names_a_value_is_held_to_what_is_known_of_that_one(checkout):
    checkout.set()
    checkout.add("suspect", knob=KNOB, said="hang")
    newest = checkout.set("256", "512")

    def said(text):
        return [one.said for one in findings_of([Line(1, f"{text} [evidence:{newest.id}]")], checkout.folded)]

    assert said(f"`{KNOB}=512` might cause the hang.") == []
    assert said(f"`{KNOB}=512` causes the hang.") == [
        f"blames {KNOB} as if it were proved, and the record only suspects it"
    ]
    assert said(f"`{KNOB}=256` might cause the hang.") == [f"blames {KNOB}, and the record says trial"]

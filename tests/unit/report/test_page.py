# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The page of every kind of story: valid, self-contained, escaped, masked; and the lines for a terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.report.files import report_name
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import console_lines, make_view
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import ABSENT
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pages import NAMES, page_of, story

from tests.html_page import Page

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
BACK = f"ansible-playbook revert_knob.yml -l lab -e knob={KNOB} -e instance=lab-decode -e reason=WHY"
AGAIN = f"ansible-playbook restore_knob.yml -l lab -e knob={KNOB} -e instance=lab-decode"


def odd_story():
    """Everything that must not get through, everywhere."""
    bad = "<script>alert('x')</script> & \"quoted\" \x1b[31mred\x1b[0m \x00\u202e\ud800 http://evil.example/x.js"
    secret = "sk-NeverShowThis-42"
    event = {
        "kind": bad,
        "instance": bad,
        "machine": bad,
        "began": 10.0,
        "ended": 20.0,
        "result": "failed",
        "said": bad,
    }
    gate = {
        "gate": bad,
        "result": bad,
        "said": bad,
        "evidence": {"api_key": secret, bad: [bad, {"x": bad}]},
        "seconds": "x",
    }
    return {
        "deployment": bad,
        "verb": bad,
        "who": bad,
        "change_id": bad,
        "said": f"{bad} --api-key {secret}",
        "outcome": "failed",
        "plan": {
            "summary": bad,
            "edits": [{"instance": bad, "path": bad, "knob": bad, "changed_lines": [{"sign": "+", "line": bad, "text": bad}]}],
            "restart": [bad],
            "why": {bad: bad},
            "warnings": [bad, f"the bare {secret}"],
        },
        "instances": [{"name": bad, "role": bad}],
        "events": [
            {**event, "gates": [gate], "kind": "gates", "log_tail": [bad, f"export HF_TOKEN={secret}", secret]},
            {**event, "kind": "probe", "answers": [{"kind": bad, "hop": bad, "verdict": bad, "said": bad, "x": secret}]},
            {**event, "kind": "probe", "conversation": {"said": bad, "rounds": [{"round": bad, "series": bad, "verdict": "failed"}]}},
            {**event, "kind": "apply", "versions": [{"instance": bad, "path": bad, "before": bad, "after": bad, "label": bad}]},
            {**event, "kind": "rollback", "steps": [{"at": "1970-01-01T00:00:12Z", "step": "start", "instance": bad, "said": bad}]},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("name", [*NAMES, "odd", "empty"])
def test_the_page_is_balanced_and_loads_nothing(name):
    given = {"odd": odd_story, "empty": dict}.get(name, lambda: story(name))()
    source = page_of(given)
    page = Page(source)
    assert source.startswith("<!DOCTYPE html>")
    page.assert_whole()
    ids = [attributes["id"] for _tag, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    # What a text alternative names must be there.
    for _tag, attributes in page.tags:
        assert set((attributes.get("aria-labelledby") or "").split()) <= set(ids)
    for tag, attributes in page.tags:
        if tag == "svg" and attributes.get("role") == "img":
            assert attributes.get("aria-labelledby") or attributes.get("aria-label")
    assert len(source) < 120_000


def test_nothing_gets_through():
    source = page_of(odd_story())
    page = Page(source)
    assert "NeverShowThis" not in source
    assert "NeverShowThis" not in " ".join(console_lines(make_view(odd_story())))
    assert "<script" not in source and "<script>alert('x')</script>" in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", source)
    assert "[31m" not in source
    assert page.text.count("********") >= 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "confirmed",
            ["✓ Confirmed", f"restored {KNOB}=512 on decode", "1 line differs", "outage 16 s", BACK, "in place now"],
        ),
        (
            "rolled-back-gate",
            ["↩ Rolled back", "lab-router, gate completion", "finish_reason is 'error'", AGAIN, "outage 29 s"],
        ),
        (
            "rolled-back-start",
            ["↩ Rolled back", "start lab-decode", "died at once after its start", "RuntimeError: simulated"],
        ),
        ("check", ["◦ Check only", "would have restored", "What would change", AGAIN]),
        ("nothing", ["– Nothing to do", "nothing to restore", "ansible-playbook verify.yml -l lab"]),
        ("refused", ["⊘ Refused", "Why it was refused", "differs in more than", "WAITING_TIMEOUT=600"]),
        ("probe-failed", ["✕ Failed", "round 5 of 24", "the same round by router", "✕ 5"]),
        (
            "probe-passed",
            ["✓ passed", "chat, streamed", "kept connection: 4 passed", "nothing was changed", "of simulated engines"],
        ),
    ],
)
def test_each_outcome_says_what_an_operator_needs(name, words):
    text = Page(page_of(story(name))).text
    for word in words:
        assert word in text


def test_a_probe_that_passed_is_not_called_nothing():
    given = {**story("probe-passed"), "verb": "probe", "outcome": "passed"}
    (first, *_rest) = console_lines(make_view(given))
    assert first.startswith("passed: 24 requests by ")
    assert report_name(given).endswith("-probe-passed.html")
    page = Page(page_of(given)).text
    assert "✓ Passed" in page and "nothing was changed" in page
    # What the playbook says is an outcome that the report knows.
    said = re.search(
        r"outcome: .*?'(\w+)' if probe_found",
        (Path(__file__).resolve().parents[3] / "playbooks/tasks/probe.yml").read_text(),
    )
    assert said and said[1] == "passed"


@pytest.mark.parametrize(
    ("outcome", "old", "new"),
    [("confirmed", "the old script is kept", "was not there"), ("rolled-back", "back byte", "gone again")],
)
def test_of_a_first_deploy_no_old_script_is_told(outcome, old, new):
    events = [{"kind": "apply", "began": 1.0, "ended": 2.0}]
    edits = [
        {"instance": "decode", "path": "/s", "sha256_before": ABSENT},
        {"instance": "decode", "path": "/u", "sha256_before": ABSENT},
    ]
    given = {"verb": "deploy", "outcome": outcome, "events": events, "plan": {"edits": edits}}
    first = make_view(given)["consequence"]
    assert old not in first and new in first
    given["plan"] = {"edits": [edits[0], {**edits[1], "sha256_before": "f097ba"}]}
    assert old in make_view(given)["consequence"]


@pytest.mark.parametrize("name", ["confirmed", "rolled-back-gate", "rolled-back-start", "probe-passed"])
def test_figures_of_the_lab_are_called_those_of_a_simulation(name):
    assert "those of a simulation" in Page(page_of(story(name))).text
    real = json.loads(json.dumps(story(name)).replace("-simulation", ""))
    assert "those of a simulation" not in Page(page_of(real)).text
    assert "those of a simulation" in Page(page_of({**real, "simulation": True})).text


@pytest.mark.parametrize("name", NAMES)
def test_the_console_tells_the_same_in_few_lines(name):
    view = make_view(story(name))
    lines = console_lines(view)
    assert 2 <= len(lines) <= 6
    assert lines[0].startswith(view["outcome"]["name"].lower())
    assert "ansible-playbook" in lines[-1]


def test_of_a_confirmed_change_the_console_shows_the_way_back_and_of_a_failed_one_the_cause():
    assert console_lines(make_view(story("confirmed")))[-1].endswith(BACK)
    lines = console_lines(make_view(story("rolled-back-gate")))
    assert lines[0] == f"rolled back: not restored {KNOB}=512 on decode"
    assert "  gates: 13 passed, 1 not observable, 1 failed" in lines
    assert "  why: lab-router, gate completion: completion 200, but finish_reason is 'error'" in lines


def test_the_difference_has_the_lines_around_it_and_both_numbers():
    rows = make_view(story("confirmed"))["edits"][0]["rows"]
    assert [row["sign"] for row in rows].count("+") == 1
    (added,) = [row for row in rows if row["sign"] == "+"]
    assert added["text"].startswith(f"export {KNOB}=512") and added["after"] == "11" and added["before"] == ""
    assert rows[0] == {
        "sign": " ",
        "before": "9",
        "after": "9",
        "text": "export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=20",
    }


def test_lost_requests_are_counted_only_when_somebody_counted():
    given = story("confirmed")
    assert "Requests lost" not in Page(page_of(given)).text
    stops = [event for event in given["events"] if event["kind"] == "stop"]
    stops[0]["lost"], stops[1]["lost"] = 0, 3
    assert "Requests lost 3" in Page(page_of(given)).text
    assert "requests lost 3" in console_lines(make_view(given))[1]


def test_versions_say_which_one_is_in_place():
    for name, place in (("confirmed", "after"), ("rolled-back-gate", "before"), ("check", "before")):
        (row,) = make_view(story(name))["versions"]
        assert row["now"] == place and len(row["before"]) == len(row["after"]) == 64
    broken = {**story("rolled-back-gate"), "outcome": "rollback-failed"}
    assert make_view(broken)["versions"][0]["now"] == ""


_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(
    ["stop", "gates", "failed", "2026-11-29T20:06:14Z", "lab-decode", "passed", "confirmed"]
)  # fmt: skip
_keys = st.sampled_from(
    [
        "deployment", "verb", "outcome", "said", "plan", "events", "instances", "edits", "diff", "before", "after", "changed_lines",
        "sign", "line", "text", "kind", "instance", "began", "ended", "gates", "gate", "result", "evidence", "seconds", "steps", "at",
        "step", "versions", "answers", "conversation", "rounds", "tried", "log_tail", "lost", "restart", "why", "name", "role", "source",
    ]
)  # fmt: skip
_anything = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=6), max_leaves=30
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_keys, _anything, max_size=12))
@example({"plan": {"restart": [[]]}})
def test_odd_parts_never_break_the_page(given):
    Page(page_of(given))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_real_story_with_parts_missing_or_odd_still_gives_a_page(data):
    """Of a real story any part, at any depth, is taken out or replaced."""
    given = story(data.draw(st.sampled_from(NAMES)))
    for _turn in range(4):
        at = given
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans()):
                at = at[key]
                continue
            if data.draw(st.booleans()):
                del at[key]
            else:
                at[key] = data.draw(_leaves)
            break
    Page(page_of(given))

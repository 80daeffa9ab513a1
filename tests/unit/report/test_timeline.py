# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Bars where the time was, and the outage as long as it could have been."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change import who
from ansible_collections.pdops.sglang.plugins.module_utils.change.inheriting import inherit
from ansible_collections.pdops.sglang.plugins.module_utils.report.outage import outage_of
from ansible_collections.pdops.sglang.plugins.module_utils.report.story import read_story
from ansible_collections.pdops.sglang.plugins.module_utils.report.timeline import FITS, timeline
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import console_lines, make_view
from ansible_collections.pdops.sglang.plugins.module_utils.report.wording import duration
from ansible_collections.pdops.sglang.plugins.module_utils.story_events import events_of
from pages import NAMES, ROOT_STYLE, story

TRIO = [{"name": f"x-{role}", "role": role} for role in ("prefill", "decode", "router")]


def event(kind, instance="", began=0.0, ended=0.0, **more):
    return {"kind": kind, "instance": instance, "began": 1000.0 + began, "ended": 1000.0 + ended, **more}


def drawn(events, instances=TRIO, outcome="confirmed", began=0.0, ended=100.0):
    given = {
        "instances": instances,
        "events": events,
        "outcome": outcome,
        "began": 1000.0 + began,
        "ended": 1000.0 + ended,
    }
    return timeline(read_story(given))


def bars(line, name):
    (lane,) = [lane for lane in line["lanes"] if lane["name"] == name]
    return [(bar["kind"], round(bar["x"]), round(bar["width"])) for bar in lane["bars"]]


def gate(name, seconds, result="passed"):
    return {"gate": name, "result": result, "said": "", "seconds": seconds}


def test_a_restart_is_stop_down_start_and_gates_at_their_times():
    line = drawn(
        [
            event("stop", "x-decode", 10, 20),
            event("start", "x-decode", 40, 50),
            event("gates", "x-decode", 50, 90, gates=[gate("unit", 10), gate("health", 20)]),
        ]
    )
    assert bars(line, "x-decode") == [
        ("stop", 10, 10),
        ("down", 20, 20),
        ("start", 40, 10),
        ("way", 50, 40),
        ("passed", 50, 10),
        ("passed", 60, 20),
    ]
    assert [lane["name"] for lane in line["lanes"]] == ["x-decode"]  # nothing happened to the others


def test_gates_are_never_drawn_beyond_their_event_and_share_what_was_not_measured():
    line = drawn([event("gates", "x-router", 0, 50, gates=[gate("unit", 40), gate("port", 60)])])
    assert bars(line, "x-router")[1:] == [("passed", 0, 20), ("passed", 20, 30)]
    line = drawn(
        [event("gates", "x-router", 0, 50, gates=[gate("unit", 10), gate("port", None), gate("health", None)])]
    )
    assert bars(line, "x-router")[1:] == [("passed", 0, 10), ("passed", 10, 20), ("passed", 30, 20)]


def test_what_stays_down_is_drawn_as_down_to_the_end():
    line = drawn([event("stop", "x-router", 0, 10), event("rollback", "", 60, 90, steps=[])], outcome="rollback-failed")
    assert bars(line, "x-router") == [("stop", 0, 10), ("down", 10, 90)]


def test_the_way_back_is_drawn_from_the_steps_of_the_guard():
    line = timeline(read_story(story("rolled-back-gate")))
    titles = [bar["title"] for bar in next(lane for lane in line["lanes"] if lane["name"] == "lab-decode")["bars"]]
    assert any(title.startswith("stop (rollback)") for title in titles)
    assert any(title.startswith("start (rollback) 4.0 s") for title in titles)
    assert [mark["text"] for mark in line["marks"]] == ["begin", "apply", "rollback"]


def test_the_outage_is_from_the_first_stop_to_the_last_proof():
    stop, proof = event("stop", "x-router", 10, 12), event("gates", "x-router", 50, 70, gates=[gate("router", 20)])
    given = {"instances": TRIO, "outcome": "confirmed", "events": [stop, proof]}
    assert outage_of(read_story(given)).seconds == 60
    assert outage_of(read_story({**given, "outcome": "rollback-failed"})).seconds is None  # not over
    back = {**given, "outcome": "rolled-back", "events": [*given["events"], event("rollback", "", 80, 95)]}
    assert outage_of(read_story(back)).seconds == 85
    assert outage_of(read_story({**given, "events": [proof]})) is None


def test_what_an_interrupted_change_had_stopped_counts_from_then_on():
    former = rules.with_step(made_record("one-1"), "stop", "x-router", "", "2026-11-29T16:00:30Z")
    between = inherit(made_record("two-2"), former)
    mine = inherit(made_record("three-3"), between)  # taken over twice: what the first one stopped is still out
    at = 1795968030.0  # 16:00:30
    begun = {"kind": "begin", "began": at + 20, "ended": at + 21, "change": rules.summary_of(mine)}
    events = [
        *events_of([begun]),
        {"kind": "stop", "instance": "x-router", "began": at + 26, "ended": at + 27},
        {"kind": "gates", "instance": "x-router", "began": at + 40, "ended": at + 62, "gates": [gate("router", 20)]},
    ]
    given = {"instances": TRIO, "outcome": "confirmed", "events": events}
    assert outage_of(read_story(given)).seconds == 62
    assert "outage 62 s from the first stop of the interrupted change on" in "\n".join(console_lines(make_view(given)))
    twins = [*TRIO, {"name": "x-router-1", "role": "router"}]
    assert outage_of(read_story({**given, "instances": twins})) is None
    alone = {**given, "events": [{**events[0], "out_before": []}, *events[1:]]}
    assert outage_of(read_story(alone)).seconds == 36
    assert "interrupted" not in "\n".join(console_lines(make_view(alone)))


def made_record(change_id):
    return rules.new_record(
        change_id, "x", "restart", "restart", who.this_process("alice"), [], [], 60.0, "2026-11-29T16:00:00Z"
    )


def test_a_decode_with_a_twin_can_be_stopped_without_an_outage():
    twins = [*TRIO, {"name": "x-decode-1", "role": "decode"}]
    stop = event("stop", "x-decode", 10, 12)
    given = {"instances": twins, "outcome": "confirmed", "events": [stop, event("gates", "x-decode", 20, 30)]}
    assert outage_of(read_story(given)) is None
    assert outage_of(read_story({**given, "instances": TRIO})).seconds == 20


@pytest.mark.parametrize("name", NAMES)
def test_all_is_inside_of_the_plot_and_labels_fit(name):
    line = timeline(read_story(story(name)))
    if line is None:
        assert not story(name)["events"]
        return
    for lane in line["lanes"]:
        for bar in lane["bars"]:
            assert bar["x"] >= 0 and bar["x"] + bar["width"] <= 100.001 and bar["width"] > 0
            for label in bar["labels"]:
                assert label["from"] in FITS
                assert len(label["text"]) * 6.3 < label["from"] * bar["width"] / 100
    assert all(0 <= mark["x"] <= 100 for mark in line["marks"])
    assert 2 <= len(line["ticks"]) <= 10
    assert all(lane["name"] in line["told"] for lane in line["lanes"])


@pytest.mark.parametrize("span", [0.01, 0.4, 3, 59, 61, 600, 4000, 90000])
def test_the_axis_has_few_round_ticks_for_any_span(span):
    ticks = drawn([event("stop", "x-decode", 0, span / 2)], ended=span)["ticks"]
    assert 1 <= len(ticks) <= 11
    assert ticks[0]["text"] == "0 s"


def test_the_style_sheet_knows_the_widths_of_labels():
    for width in FITS:
        assert f"(min-width: {width}px) {{ .from-{width}" in ROOT_STYLE.read_text()


def test_durations_in_words():
    shown = [duration(seconds) for seconds in (None, 0.04, 9.94, 9.96, 119.4, 120, 3599, 3661, -1)]
    assert shown == ["", "0.0 s", "9.9 s", "10 s", "119 s", "2 min 00 s", "59 min 59 s", "1 h 01 min", "0.0 s"]

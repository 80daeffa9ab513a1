# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a plan expects, by the records of former changes."""

from __future__ import annotations

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils.change.timings import NEWEST, timings
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.expected import cost_lines
from ansible_collections.pdops.sglang.plugins.module_utils.plan import Plan
from ansible_collections.pdops.sglang.plugins.module_utils.report.outage import seconds_to_expect
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import console_lines, make_view

ROLES = ("prefill", "decode", "router")
INSTANCES = [
    Instance(role, role, role, f"/{role}.sh", f"http://127.0.0.1:{n + 1}", "m", load_timeout_s=900.0 - n)
    for n, role in enumerate(ROLES)
]


def at(second: int) -> str:
    return f"2026-11-29T10:{second // 60:02}:{second % 60:02}Z"


def change(number: int, ended: int, state: str = "confirmed", touched: tuple[str, ...] = ROLES) -> dict[str, Any]:
    steps = [("apply", "", 2), ("stop", "router", 10), ("stop", "decode", 12), ("start", "decode", 20)]
    if state == "rolled-back":
        steps += [("files", "", 100), ("stop", "router", 101)]
    return {
        "id": f"change-{number}",
        "state": state,
        "touched": list(touched),
        "steps": [{"step": step, "instance": name, "said": "", "at": at(second)} for step, name, second in steps],
        "ended": at(ended),
    }


def lines(records: list[dict[str, Any]], restart: tuple[str, ...] = ROLES) -> str:
    infos = [{"instances": {role: {} for role in ROLES}, "timings": timings(records)}]
    return "\n".join(cost_lines(Plan("lab", "set", "s", restart=restart), INSTANCES, infos, 60.0, 15.0))


def test_an_outage_is_from_the_first_stop_to_the_end_and_a_rollback_from_its_begin() -> None:
    rows = timings([change(1, 40), change(2, 130, "rolled-back"), change(3, 55)])
    assert [(row["change"], row["kind"], row["seconds"]) for row in rows] == [
        ("change-3", "outage", 45.0),
        ("change-2", "rollback", 30.0),
        ("change-1", "outage", 30.0),
    ]
    assert "expected outage: 30 to 45 s, as in the last 2 changes" in lines([change(1, 40), change(3, 55)])


def test_what_is_expected_is_what_the_report_of_the_last_one_measured() -> None:
    """The steps of a record have whole seconds, and go on to the confirmation, when requests were answered already."""
    events = [
        {"kind": "stop", "instance": "router", "began": 100.2, "ended": 100.4, "result": "ok"},
        {"kind": "stop", "instance": "decode", "began": 100.4, "ended": 101.0, "result": "ok"},
        {"kind": "gates", "instance": "router", "began": 106.0, "ended": 107.6, "result": "ok"},
    ]
    members = [{"name": role, "role": role} for role in ROLES]
    measured = seconds_to_expect(events, members)
    story = {"outcome": "confirmed", "events": events, "instances": members}
    assert "outage 7.4 s" in "\n".join(console_lines(make_view(story)))
    told = lines([{**change(1, 40), "outage_s": measured}])
    assert "expected outage: 7.4 s, as in the last change" in told
    assert "expected outage: 7.4 to 30 s" in lines([{**change(1, 40), "outage_s": measured}, change(2, 40)])
    assert "expected outage: 30 s to 2 min 30 s" in lines([change(1, 40), change(2, 160)])


def test_an_outage_that_began_in_an_interrupted_change_is_not_expected_again() -> None:
    before = [{"at": "2026-11-29T10:00:00Z", "step": "stop", "instance": "router", "said": ""}]
    begun = {"kind": "begin", "began": 1796034600.0, "ended": 1796034600.0, "result": "ok", "out_before": before}
    proof = {"kind": "gates", "instance": "router", "began": 1796034620.0, "ended": 1796034630.0, "result": "ok"}
    assert seconds_to_expect([begun, proof], [{"name": "router", "role": "router"}]) is None
    assert seconds_to_expect([proof], [{"name": "router", "role": "router"}]) is None


def test_only_what_ended_well_and_restarted_something_counts_and_only_the_newest() -> None:
    assert timings([change(1, 40, touched=()), change(2, 40, "superseded"), change(3, 40, "rollback-failed")]) == []
    assert timings([{**change(1, 40), "ended": "?"}, change(2, 5)]) == []
    assert len(timings([change(number, 40) for number in range(9)])) == NEWEST


def test_a_restart_of_something_else_says_nothing() -> None:
    told = lines([change(1, 40, touched=("router",))])
    assert "expected outage: not known" in told and "at most 2697 s of loading" in told
    assert "expected outage: 30 s, as in the last change" in lines([change(1, 40, touched=("router",))], ("router",))


def test_the_worst_case_is_the_longest_lease_and_the_way_back() -> None:
    assert "at most 975 s until its lease is over (in a load; else 75 s)" in lines([])
    assert "loads all again, at most 2697 s" in lines([])
    assert "which took 30 s here" in lines([change(2, 130, "rolled-back")])
    assert lines([], restart=()) == ""


def test_of_a_rolling_restart_no_outage_is_expected_and_other_machines_do_not_count() -> None:
    record = {**change(1, 70), "scope": "rolling", "elsewhere": [{"name": "decode"}]}
    assert timings([record]) == [
        {"kind": "rolling", "restarted": ["prefill", "router"], "seconds": 60.0, "change": "change-1"}
    ]
    plan = Plan("lab", "restart", "", restart=("decode",), scope="rolling")
    infos = [{"instances": {"decode": {}}, "timings": [{"kind": "rolling", "restarted": ["decode"], "seconds": 60.0}]}]
    assert "expected outage: none" in cost_lines(plan, INSTANCES, infos, 60, 15)[0]
    assert "it takes 60 s, as before" in cost_lines(plan, INSTANCES, infos, 60, 15)[0]

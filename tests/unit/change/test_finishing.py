# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Plans that deal with a former change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.asked import read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plan import Plan
from ansible_collections.pdops.sglang.plugins.module_utils.planning import decide

ROLES = ("prefill", "decode", "router")
INSTANCES = [
    Instance(role, role, role, f"/{role}.sh", f"http://127.0.0.1:{n + 1}", "m") for n, role in enumerate(ROLES)
]
FILE = {"instance": "decode", "path": "/decode.sh", "sha256_before": "a" * 64, "sha256_after": "b" * 64, "now": "new"}
OPEN = {
    "id": "one-1",
    "who": "alice on ops1",
    "summary": "set X=2 on decode",
    "opened": "T0",
    "state": "open",
    "free": True,
    "controller_gone": True,
    "last_step": "start router",
    "lease_left_s": 9.0,
    "files": [FILE],
}
DONE = {
    "id": "one-1",
    "verb": "set",
    "summary": "set X=2 on decode",
    "ended": "T1",
    "state": "confirmed",
    "files": [FILE],
}


def info(open_change: Any = None, undo: Any = None, **per_role: dict[str, Any]) -> dict[str, Any]:
    whole = {"edits": [], "stale": [], "unit": {"pid": 7}, "script": {"younger_s": -5.0}}
    return {
        "instances": {role: {"role": role, **whole, **per_role.get(role, {})} for role in ROLES},
        "open_change": open_change,
        "undo": undo,
        "unreported": [],
    }


def plan(verb: str, *infos: dict[str, Any], take_over: str | None = None, **given: Any) -> Plan:
    return decide("lab", INSTANCES, list(infos), read_asked(verb, given, INSTANCES), take_over)


def back(**more: Any) -> dict[str, Any]:
    return {
        "instance": "decode",
        "path": "/decode.sh",
        "knob": "X",
        "after": "1",
        "expect": {"X": "1"},
        "refused": None,
        "in_effect": False,
        "warnings": [],
        **more,
    }


def test_forward_restarts_nothing_when_every_process_has_what_its_script_says() -> None:
    made = plan("recover", info(OPEN))
    assert (made.take_over, made.restart, made.changed) == ("one-1", (), True)
    assert made.summary == "carried through: set X=2 on decode (change one-1)"


def test_forward_keeps_what_was_interrupted_and_why_also_when_it_is_interrupted_again() -> None:
    why = {"text": "suspicion", "suspicion": True, "review_by": "2026-12-13"}
    made = plan("recover", info({**OPEN, "verb": "revert", "why": why}))
    assert made.finishes == {"id": "one-1", "verb": "revert", "why": why}
    again = plan("recover", info({**OPEN, "id": "two-2", "verb": "recover", "finishes": made.finishes, "why": why}))
    assert again.finishes == {"id": "two-2", "verb": "revert", "why": why}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({"unit": {"pid": None}}, "it does not run"),
        ({"script": {"younger_s": 3.0}}, "its process is older than its script"),
        (
            {"stale": [{"knob": "X", "script": "2", "running": "1", "evidence": "e"}]},
            "does not have X as its script says",
        ),
    ],
)
def test_forward_restarts_all_when_one_process_is_behind(seen: dict[str, Any], why: str) -> None:
    made = plan("recover", info(OPEN, decode=seen))
    assert made.restart == ROLES
    assert why in made.why["decode"]


@pytest.mark.parametrize("now", ["old", "foreign", "between", "gone", "unreadable"])
def test_forward_wants_the_new_content_of_every_file(now: str) -> None:
    with pytest.raises(PdopsError, match=rf"/decode.sh has not the new content of change one-1 \({now}\)"):
        plan("recover", info({**OPEN, "files": [{**FILE, "now": now}]}))


def test_forward_is_refused_on_the_way_back_and_nothing_without_an_open_change() -> None:
    with pytest.raises(PdopsError, match="rolling-back, so it cannot be carried through"):
        plan("recover", info({**OPEN, "state": "rolling-back"}))
    made = plan("recover", info())
    assert not made.changed and "no change is open" in str(made.nothing)


def fleet(*open_changes: Any, ended: tuple[dict[str, Any], ...] = ()) -> list[dict[str, Any]]:
    """A machine for each of the changes given; what ended is the last one's."""
    infos = []
    for number, one in enumerate(open_changes):
        here = {name: said for name, said in info()["instances"].items() if name == ROLES[number]}
        infos.append({**info(one), "instances": here, "change_machine": f"m{number + 1}", "ended": []})
    infos[-1]["ended"] = list(ended)
    return infos


NO_FILE = {**OPEN, "files": []}


def test_forward_is_refused_when_the_controller_died_before_every_machine_had_begun() -> None:
    with pytest.raises(PdopsError, match=r"change one-1 had not begun on m3, .* -e finish=back"):
        plan("recover", *fleet(NO_FILE, OPEN, None))
    with pytest.raises(PdopsError, match="had not begun on m2"):
        plan("recover", *fleet(NO_FILE, None, None))
    assert plan("recover", *fleet(NO_FILE, OPEN, NO_FILE)).changed


@pytest.mark.parametrize("state", ["rolled-back", "rollback-failed", "superseded"])
def test_forward_is_refused_when_the_change_went_back_on_a_machine_and_holds_on_none(state: str) -> None:
    gone = {**DONE, "state": state}
    with pytest.raises(PdopsError, match=f"change one-1 is {state} on m3"):
        plan("recover", *fleet(NO_FILE, OPEN, None, ended=(gone,)))


def test_forward_goes_on_where_the_run_that_was_to_carry_it_through_died_before_it_began_everywhere() -> None:
    again = {**NO_FILE, "id": "two-2", "finishes": {"id": "one-1"}}
    infos = fleet(again, {**OPEN, "id": "two-2", "finishes": {"id": "one-1"}}, NO_FILE)
    for one in infos[:2]:
        one["ended"] = [{**DONE, "state": "superseded"}]
    made = plan("recover", *infos)
    assert made.changed and made.finishes["id"] == "one-1"


def test_forward_goes_on_from_a_machine_that_had_confirmed() -> None:
    assert plan("recover", *fleet(NO_FILE, OPEN, None, ended=({**DONE, "files": []},))).changed


def test_forward_takes_nothing_over_from_a_living_controller_without_being_told() -> None:
    living = {**OPEN, "free": False, "controller_gone": False}
    with pytest.raises(PdopsError, match="-e take_over=one-1"):
        plan("recover", info(living))
    assert plan("recover", info(living), take_over="one-1").take_over == "one-1"


def test_a_confirmed_change_goes_back_with_a_co_restart_and_what_the_engine_must_have() -> None:
    made = plan("rollback", info(undo=DONE, decode={"edits": [back()]}))
    assert made.summary == "rolled back change one-1 (set X=2 on decode, confirmed T1)"
    assert made.restart == ROLES
    assert made.expect == {"decode": {"X": "1"}}


def test_a_drifted_script_refuses_with_its_lines() -> None:
    lines = [{"sign": "+", "line": 1, "text": "# by hand"}]
    with pytest.raises(PdopsError, match="was changed since") as refused:
        plan("rollback", info(undo=DONE, decode={"edits": [back(refused="was changed since", other_lines=lines)]}))
    assert refused.value.details["other_lines"] == lines


def test_a_second_run_has_nothing_to_do_and_a_named_rollback_goes_back_too() -> None:
    rolled = {**DONE, "id": "two-2", "verb": "rollback"}
    made = plan("rollback", info(undo=rolled, decode={"edits": [back()]}))
    assert not made.changed and "the newest is change two-2 (a rollback" in str(made.nothing)
    assert plan("rollback", info(undo=rolled, decode={"edits": [back()]}), change="two-2").changed
    named = plan("rollback", info(undo=DONE), change="one-1")
    assert not named.changed and "as they were before change one-1" in str(named.nothing)


def test_an_edit_back_without_its_restart_is_brought_to_its_end() -> None:
    made = plan("rollback", info(undo=DONE, decode={"script": {"younger_s": 4.0}}), change="one-1")
    assert made.edits == () and made.restart == ROLES


def test_what_cannot_be_rolled_back_is_refused_with_what_to_type() -> None:
    with pytest.raises(PdopsError, match="no machine has a change of that id"):
        plan("rollback", info(), change="one-1")
    with pytest.raises(PdopsError, match=r"do not agree .*one-1, two-2"):
        plan("rollback", info(undo=DONE), info(undo={**DONE, "id": "two-2"}))
    with pytest.raises(PdopsError, match="puts a whole change back"):
        plan("rollback", info(undo=DONE), role="decode")
    with pytest.raises(PdopsError, match=r"change=one-1 belongs to rollback.yml"):
        plan("restart", info(), change="one-1")
    assert "changed no script" in str(plan("rollback", info(undo={**DONE, "files": []})).nothing)


def over_two(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """Machine m1 has the prefill, m2 decode and router; each says what is given, and ``parts`` of changes that ended."""
    told = []
    for machine, given in (("m1", first), ("m2", second)):
        parts = [
            {"id": change_id, "state": state, "files": files} for change_id, state, files in given.pop("parts", ())
        ]
        told.append({**info(**given), "change_machine": machine, "ended": parts})
    return told


def test_a_change_that_went_back_where_its_script_is_hides_the_one_before_it_on_no_machine() -> None:
    void = {**DONE, "id": "two-2", "files": []}
    went_back = ("two-2", "rolled-back", [FILE])
    here = {"undo": void, "parts": [("two-2", "confirmed", []), ("one-1", "confirmed", [])]}
    there = {"undo": DONE, "decode": {"edits": [back()]}, "parts": [went_back, ("one-1", "confirmed", [FILE])]}
    made = plan("rollback", *over_two(dict(here), dict(there)))
    assert made.changed and made.summary.startswith("rolled back change one-1 ")
    # That has a script here too, or nothing is known of it here: then this machine has to look at that one.
    gone = r"change two-2 went back on m2, and no script of it is on m1; .* type ansible-playbook rollback.yml -e change=one-1\."
    for known in ([("one-1", "confirmed", [FILE])], []):
        with pytest.raises(PdopsError, match=gone):
            plan("rollback", *over_two({**here, "parts": [here["parts"][0], *known]}, dict(there)))
    alone = plan("rollback", *over_two(dict(here), {"parts": [went_back]}))
    assert alone.nothing and "nothing to roll back: change two-2 went back on m2" in alone.nothing
    # One whose script is new somewhere is no such thing: recover.yml heals it.
    with pytest.raises(
        PdopsError, match=r"rollback.yml -e change=two-2 or ansible-playbook rollback.yml -e change=one-1"
    ):
        plan("rollback", *over_two({**here, "parts": [("two-2", "confirmed", [FILE])]}, dict(there)))

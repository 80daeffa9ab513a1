# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a deploy decides from what its machines offer."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.asked import read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import Plan, decide

ROLES = ("prefill", "decode", "router")
INSTANCES = [Instance(r, r, r, f"/root/{r}.sh", f"http://127.0.0.1:{n + 1}", "m") for n, r in enumerate(ROLES)]
SERVES = {"unit": {"pid": 7}, "stale": [], "script": {}}
BARE = {"error": "/root/x.sh does not exist", "no_script": True, "stale": []}


def edit(
    instance: str, kind: str = "script", before: str = "absent", after: str = "b" * 64, **more: Any
) -> dict[str, Any]:
    return {
        "instance": instance,
        "path": f"/root/{instance}.{kind}",
        "kind": kind,
        "existed": before != "absent",
        "sha256_before": before,
        "sha256_after": after,
        "changed_lines": [{"sign": "+", "line": 1, "text": "x"}],
        "expect": {},
        "warnings": [],
        **more,
    }


def plan(
    offers: dict[str, Any],
    seen: dict[str, Any] | None = None,
    open_change: Any = None,
    obstacles: list[str] | None = None,
    **asked: Any,
) -> Plan:
    filled = {r: {"edits": [], "intended": {}, "write_down": {}, "refused": None, **offers.get(r, {})} for r in ROLES}
    info = {
        "instances": {r: {"role": r, "edits": [], **(seen or {}).get(r, SERVES)} for r in ROLES},
        "deploy": filled,
        "obstacles": obstacles or [],
        "open_change": open_change,
        "unreported": [],
    }
    return decide("dsv4", INSTANCES, [info], read_asked("deploy", asked, INSTANCES))


def test_a_bare_machine_gets_everything_and_all_start() -> None:
    made = plan(
        {r: {"edits": [edit(r, expect={"A": "1"}), edit(r, "unit")]} for r in ROLES}, dict.fromkeys(ROLES, BARE)
    )
    assert made.restart == ROLES and made.scope == "co" and len(made.edits) == 6
    assert set(made.why.values()) == {"it is new"} and made.expect["decode"] == {"A": "1"}
    assert "which is not there yet (1 lines" in "\n".join(plan_lines(made, INSTANCES))


def test_what_is_as_the_inventory_says_is_left_alone() -> None:
    made = plan({})
    assert not made.changed and made.nothing and "nothing to deploy" in made.nothing


def test_only_the_router_restarts_when_only_the_router_has_a_reason() -> None:
    assert plan({"router": {"edits": [edit("router", before="a" * 64)]}}).restart == ("router",)
    assert plan({"decode": {"edits": [edit("decode", "unit", before="a" * 64)]}}).restart == ROLES
    assert plan({"decode": {"edits": [edit("decode", before="a" * 64)]}}, scope="decode").restart == ("decode",)


def test_a_key_restarts_who_names_it_and_is_written_once_for_a_machine() -> None:
    key = {"path": "/etc/keys.yaml", "before": "a" * 64, "changed_lines": []}
    offers = {r: {"edits": [edit(r, "key", users=[r], **key)]} for r in ("prefill", "decode")}
    made = plan(offers)
    assert [one["users"] for one in made.edits] == [["prefill", "decode"]] and made.restart == ROLES
    assert made.why["prefill"] == made.why["decode"] == "its file of keys changes"
    assert "edit prefill, decode: /etc/keys.yaml (keys)\n  changed (content not shown)" in "\n".join(
        plan_lines(made, INSTANCES)
    )
    assert plan({"router": {"edits": [edit("router", "key", users=["router"], **key)]}}).restart == ("router",)


def test_a_unit_that_is_only_enabled_restarts_nothing() -> None:
    same = edit(
        "decode",
        "unit",
        before="b" * 64,
        changed_lines=[],
        warnings=["d.service does not start at boot; it is enabled"],
    )
    made = plan({"decode": {"edits": [same]}})
    assert made.changed and made.restart == ()
    assert "does not start at boot" in "\n".join(plan_lines(made, INSTANCES))


def test_right_files_with_a_process_that_is_down_or_old_mean_a_restart_and_no_write() -> None:
    down = plan({}, {"decode": {**SERVES, "unit": {"pid": None}}})
    assert (down.edits, down.restart, down.why["decode"]) == ((), ROLES, "it does not run")
    stale = plan({}, {"router": {**SERVES, "stale": [{"knob": "A"}]}})
    assert stale.restart == ("router",) and "does not have A" in stale.why["router"]


def test_refusals_and_what_nobody_could_look_at_stop_it() -> None:
    with pytest.raises(PdopsError, match="decode: it drifted"):
        plan({"decode": {"refused": "it drifted", "details": {"lines": []}}})
    with pytest.raises(PdopsError, match="unit is masked"):
        plan({}, {"decode": {"error": "unit is masked", "stale": []}})


def test_everything_that_instances_and_machines_have_against_it_is_told_at_once() -> None:
    both = {"refused": "2 reasons", "details": {"mistakes": ["it drifted", "its unit was edited"], "other_lines": [1]}}
    with pytest.raises(PdopsError) as refused:
        plan({"prefill": both, "router": {"refused": "its key"}}, obstacles=["m: no python3-venv"])
    assert refused.value.details["mistakes"] == [
        "m: no python3-venv",
        "prefill: it drifted",
        "prefill: its unit was edited",
        "router: its key",
    ]
    assert str(refused.value).startswith("4 obstacles, and nothing was touched:\n- m: no python3-venv")
    assert refused.value.details["other_lines"] == [1]


def test_kept_values_are_told_as_what_to_write_down() -> None:
    made = plan({"decode": {"write_down": {"A": "9", "B": None}}})
    assert "write A: 9 into its variables" in made.warnings[0] and "B: null" in made.warnings[1]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"instance": "decode"}, "takes the whole deployment"),
        ({"role": "decode"}, "takes the whole deployment"),
        ({"knob": "A"}, "takes no knob"),
        ({"take": "mine"}, "takes host"),
    ],
)
def test_what_narrows_other_verbs_is_refused(asked: dict[str, str], words: str) -> None:
    with pytest.raises(PdopsError, match=words):
        read_asked("deploy", asked, INSTANCES)


def test_take_belongs_to_deploy() -> None:
    assert read_asked("deploy", {"take": "vars"}, INSTANCES).take == "vars"
    with pytest.raises(PdopsError, match="take=vars is unknown here"):
        read_asked("restart", {"take": "vars"}, INSTANCES)


def test_an_interrupted_deploy_is_finished_by_a_restart_of_all() -> None:
    left = {"id": "c1", "verb": "deploy", "summary": "deployed dsv4", "who": "root", "opened": "t", "state": "open"}
    left.update(last_step="start decode", free=True, controller_gone=True, lease_left_s=5.0, files=[])
    made = plan({}, {"router": {**SERVES, "unit": {"pid": None}}}, open_change=left)
    assert made.restart == ROLES and made.take_over == "c1" and made.summary == "finished: deployed dsv4"

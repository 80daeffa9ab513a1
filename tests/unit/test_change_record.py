# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change import who
from ansible_collections.pdops.sglang.plugins.module_utils.change.inheriting import inherit
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError

NOW = "2026-11-29T16:00:00Z"


def record(change_id: str = "one-1", files: list[dict[str, Any]] | None = None, **more: Any) -> rules.Record:
    made = rules.new_record(
        change_id,
        "lab",
        "restore",
        "restored A=1 on decode",
        who.this_process("alice"),
        files
        if files is not None
        else [{"instance": "d", "path": "/d.sh", "sha256_before": "old", "sha256_after": "new", "knobs": {}}],
        [{"name": "d", "unit": "sglang-d", "serve_script": "/d.sh"}],
        60.0,
        NOW,
    )
    return {**made, **more}


def test_a_lease_counts_down_and_a_renewal_gives_it_the_steps_budget() -> None:
    fresh = record()
    assert 60 < rules.lease_left_s(fresh) <= 60 + rules.LEASE_SLACK_S

    renewed = rules.with_lease(fresh, "start d", 900, NOW)
    assert rules.lease_left_s(renewed) > 900
    assert renewed["lease"]["step"] == "start d"


def test_a_lease_of_an_earlier_boot_is_over() -> None:
    fresh = record()
    fresh["lease"]["boot_id"] = "another boot"
    assert rules.lease_left_s(fresh) == 0.0


def test_stops_and_starts_mark_their_instance_as_touched_once() -> None:
    noted = rules.with_step(record(), "apply", "", "1 script", NOW)
    assert noted["touched"] == []
    noted = rules.with_step(noted, "stop", "d", "", NOW)
    noted = rules.with_step(noted, "start", "d", "", NOW)
    assert noted["touched"] == ["d"]
    assert rules.last_step(noted) == "start d"


def test_an_ended_change_refuses_late_verbs_and_says_what_became_of_it() -> None:
    over = rules.ended(record(), "rolled-back", "nobody confirmed it", NOW)
    with pytest.raises(PdopsError, match=r"one-1 is rolled-back \(nobody confirmed it\), so confirm is refused"):
        rules.require_open(over, "confirm")


def test_taking_over_inherits_what_the_former_change_left_unconfirmed() -> None:
    former = record("one-1", touched=["d"])
    mine = record("two-2", files=[])
    joined = inherit(mine, former)
    assert [item["sha256_before"] for item in joined["files"]] == ["old"]
    assert joined["touched"] == ["d"]
    assert joined["inherits"] == ["one-1"]


def test_a_file_that_both_changes_edit_goes_back_to_before_the_first() -> None:
    former = record("one-1")
    mine = record(
        "two-2",
        files=[{"instance": "d", "path": "/d.sh", "sha256_before": "new", "sha256_after": "newer", "knobs": {}}],
    )
    joined = inherit(mine, former)
    assert [(item["sha256_before"], item["sha256_after"]) for item in joined["files"]] == [("old", "newer")]


def test_changes_overlap_by_unit_or_by_script() -> None:
    assert rules.overlaps(record(), [{"unit": "sglang-d", "serve_script": "/x"}])
    assert rules.overlaps(record(), [{"unit": "x", "serve_script": "/d.sh"}])
    assert not rules.overlaps(record(), [{"unit": "x", "serve_script": "/x"}])


@pytest.mark.parametrize("bad", ["", "a", "../../etc/passwd", "a b c d", "-rf--", "x" * 81])
def test_an_id_that_could_leave_the_folder_is_refused(bad: str) -> None:
    with pytest.raises(PdopsError, match="is not usable"):
        rules.check_id(bad)


def test_the_second_operator_learns_who_since_when_what_until_and_how_to_take_over() -> None:
    told = rules.held_sentence(record())
    for part in ("alice on", NOW, "restored A=1 on decode", "lease runs", "-e take_over=one-1"):
        assert part in told


def test_nobody_is_told_to_take_over_what_its_guard_is_putting_back() -> None:
    told = rules.held_sentence(record(state="rolling-back"))
    assert "being rolled back now by its guard" in told
    assert "take_over" not in told and "about to" not in told


def test_a_dead_controller_on_this_machine_is_seen_and_a_far_one_is_unknown() -> None:
    assert who.is_gone(who.this_process("alice")) is False

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        leader = who.this_process("alice", child.pid)
        assert who.is_gone(leader) is False
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert who.is_gone(leader) is True  # a zombie, which nobody has waited for yet
    assert who.is_gone(leader) is True

    assert who.is_gone({**leader, "boot_id": "elsewhere"}) is None
    assert who.is_gone({**leader, "pid_namespace": "pid:[1]"}) is None
    # A recycled pid is another process.
    assert who.is_gone({**who.this_process("alice", os.getpid()), "started_ticks": 1}) is True


MEMBERS = [
    {"name": name, "role": name.split("-")[0], "unit": name, "serve_script": f"/{name}.sh"}
    for name in ("decode-1", "decode-2", "router")
]


def walked(*steps: tuple[str, str], **more: Any) -> rules.Record:
    made = record(files=[], instances=MEMBERS, scope="rolling", restart=["decode-1", "decode-2", "elsewhere"], **more)
    for step, name in steps:
        made = rules.with_step(made, step, name, "", NOW)
    return made


def test_what_a_rolling_restart_takes_out_of_a_router_is_touched_and_the_router_is_not() -> None:
    """Else the way back would leave a decode out that was not stopped yet, and then take the last one out."""
    one = [("take out", "decode-1"), ("stop", "decode-1"), ("start", "decode-1"), ("register", "decode-1")]
    made = walked(*one, ("take out", "decode-2"))
    assert made["touched"] == ["decode-1", "decode-2"] and rules.is_rolling(made)
    back = rules.with_step(made, "take out", "router", "of its guard's way back", NOW)
    assert back["touched"] == made["touched"] and rules.is_rolling(back)


def test_what_the_leader_had_still_to_do() -> None:
    assert rules.left_undone(walked()) == {"restart": ["decode-1", "decode-2"], "out": []}
    stopped = walked(("take out", "decode-1"), ("stop", "decode-1"))
    assert rules.left_undone(stopped) == {"restart": ["decode-1", "decode-2"], "out": ["decode-1"]}
    started = rules.with_step(stopped, "start", "decode-1", "", NOW)
    assert rules.left_undone(started) == {"restart": ["decode-2"], "out": ["decode-1"]}
    back = rules.with_step(started, "register", "decode-1", "", NOW)
    assert rules.left_undone(back) == {"restart": ["decode-2"], "out": []}
    # A router that is started has all of them.
    assert rules.left_undone(rules.with_step(started, "start", "router", "", NOW))["out"] == []
    assert rules.summary_of(started)["undone"] == rules.left_undone(started)

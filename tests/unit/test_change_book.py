# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import calendar
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import guard_place, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

INSTANCES = [{"name": "d", "unit": "sglang-d", "serve_script": "/d.sh"}]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(Store(str(tmp_path / "state")))


def record(change_id: str, leader: who.Leader | None = None, **more: Any) -> rules.Record:
    files = [{"instance": "d", "path": "/d.sh", "sha256_before": "old", "sha256_after": "new", "knobs": {}}]
    return {
        **rules.new_record(
            change_id,
            "lab",
            "restore",
            f"summary of {change_id}",
            leader or who.this_process("alice"),
            files,
            INSTANCES,
            60,
            now_utc(),
        ),
        **more,
    }


def dead_leader() -> who.Leader:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        return who.this_process("bob", child.pid)


def test_an_absent_state_folder_holds_no_changes_and_looking_makes_none(book: Book) -> None:
    assert book.all() == []
    assert not os.path.exists(book.store.state_dir)


def test_an_open_change_is_the_lock_against_a_second_operator(book: Book) -> None:
    book.begin(record("one-1"), None)
    with pytest.raises(PdopsError, match=r"held by change one-1 \(summary of one-1\) of alice") as refused:
        book.begin(record("two-2"), None)
    assert refused.value.details["held_by"]["id"] == "one-1"
    assert [item["id"] for item in book.all()] == ["one-1"]


def test_beginning_again_with_the_same_id_has_no_second_effect(book: Book) -> None:
    first = book.begin(record("one-1"), None)
    again = book.begin(record("one-1"), None)
    assert again == first


def test_an_id_of_an_ended_change_cannot_be_used_again(book: Book) -> None:
    book.begin(record("one-1"), None)
    book.confirm("one-1", "done")
    with pytest.raises(PdopsError, match="was used before"):
        book.begin(record("one-1"), None)


def test_a_dead_controllers_change_is_superseded_and_inherited(book: Book) -> None:
    book.begin(record("one-1", dead_leader()), None)
    mine = book.begin(record("two-2", files=[]), None)
    assert mine["inherits"] == ["one-1"]
    assert mine["files"][0]["sha256_before"] == "old"
    assert book.load("one-1")["state"] == "superseded"


def test_taking_over_by_name_works_on_a_living_controller(book: Book) -> None:
    book.begin(record("one-1"), None)
    assert book.begin(record("two-2"), "one-1")["inherits"] == ["one-1"]


def test_a_change_that_was_put_back_since_the_plan_is_not_gone_on_from_whatever_the_clocks_say(book: Book) -> None:
    book.begin(record("one-1", dead_leader()), None)
    book.set_state("one-1", "rolling-back", "the lease ran out", ("open",))
    book.set_state("one-1", "rolled-back", "the lease ran out", ("rolling-back",))
    for stamp in ("20010101T000000", time.strftime("%Y%m%dT%H%M%S", time.gmtime()), "29991231T000000"):
        with pytest.raises(PdopsError, match="one-1, which this run was to go on from, was rolled-back by its guard"):
            book.begin(record(f"{stamp}-deploy-1"), "one-1")
    assert [item["id"] for item in book.all()] == ["one-1"]
    book.begin(record("two-2"), None)


def test_a_clock_that_was_set_back_reorders_nothing(book: Book) -> None:
    """The newest confirmed change is the one that rollback.yml puts back."""
    book.begin(record("29991231T000000-set-1", opened="2999-12-31T00:00:00Z"), None)
    book.confirm("29991231T000000-set-1", "done")
    ids = ["29991231T000000-set-1"]
    for _ in range(3):
        ids.append(rules.new_change_id("restore", ids))
        book.begin(record(ids[-1]), None)
        book.confirm(ids[-1], "done")
    assert [item["id"] for item in book.all()] == ids == sorted(ids)


def test_a_new_id_is_the_time_where_nothing_newer_is_known() -> None:
    for known in ((), ("20010101T000000-set-1", "somebody's own")):
        stamp = rules.new_change_id("set", known)[:15]
        assert abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%S")) - time.time()) < 60
    assert rules.new_change_id("set", ("99999999T999999-set-1",))[:2] == "20"


def test_a_rollback_under_way_cannot_be_taken_over_and_one_whose_guard_died_can(book: Book) -> None:
    book.begin(record("one-1", dead_leader()), None)
    book.set_state("one-1", "rolling-back", "lease over", ("open",))
    with guard_place.sole(book.folder, "one-1"), pytest.raises(PdopsError, match="held by change one-1"):
        book.begin(record("two-2"), "one-1")
    assert book.begin(record("two-2"), None)["inherits"] == ["one-1"]


def test_a_lease_that_ran_out_without_a_guard_frees_the_deployment(book: Book) -> None:
    far = {**who.this_process("bob"), "boot_id": "another machine"}
    book.begin(record("one-1", far), None)
    with pytest.raises(PdopsError, match="held by change one-1"):
        book.begin(record("two-2"), None)
    book.update("one-1", "renew", lambda item: rules.with_lease(item, "begin", -rules.LEASE_SLACK_S - 1, now_utc()))
    assert book.begin(record("two-2"), None)["inherits"] == ["one-1"]


def test_changes_of_other_units_do_not_lock_each_other(book: Book) -> None:
    book.begin(record("one-1"), None)
    other = record("two-2")
    other["instances"] = [{"name": "x", "unit": "other", "serve_script": "/other.sh"}]
    book.begin(other, None)
    assert len(book.all()) == 2


def test_a_step_is_on_disk_before_its_effect_and_renews_the_lease(book: Book) -> None:
    book.begin(record("one-1"), None)
    book.note_step("one-1", "start", "d", "", 900.0)
    again = Book(Store(book.store.state_dir)).load("one-1")
    assert rules.last_step(again) == "start d"
    assert again["touched"] == ["d"]
    assert rules.lease_left_s(again) > 900


def test_a_late_confirm_is_refused_and_a_repeated_one_is_not(book: Book) -> None:
    book.begin(record("one-1"), None)
    book.confirm("one-1", "done")
    assert book.confirm("one-1", "done")["state"] == "confirmed"

    book.begin(record("two-2"), None)
    book.set_state("two-2", "rolling-back", "lease over", ("open",))
    with pytest.raises(PdopsError, match="two-2 is rolling-back"):
        book.confirm("two-2", "done")
    book.set_state("two-2", "rolled-back", "lease over", ("rolling-back",))
    with pytest.raises(PdopsError, match=r"two-2 is rolled-back \(lease over\), so confirm is refused"):
        book.confirm("two-2", "done")
    with pytest.raises(PdopsError, match="so start is refused"):
        book.note_step("two-2", "start", "d", "", 1.0)


def test_a_rollback_is_told_once(book: Book) -> None:
    book.begin(record("one-1"), None)
    book.set_state("one-1", "rolling-back", "lease over", ("open",))
    book.set_state("one-1", "rolled-back", "lease over", ("rolling-back",))
    assert [item["id"] for item in book.newest_unreported(INSTANCES)] == ["one-1"]
    book.mark_reported("one-1")
    assert book.newest_unreported(INSTANCES) == []


def test_a_damaged_record_is_named_and_never_passed_over(book: Book) -> None:
    book.begin(record("one-1"), None)
    Path(book.folder, "one-1.json").write_text("{")
    with pytest.raises(PdopsError, match=r"one-1.json cannot be read"):
        book.all()
    Path(book.folder, "one-1.json").write_text(json.dumps({"id": "another"}))
    with pytest.raises(PdopsError, match="is not one of change one-1"):
        book.all()


def test_the_journal_tells_who_did_what(book: Book) -> None:
    book.begin(record("one-1"), None)
    book.confirm("one-1", "done")
    rows = book.store.journal()
    assert [row["verb"] for row in rows] == ["begin", "confirm"]
    assert all(row["actor"].startswith("alice on ") and row["change_id"] == "one-1" for row in rows)

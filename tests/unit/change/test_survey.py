# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What recover.yml sees, and which change it may bring to an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import guard_place, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.change.survey import survey, to_finish
from ansible_collections.pdops.sglang.plugins.module_utils.change.survey_text import survey_lines
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD, NEW = b"export A=1\n", b"export A=2\n"


class Machine:
    def __init__(self, folder: Path) -> None:
        self.script = folder / "decode.sh"
        self.script.write_bytes(NEW)
        self.state_dir = str(folder / "state")
        self.book = Book(Store(self.state_dir))
        self.instance = Instance(
            "d", "decode", "unit-d", str(self.script), "http://127.0.0.1:1", "m", manager="supervisor"
        )

    def begin(self, change_id: str, leader: who.Leader | None = None, opened: str = "", **more: Any) -> rules.Record:
        file = {
            "instance": "d",
            "path": str(self.script),
            "sha256_before": sha256_of(OLD),
            "sha256_after": sha256_of(NEW),
            "knobs": {},
        }
        leading = leader or who.this_process("alice")
        instance = self.instance.as_dict()
        made = rules.new_record(
            change_id, "lab", "set", f"summary of {change_id}", leading, [file], [instance], 60, opened or now_utc()
        )
        return self.book.begin({**made, **more}, None)

    def end(self, change_id: str, *states: str) -> None:
        for state in states:
            self.book.set_state(change_id, state, "a test", ("open", "rolling-back"))

    def seen(self, take_over: str | None = None) -> dict[str, Any]:
        return survey([self.instance], self.state_dir, take_over)

    def text(self) -> str:
        return "\n".join(survey_lines(self.seen()))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ELSEWHERE = {**who.this_process("bob"), "boot_id": "another machine"}


def test_nothing_is_said_plainly_and_nothing_is_made(machine: Machine) -> None:
    seen = machine.seen()
    assert (seen["changes"], seen["newest"], seen["unreadable"]) == ([], None, [])
    assert "no change waits to be ended" in machine.text()
    assert not Path(machine.state_dir).exists()


@pytest.mark.parametrize(
    ("content", "now"), [(OLD, "old"), (NEW, "new"), (b"other", "foreign"), (b"between", "between"), (None, "gone")]
)
def test_each_file_is_told_by_its_content(machine: Machine, content: bytes | None, now: str) -> None:
    record = machine.begin("one-1")
    record["files"][0]["ours"] = [sha256_of(b"between")]
    machine.book.update("one-1", "test", lambda _: record)
    machine.script.unlink() if content is None else machine.script.write_bytes(content)
    assert machine.seen()["changes"][0]["files"][0]["now"] == now


def test_a_change_whose_controller_may_live_is_finished_only_by_name(machine: Machine) -> None:
    machine.begin("one-1")
    with pytest.raises(PdopsError, match=r"one-1 .* of alice on .* its controller is alive.*-e take_over=one-1"):
        to_finish(machine.seen(), None)
    machine.book.confirm("one-1", "done")
    machine.begin("two-2", ELSEWHERE)
    with guard_place.sole(machine.book.folder, "two-2"):
        with pytest.raises(PdopsError, match="nobody here sees whether its controller is"):
            to_finish(machine.seen(), None)
        found = to_finish(machine.seen("two-2"), "two-2")
    assert found is not None and found["id"] == "two-2"


def test_a_change_of_an_earlier_boot_is_finished_without_more_words(machine: Machine) -> None:
    record = machine.begin("one-1", ELSEWHERE)
    record["lease"]["boot_id"] = "an earlier boot"
    machine.book.update("one-1", "test", lambda _: record)
    found = to_finish(machine.seen(), None)
    assert found is not None and (found["controller"], found["boot"]) == ("gone", "earlier")
    assert "NO GUARD: nothing happens by itself" in machine.text()
    assert "recover.yml -e finish=back" in machine.text() and "finish=forward" in machine.text()


def test_a_failed_rollback_waits_until_a_later_change_ended_well(machine: Machine) -> None:
    machine.begin("one-1", opened="2026-01-01T00:00:00Z")
    machine.end("one-1", "rolling-back", "rollback-failed")
    assert [item["id"] for item in machine.seen()["changes"]] == ["one-1"]
    # One that was rolled back before it touched anything settles nothing.
    machine.begin("two-2", opened="2026-01-02T00:00:00Z")
    machine.end("two-2", "rolling-back", "rolled-back")
    assert [item["id"] for item in machine.seen()["changes"]] == ["one-1"]
    machine.begin("three-3", opened="2026-01-03T00:00:00Z")
    machine.book.confirm("three-3", "done")
    seen = machine.seen()
    assert seen["changes"] == [] and seen["newest"]["id"] == "three-3"
    assert to_finish(seen, None) is None


def test_a_damaged_record_is_named_hides_no_other_and_refuses_to_finish(machine: Machine) -> None:
    machine.begin("one-1", ELSEWHERE)
    Path(machine.book.folder, "bad-1.json").write_text("{")
    seen = machine.seen()
    assert [item["id"] for item in seen["changes"]] == ["one-1"]
    assert "UNREADABLE" in machine.text() and "bad-1.json cannot be read" in machine.text()
    with pytest.raises(PdopsError, match=r"bad-1.json cannot be read.*Nothing was done"):
        to_finish(seen, "one-1")

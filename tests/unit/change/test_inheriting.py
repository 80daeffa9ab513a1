# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an interrupted change was, and why it was wanted, is kept by whichever verb takes it over: on the machine and in the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change import undoing, who
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.record import doings, joining
from ansible_collections.pdops.sglang.plugins.module_utils.record.fold import Folded
from ansible_collections.pdops.sglang.plugins.module_utils.record.reasons import Reason
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

WHY = {"text": "suspicion: hangs at 512", "suspicion": True, "review_by": "2026-12-13"}


class Machine:
    """One script and the changes about it; ``say`` is what a change writes into it."""

    def __init__(self, folder: Path) -> None:
        self.book, self.script = Book(Store(str(folder / "state"))), folder / "d.sh"
        self.script.write_text("first")

    def begin(
        self, verb: str, knobs: dict[str, list[str | None]], say: str = "", take_over: str = "", **more: Any
    ) -> rules.Record:
        now = self.script.read_text()
        file = {
            "instance": "d", "path": str(self.script), "sha256_before": sha256_of(now.encode()),
            "sha256_after": sha256_of((say or f"{now} {verb}").encode()), "knobs": knobs,
        }  # fmt: skip
        number = len(self.book.names()) + 1
        made = rules.new_record(
            f"c{number}-{verb}", "lab", verb, f"{verb} it", who.this_process("alice"), [file] if knobs else [],
            [{"name": "d", "unit": "d", "serve_script": str(self.script)}], 60, now_utc(), **more,
        )  # fmt: skip
        return self.book.begin(made, take_over or None)

    def write(self, record: rules.Record) -> None:
        self.script.write_text(f"{self.script.read_text()} {record['verb']}")

    def interrupted(self, verb: str, knobs: dict[str, list[str | None]], take_over: str = "", **more: Any) -> str:
        """The id of a change that died when its script was written."""
        record = self.begin(verb, knobs, take_over=take_over, **more)
        self.write(record)
        return str(record["id"])

    def entries(self, record: rules.Record, reason: Reason | None = None, **done: Any) -> dict[str, dict[str, Any]]:
        """By knob what the run that ends this change keeps in the record."""
        told = {
            "verb": record["verb"], "outcome": "confirmed", "change_id": record["id"], "said": record["summary"],
            "changes": [rules.summary_of(record)], **done,
        }  # fmt: skip
        return {str(entry.get("knob")): entry for entry in doings.entries_of(told, reason, Folded())}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def is_the_revert(entry: dict[str, Any], verb: str) -> bool:
    return (
        (entry["kind"], entry["reason"], entry["suspicion"]) == ("revert", WHY["text"], True)
        and entry["review_by"] == WHY["review_by"]
        and f"interrupted as revert, and finished by {verb}.yml" in entry["said"]
    )


@pytest.mark.parametrize("verb", ["restart", "deploy", "rollback", "recover"])
def test_a_verb_that_changes_no_knob_itself_keeps_the_revert_that_it_finishes(machine: Machine, verb: str) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    entries = machine.entries(machine.begin(verb, {}, take_over=revert))
    assert list(entries) == ["B"] and is_the_revert(entries["B"], verb)
    assert (entries["B"]["before"], entries["B"]["after"]) == ("512", "256")


def test_a_verb_with_a_knob_of_its_own_has_its_reason_for_that_one_only(machine: Machine) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    heir = machine.begin("set", {"A": ["1", "2"]}, take_over=revert, why={"text": "tuned"})
    edit = {"instance": "d", "knob": "A", "before": "1", "after": "2"}
    entries = machine.entries(heir, Reason("tuned", False, ""), edits=[edit])
    assert (entries["A"]["kind"], entries["A"]["said"]) == ("apply", "set it; tuned")
    assert is_the_revert(entries["B"], "set_knob") and entries["B"]["said"].endswith("set_knob.yml; tuned")
    # As another run writes it, which has no plan: the machine alone tells both apart.
    (done,) = joining.unwritten(Folded(), [{**rules.summary_of(heir), "state": "confirmed", "controller_gone": True}],
                                rules.summary_of(heir)["who"])  # fmt: skip
    later = {str(entry["knob"]): entry for entry in doings.entries_of(done, None, Folded())}
    assert later["A"]["kind"] == "apply" and later["A"]["said"].endswith("; tuned")
    assert is_the_revert(later["B"], "set_knob")


def test_what_is_taken_over_twice_and_by_recover_keeps_whose_it_was(machine: Machine) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    second = machine.interrupted("set", {"A": ["1", "2"]}, take_over=revert, why={"text": "tuned"})
    heir = machine.begin(
        "recover", {}, take_over=second, finishes={"id": second, "verb": "set", "why": {"text": "tuned"}}
    )
    entries = machine.entries(heir)
    assert is_the_revert(entries["B"], "recover")
    assert (
        entries["A"]["kind"] == "apply"
        and "interrupted as set, and finished by recover.yml; tuned" in entries["A"]["said"]
    )
    # And once more, by a restart: what recover carried through is the verb that was interrupted, not recover.
    heir = machine.begin("restart", {}, take_over=heir["id"])
    assert {row["verb"] for row in heir["inherited"] if row["knobs"]} == {"revert", "set"}
    assert is_the_revert(machine.entries(heir)["B"], "restart")


def test_the_same_revert_typed_again_has_the_newer_reason_and_tells_the_former(machine: Machine) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    heir = machine.begin("revert", {}, take_over=revert, why={"text": "gdb shows the kernel"})
    entry = machine.entries(heir, Reason("gdb shows the kernel", False, ""))["B"]
    assert (entry["reason"], entry["suspicion"], "review_by" in entry) == ("gdb shows the kernel", False, False)
    assert entry["said"].endswith(f"; the interrupted run said: {WHY['text']}")
    again = machine.entries(heir, Reason(WHY["text"], True, "2026-12-20"))["B"]
    assert again["review_by"] == WHY["review_by"] and "the interrupted run said" not in again["said"]


def test_a_verb_that_undoes_the_interrupted_revert_tells_what_never_came_to_be(machine: Machine) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    heir = machine.begin("restore", {"B": ["256", "512"]}, take_over=revert)
    edit = {"instance": "d", "knob": "B", "before": "256", "after": "512"}
    entry = machine.entries(heir, edits=[edit])["B"]
    assert (entry["kind"], entry["before"], entry["after"]) == ("restore", "256", "512")
    assert entry["said"] == f"restore it; instead of what was interrupted (revert it: {WHY['text']})"
    assert heir["files"][0]["knobs"] == {"B": ["256", "512"]}


def test_what_died_before_it_wrote_its_script_is_not_confirmed_by_its_heir(machine: Machine) -> None:
    first = machine.begin("set", {"A": ["1", "2"]}, why={"text": "tuned"})
    heir = machine.begin("restart", {}, take_over=first["id"])
    assert heir["inherited"] == [] and heir["files"][0]["knobs"] == {} and list(machine.entries(heir)) == ["None"]
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, take_over=heir["id"], why=WHY)
    set_only_begun = machine.begin("set", {"A": ["1", "2"]}, take_over=revert, say="never written")
    heir = machine.begin("restart", {}, take_over=set_only_begun["id"])
    assert list(machine.entries(heir)) == ["B"] and is_the_revert(machine.entries(heir)["B"], "restart")


def test_a_restart_that_took_over_is_what_rollback_puts_back(machine: Machine) -> None:
    revert = machine.interrupted("revert", {"B": ["512", "256"]}, why=WHY)
    specs = [{"name": "d", "unit": "d", "serve_script": str(machine.script)}]
    machine.book.confirm(machine.begin("restart", {}, take_over=revert)["id"], "")
    taken = undoing.undo_of(machine.book, specs, None)
    assert taken is not None and taken["verb"] == "restart"
    machine.book.confirm(machine.begin("restart", {})["id"], "")
    assert undoing.undo_of(machine.book, specs, None) == taken


def test_a_record_whose_inheritance_nobody_could_read_is_named(machine: Machine) -> None:
    record = machine.begin("restart", {})
    machine.book.update(record["id"], "x", lambda one: {**one, "inherited": ["x"]})
    with pytest.raises(PdopsError, match="says nothing usable in inherited"):
        machine.book.load(record["id"])

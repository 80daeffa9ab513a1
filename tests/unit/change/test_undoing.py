# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The edit that puts a confirmed change's script back, worked out on real files and a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change import who
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.change.undoing import (
    began_with,
    edit_back,
    reverted_by,
    undo_of,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD = b"#!/bin/bash\nexport A=1\nexport HF_TOKEN=hf_abcdefghijklmnop\nexec python -m x\n"
NEW = OLD.replace(b"A=1", b"A=2")
SPECS = [{"name": "d", "unit": "d", "serve_script": "/d.sh"}]


class Deployed:
    """A change that was confirmed."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "d.sh"
        self.script.write_bytes(NEW)
        self.book = Book(Store(str(folder / "state")))
        for content in (OLD, NEW):
            self.book.store.add_version(str(self.script), content, "", "test", "one-1")
        self.record = self.begin("one-1", "set", "2026-01-01T00:00:00Z")
        self.record = self.book.confirm("one-1", "done")

    def begin(self, change_id: str, verb: str, opened: str) -> rules.Record:
        file = {
            "instance": "d",
            "path": str(self.script),
            "sha256_before": sha256_of(OLD),
            "sha256_after": sha256_of(NEW),
            "knobs": {},
        }
        leader = who.this_process("alice")
        files = [file] if verb != "restart" else []
        made = rules.new_record(change_id, "lab", verb, "a test", leader, files, SPECS, 60, now_utc())
        return self.book.begin({**made, "opened": opened}, None)

    def back(self, expect_only: bool = True) -> dict[str, Any] | None:
        return edit_back(self.book.store, self.record, "d", str(self.script), expect_only)


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    return Deployed(tmp_path)


def test_a_knob_that_was_reverted_is_not_reverted_again(deployed: Deployed) -> None:
    book, path = deployed.book, str(deployed.script)
    assert reverted_by(book, path, "A", NEW) is None  # it was set
    deployed.begin("two-2", "revert", "2026-01-02T00:00:00Z")
    # Interrupted, and its script is in place, or is not yet.
    found = reverted_by(book, path, "A", NEW)
    assert found is not None and found["id"] == "two-2"
    assert reverted_by(book, path, "A", OLD) is None and reverted_by(book, path, "B", NEW) is None
    book.confirm("two-2", "done")
    assert reverted_by(book, path, "A", NEW)
    assert reverted_by(book, path, "A", NEW.replace(b"A=2", b"A=3")) is None  # by hand since
    # What another verb carried through is a revert all the same; what came after it is none.
    three = deployed.begin("three-3", "recover", "2026-01-03T00:00:00Z")
    assert reverted_by(book, path, "A", NEW) is None
    book._save({**three, "finishes": {"id": "x", "verb": "revert"}, "state": "confirmed"})
    found = reverted_by(book, path, "A", NEW)
    assert found is not None and found["id"] == "three-3"
    deployed.begin("four-4", "rollback", "2026-01-04T00:00:00Z")
    book.confirm("four-4", "done")
    assert reverted_by(book, path, "A", NEW) is None


def test_a_revert_that_went_back_leaves_the_knob_to_be_reverted(deployed: Deployed) -> None:
    deployed.begin("two-2", "revert", "2026-01-02T00:00:00Z")
    deployed.book.set_state("two-2", "rolling-back", "a test", ("open",))
    assert reverted_by(deployed.book, str(deployed.script), "A", NEW) is None


def test_previous_is_reckoned_from_where_an_interrupted_run_of_the_same_verb_began(deployed: Deployed) -> None:
    book, path = deployed.book, str(deployed.script)
    deployed.begin("two-2", "restore", "2026-01-02T00:00:00Z")
    assert began_with(book, path, "restore", NEW) == OLD and began_with(book, path, "restore", OLD) == OLD
    assert began_with(book, path, "revert", NEW) == NEW
    book.confirm("two-2", "done")
    assert began_with(book, path, "restore", NEW) == NEW


def test_the_newest_confirmed_change_that_was_no_mere_restart(deployed: Deployed) -> None:
    deployed.begin("two-2", "restart", "2026-01-02T00:00:00Z")
    deployed.book.confirm("two-2", "done")
    deployed.begin("three-3", "set", "2026-01-03T00:00:00Z")
    found = undo_of(deployed.book, SPECS, None)
    assert found is not None and found["id"] == "one-1"
    assert undo_of(deployed.book, [{"name": "x", "unit": "x", "serve_script": "/x.sh"}], None) is None
    assert undo_of(deployed.book, SPECS, "nine-9") is None
    with pytest.raises(PdopsError, match="three-3 is open, and only a confirmed one"):
        undo_of(deployed.book, SPECS, "three-3")
    with pytest.raises(PdopsError, match="is not usable"):
        undo_of(deployed.book, SPECS, "../../etc/passwd")


def test_the_whole_former_content_and_what_the_engine_must_have(deployed: Deployed) -> None:
    edit = deployed.back()
    assert edit is not None and edit["refused"] is None
    assert (edit["sha256_before"], edit["sha256_after"]) == (sha256_of(NEW), sha256_of(OLD))
    assert (edit["knob"], edit["before"], edit["after"], edit["expect"]) == ("A", "2", "1", {"A": "1"})
    assert [(line["sign"], line["text"]) for line in edit["changed_lines"]] == [
        ("-", "export A=2"),
        ("+", "export A=1"),
    ]


def test_what_has_the_former_content_already_needs_no_edit(deployed: Deployed) -> None:
    deployed.script.write_bytes(OLD)
    assert deployed.back() is None


def test_drift_is_refused_with_its_lines_and_no_secret_unless_told(deployed: Deployed) -> None:
    deployed.script.write_bytes(NEW.replace(b"hf_abcdefghijklmnop", b"hf_qrstuvwxyz012345") + b"# by hand\n")
    refused = deployed.back()
    assert refused is not None
    assert "was changed since change one-1" in refused["refused"] and "# by hand" in refused["refused"]
    assert "hf_" not in refused["refused"] and "-e expect_only=no" in refused["refused"]
    told = deployed.back(expect_only=False)
    assert told is not None and told["refused"] is None
    assert told["sha256_after"] == sha256_of(OLD)


def test_a_former_content_that_was_pruned_is_said(deployed: Deployed) -> None:
    Path(deployed.book.store.object_path(sha256_of(OLD))).unlink()
    refused = deployed.back()
    assert refused is not None and "cannot be read" in refused["refused"]

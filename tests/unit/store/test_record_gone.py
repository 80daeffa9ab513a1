# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a rollback says when the record of its change is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import guard_place, verbs
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

CHANGE = "20261129T164512-restore-1f2e3d"


def roll_back(store: Store, script: Path) -> str:
    params = {
        "state_dir": store.state_dir,
        "verb": "rollback",
        "change_id": CHANGE,
        "said": "",
        "instances": [{"serve_script": str(script)}],
    }
    answer = verbs.run(params, check_mode=False)
    assert answer["changed"] is False
    return str(answer["said"])


def test_a_machine_that_takes_part_in_other_changes_says_that_nothing_had_begun(store: Store, script: Path) -> None:
    store.write_journal({"verb": "begin", "change_id": "20261129T164512-restore-000000"})
    assert roll_back(store, script) == "nothing had begun here"


@pytest.mark.parametrize("evidence", ["journal", "guard"])
def test_a_change_that_had_begun_and_has_no_record_is_a_failure_that_says_what_to_do(
    store: Store, script: Path, evidence: str
) -> None:
    if evidence == "journal":
        store.write_journal({"verb": "begin", "change_id": CHANGE})
    else:
        folder = Book(store).folder
        os.makedirs(folder)
        with guard_place.sole(folder, CHANGE) as mine:
            assert mine
    with pytest.raises(
        PdopsError, match=f"record of change {CHANGE} is gone .* nothing was put back: compare {script}"
    ):
        roll_back(store, script)


def test_a_state_folder_that_is_gone_is_told_as_such(store: Store, script: Path) -> None:
    said = roll_back(store, script)
    assert "or that folder was deleted in the middle of the change" in said and str(script) in said
    assert not os.path.exists(store.state_dir)

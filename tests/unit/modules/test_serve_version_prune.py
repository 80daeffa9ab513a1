# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""The verb prune of serve_version: what goes, and what stays because something may still need it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from .versioned import LABEL, Module, add, module, opened, script, snapshot, store, use  # noqa: F401 (fixtures)


def test_prune_by_count_and_age(module: Module, store: Store, script: Path, tmp_path: Path) -> None:
    module("import")
    shas = add(store, script, "1", "2", "3", "4")
    before = snapshot(tmp_path)
    _, looked = module("prune", keep=2, check=True)
    assert snapshot(tmp_path) == before
    assert [row["label"] for row in looked["pruned"]] == ["2", "1", LABEL]
    # Both: only what is beyond the count and old as well.
    _, answer = module("prune", keep=2, older_than_s=3600)
    assert [row["label"] for row in answer["pruned"]] == [LABEL]
    _, answer = module("prune", keep=2, actor="alice")
    assert answer["changed"] is True and sorted(answer["removed_objects"]) == sorted(shas[:2])
    assert [item.label for item in store.versions(str(script))] == ["4", "3"]
    assert [(entry["verb"], entry["step"]) for entry in store.journal()[-2:]] == [("prune", "begin"), ("prune", "done")]
    assert module("prune", keep=2)[1]["changed"] is False
    assert module("verify")[1]["ok"] is True


def test_prune_keeps_the_newest_what_is_there_now_and_what_changes_need(
    module: Module, store: Store, script: Path
) -> None:
    shas = add(store, script, *"12345678")
    use(store, script, shas[2])
    opened(store, script, "20261129T1-set-1", "rollback-failed", sha256_before=shas[0])
    opened(store, script, "20261129T1-set-2", "confirmed")
    opened(store, script, "20261129T1-set-3", "rollback-failed", sha256_before=shas[3])
    opened(store, script, "20261129T1-set-4", "rolling-back", sha256_after=shas[4], ours=[shas[5]])
    _, answer = module("prune", older_than_s=0, keep=1)
    if answer["pruned"] == []:  # all were made within this second
        _, answer = module("prune", keep=1)
    assert [row["label"] for row in answer["pruned"]] == ["7", "2", "1"]
    reasons = {row["label"]: row["reason"] for row in answer["kept"]}
    assert reasons == {
        "6": "change 20261129T1-set-4 is rolling-back",
        "5": "change 20261129T1-set-4 is rolling-back",
        "4": "the rollback of change 20261129T1-set-3 failed and may be tried again",
        "3": "it is what the script holds now",
    }
    for number in (2, 3, 4, 5, 7):
        store.content(shas[number])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "keep"),
        ({"keep": 0}, "must be 1 or more"),
        ({"older_than_s": -1}, "is no age"),
        ({"older_than_s": "nan"}, "is no age"),
        ({"keep": 1, "path": "relative"}, "is not absolute"),
    ],
)
def test_prune_refuses_what_makes_no_sense(module: Module, store: Store, given: dict[str, Any], words: str) -> None:
    code, answer = module("prune", **given)
    assert code == 1 and words in answer["msg"] and not Path(store.state_dir).exists()


def test_prune_refuses_when_a_change_cannot_be_read(module: Module, store: Store, script: Path) -> None:
    add(store, script, "1", "2")
    store.write_state(os.path.join(store.state_dir, "changes", "20261129T1-set-1.json"), b"garbage")
    code, answer = module("prune", keep=1)
    assert code == 1 and "cannot be read" in answer["msg"] and len(store.versions(str(script))) == 2

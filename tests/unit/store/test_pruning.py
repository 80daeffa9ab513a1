# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What prune takes and what it leaves, also when the store is not whole or cannot be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import pruning
from ansible_collections.pdops.sglang.plugins.module_utils.store.objects import stored_objects
from ansible_collections.pdops.sglang.plugins.module_utils.store.pruning import PrunePlan, PruneRequest, plan_prune
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import verify

from .conftest import as_user, in_own_mounts
from .test_atomic import needs_root, size_limit

DAY_S = 86400.0


def fill(store: Store, script: Path, count: int, first_s: float | None = None) -> list[str]:
    """``count`` versions, oldest first; a day apart from ``first_s`` on when given. Their sha256."""
    return [
        store.add_version(
            str(script),
            f"export B={number}\n".encode(),
            str(number),
            "alice",
            None,
            None if first_s is None else first_s + number * DAY_S,
        ).sha256
        for number in range(count)
    ]


def prune(store: Store, script: Path, needed: dict[str, str] | None = None, **wanted: Any) -> PrunePlan:
    return pruning.prune(PruneRequest(str(script), **wanted), store, lambda: needed or {})


def labels(store: Store, script: Path) -> list[str]:
    return [version.label for version in store.versions(str(script))]


def test_age_is_that_of_the_version(store: Store, script: Path) -> None:
    fill(store, script, 5, first_s=1.7e9)
    request = PruneRequest(str(script), older_than_s=2 * DAY_S)
    plan = plan_prune(request, store, {}, now_s=1.7e9 + 4 * DAY_S)
    assert [version.label for version in plan.gone] == ["1", "0"]  # exactly two days old is not older
    assert labels(store, script) == ["4", "3", "2", "1", "0"]
    # However old all of them are, the newest stays.
    prune(store, script, older_than_s=0)
    assert labels(store, script) == ["4"]


def test_a_content_that_several_rows_or_files_name_stays(store: Store, script: Path) -> None:
    shas = fill(store, script, 2)
    again = store.add_version(str(script), store.content(shas[0]), "again", "alice", None)
    store.add_version("/other.sh", store.content(shas[1]), "other", "alice", None)
    plan = prune(store, script, keep=1)
    assert [version.label for version in plan.gone] == ["1", "0"] and plan.objects == ()
    assert again.sha256 == shas[0] and stored_objects(store) == set(shas)
    assert verify(store) == []


def test_the_content_of_the_script_keeps_its_newest_row_only(store: Store, script: Path) -> None:
    shas = fill(store, script, 2)
    for content, label in ((store.content(shas[0]), "now once more"), (b"export B=9\n", "last")):
        store.add_version(str(script), content, label, "alice", None)
    script.write_bytes(b"export B=0\n")
    plan = prune(store, script, keep=1)
    assert [(version.label, reason) for version, reason in plan.kept] == [
        ("last", "it is the newest"),
        ("now once more", "it is what the script holds now"),
    ][1:]
    assert labels(store, script) == ["last", "now once more"]


def test_lines_that_are_no_versions_stay_byte_by_byte_and_so_does_what_they_name(store: Store, script: Path) -> None:
    shas = fill(store, script, 3)
    index = Path(store.index_path(str(script)))
    later = b'{"path": "x", "of a later pdops": 1}'
    torn = f'{{"sha256": "{shas[0]}", "lab'.encode()
    index.write_bytes(index.read_bytes() + later + b"\n\xff\xfe garbage\n\n" + torn)
    lines = index.read_bytes().split(b"\n")
    plan = prune(store, script, keep=1)
    assert index.read_bytes() == b"\n".join(lines[2:])
    assert plan.objects == (shas[1],) and shas[0] in stored_objects(store)


def test_what_was_pruned_once_came_again_and_lost_its_index_is_not_taken_for_rubbish(
    store: Store, script: Path
) -> None:
    other = script.with_name("prefill.sh")
    content = b"export OTHER=1\n"
    for _ in range(2):
        back = store.add_version(str(other), content, "back", "alice", None)
        store.add_version(str(other), b"export OTHER=2\n", "last", "alice", None)
        if store.journal() == []:
            assert prune(store, other, keep=1).objects == (back.sha256,)
    fill(store, script, 3)
    os.unlink(store.index_path(str(other)))
    prune(store, script, keep=1)
    assert store.content(back.sha256) == content


def test_unnamed_contents_of_another_file_stay(store: Store, script: Path) -> None:
    fill(store, script, 3)
    lost = store.add_version("/other.sh", b"export OTHER=1\n", "x", "alice", None)
    os.unlink(store.index_path("/other.sh"))
    prune(store, script, keep=1)
    assert store.content(lost.sha256)
    assert [problem.kind for problem in verify(store)] == ["unnamed"]


def test_nothing_to_prune_writes_nothing(store: Store, script: Path) -> None:
    assert not prune(store, script, keep=1).changed
    assert not Path(store.state_dir).exists()
    fill(store, script, 2)
    assert not prune(store, script, keep=2).changed and store.journal() == []


def test_an_entry_whose_time_cannot_be_read_is_never_old(store: Store, script: Path) -> None:
    fill(store, script, 3, first_s=1.7e9)
    index = Path(store.index_path(str(script)))
    index.write_bytes(index.read_bytes().replace(b'"2023-11-14T22:13:20Z"', b'"some day"'))
    plan = prune(store, script, older_than_s=1)
    assert "some day" not in [version.time for version in plan.gone]


def test_a_full_disk_leaves_the_index_as_it_was(store: Store, script: Path) -> None:
    fill(store, script, 2)
    path = Path(store.index_path(str(script)))
    path.write_bytes(path.read_bytes() * 450)
    index = Path(store.index_path(str(script)))
    before = index.read_bytes()
    assert len(before) > 150_000
    with size_limit(100_000), pytest.raises(PdopsError, match="file size limit"):
        prune(store, script, keep=800)
    assert index.read_bytes() == before
    assert {problem.kind for problem in verify(store)} <= {"leftover"}
    prune(store, script, keep=800)
    assert len(store.versions(str(script))) == 800 and verify(store) == []


@needs_root
def test_another_user_is_refused(store: Store, script: Path) -> None:
    fill(store, script, 3)
    os.chmod(script.parents[1], 0o755)
    os.chmod(store.state_dir, 0o755)
    for name in ("files", "objects"):
        os.chmod(os.path.join(store.state_dir, name), 0o755)
    said = as_user(65534, lambda: prune(Store(store.state_dir), script, keep=1))
    assert said, "it was not refused"
    assert labels(store, script) == ["2", "1", "0"]


def test_a_read_only_state_folder_is_refused(tmp_path: Path) -> None:
    store, script = Store(str(tmp_path / "state")), tmp_path / "decode.sh"
    fill(store, script, 3)
    program = """
from ansible_collections.pdops.sglang.plugins.module_utils.store.pruning import PruneRequest, prune
state, script = sys.argv[1:]
mount("--bind", state, state)
mount("-o", "remount,bind,ro", state)
print(said(lambda: prune(PruneRequest(script, keep=1), Store(state), dict)))
"""
    said = in_own_mounts(program, store.state_dir, str(script))
    assert "read-only" in said
    assert labels(store, script) == ["2", "1", "0"]

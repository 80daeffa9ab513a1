# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import verify

from .conftest import NEW, OLD


@pytest.fixture
def filled(store: Store, script: Path) -> Store:
    """A store in use: versions, a journal, a change's folder."""
    for content, label in ((OLD, "one"), (NEW, "two")):
        store.add_version(str(script), content, label, "alice", None)
    store.write_journal({"verb": "x"})
    store.write_state(os.path.join(Book(store).folder, "20261129T164512-restore-1f2e3d.json"), b"{}\n")
    store.write_state(os.path.join(store.state_dir, "agent", "x.pyz"), b"")
    return store


def test_a_store_in_use_and_an_absent_one_have_no_problems(filled: Store, tmp_path: Path) -> None:
    assert verify(filled) == []
    assert verify(Store(str(tmp_path / "none"))) == []


def append(path: str, line: bytes) -> None:
    with open(path, "ab") as target:
        target.write(line)


def first_object(store: Store) -> Path:
    return min(Path(store.state_dir, "objects").iterdir())


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (lambda s, p: first_object(s).write_bytes(b"x"), "damaged", "is not the content that its name says"),
        (lambda s, p: first_object(s).unlink(), "lost", "the content of version"),
        (lambda s, p: append(s.index_path(p), b'{"half'), "unreadable", "line 3 of"),
        (lambda s, p: append(s.journal_path, b"\xff\n"), "unreadable", "line 2 of"),
        (lambda s, p: append(s.index_path(p), b"{}\n"), "foreign", "line 3 of"),
        (lambda s, p: os.rename(s.index_path(p), s.index_path("/other.sh")), "foreign", "is a version of"),
        (lambda s, p: Path(s.object_path("notes.txt")).touch(0o600), "foreign", "is not of pdops"),
        (lambda s, p: Path(s.object_path("0" * 64)).mkdir(0o700), "foreign", "is not of pdops"),
        (lambda s, p: Path(s.state_dir, "files", "notes").touch(0o600), "foreign", "is not of pdops"),
        (lambda s, p: Path(s.state_dir, "core").touch(0o600), "foreign", "is not of pdops"),
        (lambda s, p: Path(s.state_dir, "agent", "link").symlink_to("/etc"), "foreign", "neither a file nor a folder"),
        (lambda s, p: Path(s.object_path(".pdops-x-0123456789ab")).touch(0o600), "leftover", "a crash cut short"),
        (lambda s, p: Path(s.state_dir, ".pdops-x-0123456789ab").touch(0o600), "leftover", "a crash cut short"),
        (lambda s, p: Path(s.state_dir, ".probe-17").touch(0o600), "leftover", "a crash cut short"),
        (lambda s, p: first_object(s).chmod(0o640), "open", "mode 0640"),
        (lambda s, p: Path(s.state_dir, "changes").chmod(0o755), "open", "mode 0755"),
        (lambda s, p: Path(s.state_dir).chmod(0o755), "open", "chmod 700"),
    ],
)
def test_each_harm_is_found_and_named(
    filled: Store, script: Path, harm: Callable[[Store, str], object], kind: str, words: str
) -> None:
    harm(filled, str(script))
    problems = verify(filled)
    assert [item.kind for item in problems] in ([kind], [kind] * 2), problems
    assert words in problems[0].sentence
    assert all(item.path.startswith(filled.state_dir) and "\n" not in item.sentence for item in problems)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_found(filled: Store) -> None:
    os.chown(first_object(filled), 1234, 1234)
    (problem,) = verify(filled)
    assert (problem.kind, "belongs to uid 1234" in problem.sentence) == ("open", True)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import guard_place, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.agent import start_guard
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.change.verify_records import verify_records
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import Problem, verify

from .conftest import NEW, OLD

ID = "20261129T164512-restore-1f2e3d"
DEEP = b"[" * 100000


def everything(store: Store) -> list[Problem]:
    return sorted((*verify(store), *verify_records(store)), key=lambda item: item.path)


@pytest.fixture
def filled(store: Store, script: Path) -> Store:
    """A store in use: versions, a journal, a change's folder."""
    for content, label in ((OLD, "one"), (NEW, "two")):
        store.add_version(str(script), content, label, "alice", None)
    store.write_journal({"verb": "x"})
    instance = {"name": "d", "unit": "d", "serve_script": str(script)}
    file = {"instance": "d", "path": str(script), "sha256_before": "", "sha256_after": "", "knobs": {}}
    Book(store).begin(rules.new_record(ID, "lab", "set", "x", who.this_process("a"), [file], [instance], 60, "T"), None)
    store.write_state(os.path.join(Book(store).folder, f".{ID}.guard"), b"")
    store.write_state(os.path.join(store.state_dir, "agent", f"{sha256_of(b'x')}.pyz"), b"x")
    store.write_state(os.path.join(store.state_dir, "agent", "guard.log"), b"")
    return store


def test_a_store_in_use_and_an_absent_one_have_no_problems(filled: Store, tmp_path: Path) -> None:
    assert everything(filled) == []
    assert everything(Store(str(tmp_path / "none"))) == []


def append(path: str, line: bytes) -> None:
    with open(path, "ab") as target:
        target.write(line)


def change(store: Store, name: str = f"{ID}.json") -> Path:
    return Path(store.state_dir, "changes", name)


def rewrite(store: Store, **fields: object) -> None:
    record = json.loads(change(store).read_bytes())
    change(store).write_bytes(json.dumps({**record, **fields}).encode())


def private(path: Path, content: bytes = b"") -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def as_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(0o700)


def as_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)


def row_of(store: Store, script: str, **fields: object) -> bytes:
    with open(store.index_path(script), "rb") as source:
        return json.dumps({**json.loads(source.readline()), **fields}).encode() + b"\n"


def first_object(store: Store) -> Path:
    return min(Path(store.state_dir, "objects").iterdir())


@pytest.mark.parametrize(
    ("harm", "kind", "words"),
    [
        (lambda s, p: first_object(s).write_bytes(b"x"), "damaged", "is not the content that its name says"),
        (lambda s, p: first_object(s).unlink(), "lost", "the content of version"),
        (lambda s, p: append(s.index_path(p), b'{"half'), "unreadable", "line 3 of"),
        (lambda s, p: append(s.journal_path, b"\xff\n"), "unreadable", "line 3 of"),
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
        (lambda s, p: append(s.index_path(p), DEEP + b"\n"), "unreadable", "line 3 of"),
        (lambda s, p: append(s.journal_path, DEEP), "unreadable", "line 3 of"),
        (lambda s, p: append(s.index_path(p), row_of(s, p, path="/a\0b")), "foreign", "line 3 of"),
        (lambda s, p: append(s.index_path(p), row_of(s, p, path="/\ud800")), "foreign", "line 3 of"),
        (lambda s, p: change(s).write_bytes(b'{"id": '), "unreadable", f"the record {{}}/changes/{ID}.json cannot"),
        (lambda s, p: change(s).write_bytes(b"{}"), "unreadable", "is not one of change"),
        (lambda s, p: change(s).write_bytes(DEEP), "unreadable", "nested too deeply"),
        (lambda s, p: rewrite(s, lease="soon"), "unreadable", "says nothing usable in lease"),
        (lambda s, p: rewrite(s, files=[1]), "unreadable", "says nothing usable in files"),
        (lambda s, p: rewrite(s, state="done"), "unreadable", "says nothing usable in state"),
        (lambda s, p: private(change(s, "x.json"), b"{}"), "unreadable", "{}/changes/x.json is no record of a change"),
        (lambda s, p: private(change(s, "notes")), "foreign", "is not of pdops"),
        (lambda s, p: as_folder(change(s)), "unreadable", "Is a directory"),
        (lambda s, p: as_folder(Path(s.state_dir, "lock")), "foreign", "{}/lock is a folder"),
        (lambda s, p: as_folder(Path(s.journal_path)), "foreign", "journal.jsonl is a folder"),
        (lambda s, p: private(Path(s.state_dir, "agent", "notes")), "foreign", "is not of pdops"),
        (lambda s, p: private(Path(s.state_dir, "agent", f"{'0' * 64}.pyz")), "damaged", "is not the program"),
        (lambda s, p: first_object(s).chmod(0o640), "open", "mode 0640"),
        (lambda s, p: Path(s.state_dir, "changes").chmod(0o755), "open", "mode 0755"),
        (lambda s, p: Path(s.state_dir).chmod(0o755), "open", "chmod 700"),
    ],
)
def test_each_harm_is_found_and_named(
    filled: Store, script: Path, harm: Callable[[Store, str], object], kind: str, words: str
) -> None:
    harm(filled, str(script))
    problems = everything(filled)
    assert {item.kind for item in problems} == {kind} and len(problems) <= 2, problems
    assert words.format(filled.state_dir) in problems[0].sentence
    assert all(item.path.startswith(filled.state_dir) and "\n" not in item.sentence for item in problems)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_found(filled: Store) -> None:
    os.chown(first_object(filled), 1234, 1234)
    (problem,) = everything(filled)
    assert (problem.kind, "belongs to uid 1234" in problem.sentence) == ("open", True)


@pytest.mark.parametrize("where", ["object", "index", "journal", "change", "lock", "agent", "guard", "guard.log"])
def test_a_fifo_is_found_and_holds_no_verb(filled: Store, script: Path, where: str) -> None:
    """A verb that waits for a writer of a FIFO would wait for ever, with the lock in its hands."""
    sha256 = filled.versions(str(script))[0].sha256
    agent = Path(filled.state_dir, "agent")
    path = {
        "object": Path(filled.object_path(sha256)),
        "index": Path(filled.index_path(str(script))),
        "journal": Path(filled.journal_path),
        "change": change(filled),
        "lock": Path(filled.state_dir, "lock"),
        "agent": agent / f"{sha256_of(b'x')}.pyz",
        "guard": change(filled, f".{ID}.guard"),
        "guard.log": agent / "guard.log",
    }[where]
    as_fifo(path)
    ready = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("a verb hangs at a FIFO"))
    signal.alarm(5)
    try:
        assert str(path) in {item.path for item in everything(filled) if item.kind == "foreign"}
        refused = []
        for verb in (
            lambda: filled.content(sha256),
            lambda: filled.add_version(str(script), b"export A=3\n", "three", "alice", None),
            lambda: filled.add_version(str(script), NEW, "two again", "alice", None),
            lambda: filled.write_journal({"verb": "x"}),
            lambda: Book(filled).load(ID),
            lambda: guard_place.is_alive(Book(filled).folder, ID),
            lambda: start_guard(filled, "/no/agent.pyz", ID, False) if where == "guard.log" else None,
        ):
            try:
                verb()
            except PdopsError as error:
                refused.append(str(error))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, ready)
    assert bool(refused) == (where not in ("agent", "guard")), refused
    assert all(str(path) in sentence for sentence in refused), refused

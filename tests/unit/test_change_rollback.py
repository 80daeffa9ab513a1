# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The way back when the state folder is full, and steps of a change whose guard was killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import agent, guard, guard_place, rollback, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.change.stepping import take_step
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD, NEW = b"export A=1\nexec true\n", b"export A=2\nexec true\n"


def opened(tmp_path: Path, change_id: str = "one-1") -> tuple[Book, Path]:
    """A change whose edit is made: old and new content stored, the new one in place."""
    script = tmp_path / "serve.sh"
    script.write_bytes(NEW)
    book = Book(Store(str(tmp_path / "state")))
    book.store.add_version(str(script), OLD, "old", "test", change_id)
    book.store.add_version(str(script), NEW, "new", "test", change_id)
    file = {
        "instance": "d",
        "path": str(script),
        "sha256_before": sha256_of(OLD),
        "sha256_after": sha256_of(NEW),
        "knobs": {},
    }
    instance = {
        "name": "d",
        "role": "decode",
        "unit": "d",
        "serve_script": str(script),
        "url": "http://127.0.0.1:1",
        "machine": "m",
        "manager": "supervisor",
    }
    leader = who.this_process("alice")
    book.begin(rules.new_record(change_id, "lab", "set", "a test", leader, [file], [instance], 60, now_utc()), None)
    return book, script


def fill_up(book: Book) -> None:
    """No file of this process can grow any more, as on a full disk, but those that are as long as the old script."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD), resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_a_full_state_folder_does_not_keep_the_old_script_from_coming_back(tmp_path: Path) -> None:
    book, script = opened(tmp_path)
    book.set_state("one-1", "rolling-back", "a test", ("open",))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fill_up(book)
            try:
                rollback.roll_back(book, "one-1")
            except (PdopsError, OSError):
                code = 3  # the end could not be written down, so the guard begins again when there is space
        finally:
            os._exit(code)
    _pid, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert script.read_bytes() == OLD
    assert Book(book.store).load("one-1")["state"] == "rolling-back"
    ended = rollback.roll_back(book, "one-1")
    assert ended["state"] == "rolled-back", ended["reason"]


def start_guard(book: Book) -> int:
    guard.ensure(book.store, agent.install(book.store), "one-1", under_systemd=False)
    found = subprocess.run(
        ["pgrep", "-f", f"guard --state-dir {book.store.state_dir}"], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


def test_a_step_starts_a_guard_again_that_was_killed(tmp_path: Path) -> None:
    book, _script = opened(tmp_path)
    pid = start_guard(book)
    _record, warnings = take_step(book.store, "one-1", "stop", "d", "", 30)
    assert warnings == []
    os.kill(pid, signal.SIGKILL)
    while guard_place.is_alive(book.folder, "one-1"):
        time.sleep(0.02)
    record, warnings = take_step(book.store, "one-1", "start", "d", "", 30)
    assert [step["step"] for step in record["steps"]] == ["stop", "start"]
    assert "was gone before start d, and was started again" in warnings[0]
    assert guard_place.is_alive(book.folder, "one-1")
    book.confirm("one-1", "done")


def test_without_the_guards_program_no_step_is_taken(tmp_path: Path) -> None:
    book, _script = opened(tmp_path)
    with pytest.raises(PdopsError, match="the guard is gone, and so is its program"):
        take_step(book.store, "one-1", "stop", "d", "", 30)
    assert book.load("one-1")["steps"] == []


def test_a_change_that_has_ended_takes_no_step(tmp_path: Path) -> None:
    book, _script = opened(tmp_path)
    book.confirm("one-1", "done")
    with pytest.raises(PdopsError, match=r"is confirmed .*stop is refused"):
        take_step(book.store, "one-1", "stop", "d", "", 30)

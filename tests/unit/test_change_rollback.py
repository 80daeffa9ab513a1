# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The way back when the state folder is full, and steps of a change whose guard was killed."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import agent, guard, guard_place, rollback, verbs, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.change.stepping import take_step
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD, NEW = b"export A=1\nexec true\n", b"export A=2\nexec true\n"


def opened(tmp_path: Path, change_id: str = "one-1", budget_s: float = 60) -> tuple[Book, Path]:
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
    book.begin(
        rules.new_record(change_id, "lab", "set", "a test", leader, [file], [instance], budget_s, now_utc()), None
    )
    return book, script


def fill_up(book: Book) -> None:
    """No file of this process can grow any more, as on a full disk, but those that are as long as the old script."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD), resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def in_another_process(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ends(pid: int) -> int:
    _pid, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_full_state_folder_does_not_keep_the_old_script_from_coming_back(tmp_path: Path) -> None:
    book, script = opened(tmp_path)
    book.set_state("one-1", "rolling-back", "a test", ("open",))

    def work() -> None:
        fill_up(book)
        rollback.roll_back(book, "one-1", "a test")

    pid = in_another_process(work)
    wait(lambda: script.read_bytes() == OLD)
    assert book.load("one-1")["state"] == "rolling-back"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert ends(pid) == 0
    ended = book.load("one-1")
    assert (ended["state"], ended["reason"]) == ("rolled-back", "a test")


def test_a_lease_that_ends_when_the_state_folder_is_full_brings_the_old_script_back_all_the_same(
    tmp_path: Path,
) -> None:
    book, script = opened(tmp_path, budget_s=-60)

    def work() -> None:
        fill_up(book)
        guard.watch(book, "one-1")

    pid = in_another_process(work)
    wait(lambda: script.read_bytes() == OLD)
    assert book.load("one-1")["state"] == "open"
    with pytest.raises(PdopsError, match=r"the lease of step 'begin' is over, so confirm is refused"):
        book.confirm("one-1", "a controller that was cut off comes too late")
    with pytest.raises(PdopsError, match=r"the lease of step 'begin' is over, so stop is refused"):
        book.note_step("one-1", "stop", "d", "", 30)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert ends(pid) == 0
    assert book.load("one-1")["state"] == "rolled-back"


def test_the_guard_outlives_a_lock_that_somebody_holds_and_goes_back_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store.lock.__wrapped__, "__defaults__", (0.1, True))  # type: ignore[attr-defined]
    book, script = opened(tmp_path, budget_s=-60)
    log = tmp_path / "log"
    with open(tmp_path / "state" / "lock", "r+b") as lock, open(log, "w") as told:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def work() -> None:
            lock.close()  # of this process, which has the lock from the other one
            sys.stdout = sys.stderr = told
            guard.watch(book, "one-1")

        pid = in_another_process(work)
        wait(lambda: b"holds the lock" in log.read_bytes())
        assert script.read_bytes() == NEW
    assert ends(pid) == 0
    assert script.read_bytes() == OLD and book.load("one-1")["state"] == "rolled-back"


def test_the_end_of_a_way_back_is_written_down_when_the_lock_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store.lock.__wrapped__, "__defaults__", (0.1, True))  # type: ignore[attr-defined]
    book, script = opened(tmp_path)
    book.set_state("one-1", "rolling-back", "a test", ("open",))
    script.write_bytes(OLD)
    log = tmp_path / "log"
    with open(tmp_path / "state" / "lock", "r+b") as lock, open(log, "w") as told:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def work() -> None:
            lock.close()
            sys.stdout = sys.stderr = told
            rollback.roll_back(book, "one-1", "a test")

        pid = in_another_process(work)
        wait(lambda: b"which is not written down yet" in log.read_bytes())
    assert ends(pid) == 0
    assert book.load("one-1")["state"] == "rolled-back"


def test_the_guard_ends_when_its_record_is_gone(tmp_path: Path) -> None:
    book, _script = opened(tmp_path)
    pid = in_another_process(lambda: guard.watch(book, "one-1"))
    shutil.rmtree(book.folder)
    assert ends(pid) == 1


def start_guard(book: Book) -> int:
    guard.ensure(book.store, agent.install(book.store), book.load("one-1"), under_systemd=False)
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


def test_a_renewal_too_starts_a_guard_again_that_was_killed(tmp_path: Path) -> None:
    """Of several machines one steps and the others are renewed, whose scripts may be changed already."""
    book, _script = opened(tmp_path)
    given = {
        "state_dir": book.store.state_dir,
        "verb": "renew",
        "change_id": "one-1",
        "step": "start d",
        "budget_s": 30,
    }
    pid = start_guard(book)
    assert verbs.run(given, check_mode=False)["warnings"] == []
    os.kill(pid, signal.SIGKILL)
    while guard_place.is_alive(book.folder, "one-1"):
        time.sleep(0.02)
    assert "was gone before start d, and was started again" in verbs.run(given, check_mode=False)["warnings"][0]
    assert guard_place.is_alive(book.folder, "one-1")
    book.confirm("one-1", "done")
    with pytest.raises(PdopsError, match="is confirmed"):
        verbs.run(given, check_mode=False)


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

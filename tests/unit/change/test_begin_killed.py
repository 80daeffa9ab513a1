# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (a fixture is imported, and named as an argument)
"""kill -9 of who begins a change, just before and just after the guard is there: no open change is ever without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import guard, verbs, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book

from tests.unit.change.test_reentry import OLD, Changing, changing  # noqa: F401 (a fixture)


def wait(changing: Changing, what: str, **wanted: str) -> None:
    deadline = time.monotonic() + 60
    while changing.guards() or {one["id"]: one["state"] for one in changing.book.all()} != wanted:
        assert time.monotonic() < deadline, (what, changing.guards(), changing.book.all())
        time.sleep(0.05)


def killed(changing: Changing, change_id: str, point: str) -> None:
    """A process that begins the change and is killed ``point`` its guard is there."""
    pid = os.fork()
    if pid == 0:
        ensure = guard.ensure

        def killing(*given: object) -> list[str]:
            if point == "after":
                ensure(*given)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)
            return []

        guard.ensure = killing  # type: ignore[assignment]
        try:
            verbs.run({**changing.given, "verb": "begin", "change_id": change_id}, check_mode=False)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("point", ["before", "after"])
def test_it_leaves_nothing_and_the_next_one_begins(changing: Changing, point: str) -> None:
    killed(changing, "one-1", point)
    wait(changing, "the guard to leave")
    assert "nothing had begun" in verbs.run({**changing.given, "verb": "rollback"}, check_mode=False)["said"]
    verbs.run({**changing.given, "verb": "begin", "change_id": "two-2"}, check_mode=False)
    assert [one["id"] for one in changing.book.all()] == ["two-2"]


@pytest.mark.parametrize("point", ["before", "after"])
def test_what_it_was_to_take_over_goes_back_by_its_own_guard(changing: Changing, point: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        changing.given["leader"] = who.this_process("bob", child.pid)
    for verb in ("begin", "apply"):
        verbs.run({**changing.given, "verb": verb}, check_mode=False)
    assert changing.script.read_bytes() == changing.new
    killed(changing, "two-2", point)
    changing.book.update("one-1", "renew", lambda one: {**one, "lease": {**one["lease"], "deadline_s": 0.0}})
    wait(changing, "the way back", **{"one-1": "rolled-back"})
    assert changing.script.read_bytes() == OLD


def test_a_refused_begin_starts_no_guard(changing: Changing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that begin at once the second may be refused only when its guard is there: that one leaves."""
    verbs.run({**changing.given, "verb": "begin"}, check_mode=False)
    second = {**changing.given, "verb": "begin", "change_id": "two-2"}
    with pytest.raises(rules.PdopsError, match="held by change one-1"):
        verbs.run(second, check_mode=False)
    assert len(changing.guards()) == 1
    monkeypatch.setattr(Book, "admit", lambda *_given: None)
    with pytest.raises(rules.PdopsError, match="held by change one-1"):
        verbs.run(second, check_mode=False)
    changing.book.confirm("one-1", "done")
    wait(changing, "both guards to leave", **{"one-1": "confirmed"})
    assert sorted(path.name for path in Path(changing.book.folder).iterdir()) == [".one-1.guard", "one-1.json"]


def test_it_is_refused_when_another_change_came_between_its_look_and_its_record(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun, it would only fail at its first script, and then at taking back what it had not written."""
    ensure = guard.ensure

    def late(*given: object) -> list[str]:
        changing.script.write_bytes(OLD + b"# of another change\n")
        return ensure(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(guard, "ensure", late)
    with pytest.raises(rules.PdopsError, match="is not what it was"):
        verbs.run({**changing.given, "verb": "begin"}, check_mode=False)
    wait(changing, "the guard to leave")
    assert "nothing had begun" in verbs.run({**changing.given, "verb": "rollback"}, check_mode=False)["said"]


def test_a_begin_that_comes_again_is_not_refused_for_what_it_wrote_itself(changing: Changing) -> None:
    for verb in ("begin", "apply", "begin"):
        verbs.run({**changing.given, "verb": verb}, check_mode=False)
    assert changing.script.read_bytes() == changing.new

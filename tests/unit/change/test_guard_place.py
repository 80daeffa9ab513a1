# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (a fixture is imported, and named as an argument)
"""The place of a guard: nobody who looks, leaves or stands still at the wrong moment keeps a change without one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import agent, guard, guard_place, verbs
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from tests.unit.change.test_reentry import Changing, changing  # noqa: F401 (a fixture)

CHANGE = "one-1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "changes"
    made.mkdir()
    return made


def at_first(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Any) -> None:
    """``act`` before the first call of that name."""
    real, acts = getattr(owner, name), iter([act])

    def acting(*given: Any, **named: Any) -> Any:
        next(acts, lambda: None)()
        return real(*given, **named)

    monkeypatch.setattr(owner, name, acting)


def test_who_only_looks_keeps_no_guard_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = os.open(folder / f".{CHANGE}.guard", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(looking, fcntl.LOCK_SH)
    at_first(monkeypatch, guard_place, "is_alive", lambda: os.close(looking))
    with guard_place.sole(str(folder), CHANGE) as mine:
        assert mine and guard_place.is_alive(str(folder), CHANGE)
        with guard_place.sole(str(folder), CHANGE) as second:
            assert not second
    assert not guard_place.is_alive(str(folder), CHANGE)


def test_a_place_that_its_former_holder_took_away_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_first(monkeypatch, fcntl, "flock", lambda: guard_place.leave(str(folder), CHANGE))
    with guard_place.sole(str(folder), CHANGE) as mine:
        assert mine and guard_place.is_alive(str(folder), CHANGE)


def test_while_a_guard_leaves_its_change_cannot_begin_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A begin that comes again would find this guard, and count on it."""
    looked = []

    def begin_again() -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(descriptor)
        looked.append(CHANGE)

    at_first(monkeypatch, guard_place, "leave", begin_again)
    with guard_place.sole(str(folder), CHANGE):
        guard.watch(Book(Store(str(tmp_path))), CHANGE)
    assert looked == [CHANGE] and list(folder.iterdir()) == []


def test_a_begin_that_stood_still_until_its_guard_was_there_goes_on(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = agent.start_guard

    def started(*given: Any) -> list[str]:
        told = real(*given)
        while not guard_place.is_alive(changing.book.folder, CHANGE):
            os.sched_yield()
        return told

    monkeypatch.setattr(agent, "start_guard", started)
    monkeypatch.setattr(guard, "_START_S", 0.0)
    assert verbs.run({**changing.given, "verb": "begin"}, check_mode=False)["change"]["state"] == "open"

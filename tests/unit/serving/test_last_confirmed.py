# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the machine confirmed is known although the controller died before it wrote it down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed.intended import (
    Intended,
    read_intended,
    write_intended,
)
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import BEGIN, END
from ansible_collections.pdops.sglang.plugins.module_utils.serving.confirmed import Confirmed, catch_up
from ansible_collections.pdops.sglang.plugins.module_utils.serving.last_confirmed import caught_up, moves_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

DECODE = Instance("decode", "decode", "decode", "/root/decode.sh", "http://127.0.0.1:1", "m")
DEPLOYED, SET = "20261129T200000-deploy-aaaaaa", "20261129T210000-set-bbbbbb"


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(Store(str(tmp_path / "state")))


def change(book: Book, change_id: str, at: str, *, end: str = "confirmed", **item: Any) -> None:
    file = {"instance": "decode", "path": "/root/decode.sh", "sha256_before": "absent", "sha256_after": "b", **item}
    leader = {"user": "alice", "host": "ops1", "pid": 1}
    record = rules.new_record(change_id, "dsv4", "deploy", "it", leader, [file], [DECODE.as_dict()], 60, at)
    book.begin(record, None)
    if end == "confirmed":
        book.confirm(change_id, "it")
        return
    book.set_state(change_id, "rolling-back", "why", ("open",))
    book.set_state(change_id, end, "why", ("rolling-back",))


def script(book: Book, *lines: str) -> str:
    return book.store.put("\n".join(("#!/bin/sh", BEGIN, *lines, END, "exec true", "")).encode())


def history(book: Book) -> list[dict[str, Any]]:
    """A deploy, a knob that was set, and one that went back."""
    whole = script(book, "export A=1", "export B=1", "export SPT_NOENV=1")
    change(book, DEPLOYED, "2026-11-29T20:00:00Z", kind="script", existed=False, mode=0o750, sha256_after=whole)
    change(book, SET, "2026-11-29T21:00:00Z", knobs={"A": ["1", "2"], "B": ["1", None]})
    change(book, "20261129T220000-set-cccccc", "2026-11-29T22:00:00Z", end="rolled-back", knobs={"A": ["2", "3"]})
    return moves_of(book, DECODE)


def test_what_is_newer_than_what_is_written_down_is_taken_and_nothing_else(book: Book) -> None:
    moves = history(book)
    assert [move["id"] for move in moves] == [DEPLOYED, SET]
    from_nothing = caught_up(moves, None, None)
    assert from_nothing is not None and dict(from_nothing.knobs) == {"A": "2", "SPT_NOENV": "1"}
    assert (from_nothing.change_id, from_nothing.actor) == (SET, "alice on ops1")
    from_the_deploy = caught_up(moves, {"A": "1", "B": "1", "EDITED_IN_THE_FILE": "1"}, DEPLOYED)
    assert from_the_deploy is not None and dict(from_the_deploy.knobs) == {"A": "2", "EDITED_IN_THE_FILE": "1"}
    assert caught_up(moves, {"A": "9"}, SET) is None
    assert caught_up(moves, {"A": "9"}, "20261129T230000-set-dddddd") is None  # of a change that this store never saw


def test_a_script_that_no_template_made_tells_nothing(book: Book) -> None:
    plain = book.store.put(b"#!/bin/sh\nexport A=1\nexec true\n")
    change(book, DEPLOYED, "2026-11-29T20:00:00Z", kind="script", existed=True, mode=0o750, sha256_after=plain)
    change(book, SET, "2026-11-29T21:00:00Z", knobs={"A": ["1", "2"]})
    assert caught_up(moves_of(book, DECODE), None, None) is None


def test_the_next_run_writes_it_once(book: Book, tmp_path: Path) -> None:
    folder = str(tmp_path / "intended")
    infos = ({"instances": {"decode": {"confirmed": history(book)}}},)
    done = Confirmed("dsv4", (DECODE,), (), infos, (), "", "", "2026-11-30T00:00:00Z")
    assert catch_up(folder, done) == ["decode"]
    written = read_intended(folder, "instance", "decode")
    assert written is not None and (dict(written.knobs), written.change_id) == ({"A": "2"}, SET)
    assert written.actor == "alice on ops1"
    assert catch_up(folder, done) == []
    write_intended(folder, Intended("instance", "decode", {"A": "1", "B": "1"}, DEPLOYED, "a", "2026-11-29T20:00:00Z"))
    assert catch_up(folder, done) == ["decode"]

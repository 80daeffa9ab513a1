# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Confirmed changes whose controller died before their entry was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.record.joining import unwritten

ME = "alice on ops1"


@dataclass
class Kept:
    at: str
    data: dict[str, Any]


@dataclass
class Record:
    entries: list[Kept] = field(default_factory=list)


def row(number: int, **more: Any) -> dict[str, Any]:
    base = {"id": f"c{number}", "verb": "set", "state": "confirmed", "who": ME, "summary": "set A=1", "files": []}
    return {**base, "ended": f"2026-11-29T20:0{number}:00Z", "controller_gone": True, **more}


def found(record: Record, *rows: dict[str, Any]) -> list[str]:
    return [done["change_id"] for done in unwritten(record, rows, ME)]  # type: ignore[arg-type]


def test_what_the_record_lacks_is_added_and_of_an_empty_one_the_newest() -> None:
    record = Record([Kept("2026-11-29T20:02:00Z", {"change_id": "c2"})])
    assert found(record, row(4), row(3), row(2), row(1)) == ["c3", "c4"]
    assert found(Record(), row(4), row(3)) == ["c4"]
    # A restart has nothing to tell, unless it took over what an interrupted change had written.
    assert found(record, row(3, verb="restart", files=[{"instance": "d", "knobs": {}}])) == ["c3"]
    (done,) = unwritten(record, [row(3), row(3)], ME)  # type: ignore[arg-type]
    assert (done["outcome"], len(done["changes"])) == ("confirmed", 2)


def test_a_change_of_which_nobody_knew_what_became_of_it_is_written_when_it_was_confirmed_after_all() -> None:
    told = {"change_id": "c3", "kind": "rollback", "outcome": "not-known"}
    record = Record([Kept("2026-11-29T20:02:00Z", {"change_id": "c2"}), Kept("2026-11-29T20:03:30Z", told)])
    assert found(record, row(3, ended="2026-11-29T20:03:00Z")) == ["c3"]


@pytest.mark.parametrize(
    "other",
    [{"who": "bob on ops2"}, {"controller_gone": False}, {"verb": "restart"}, {"state": "rolled-back"}],
)
def test_what_is_not_confirmed_or_not_ours_to_write_is_left(other: dict[str, Any]) -> None:
    assert found(Record([Kept("2026-11-29T20:02:00Z", {})]), row(3, **other), row(4)) == ["c4"]

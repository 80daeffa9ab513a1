# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A change that holds on one machine and not on another; kill_fleet.py makes them by dying, here is what is said of them."""

from __future__ import annotations

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils.change.split import splits


def change(change_id: str, state: str, *now: str) -> dict[str, Any]:
    files = [{"path": f"/{number}", "now": one} for number, one in enumerate(now)]
    return {"id": change_id, "state": state, "files": files, "summary": "set A=1", "opened": "2026-11-29T10:00:00Z"}


def machine(name: str, *ended: dict[str, Any], is_open: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"change_machine": name, "ended": list(ended), "changes": list(is_open)}


def test_new_here_and_old_there_is_a_split_and_says_where() -> None:
    (found,) = splits(
        [machine("a", change("c-1", "confirmed", "new")), machine("b", change("c-1", "rolled-back", "old"))]
    )
    assert (found["confirmed"], found["not_confirmed"], found["content"]) == (["a"], ["b"], "mixed")
    assert found["lines"][:3] == [
        "change c-1 is SPLIT over its machines: set A=1",
        "  a: confirmed, its scripts have the new content",
        "  b: rolled-back, its scripts have the old content",
    ]


def test_one_that_is_still_open_somewhere_is_a_split_too() -> None:
    found = splits([machine("a", change("c-1", "confirmed")), machine("b", is_open=(change("c-1", "open", "new"),))])
    assert found[0]["is_open"] and "a: confirmed, no script of it there" in found[0]["lines"][1]


def test_scripts_that_belong_together_are_none() -> None:
    assert splits([machine("a", change("c-1", "confirmed")), machine("b", change("c-1", "rolled-back", "old"))]) == []
    assert (
        splits([machine("a", change("c-1", "confirmed", "new")), machine("b", change("c-1", "confirmed", "new"))]) == []
    )


def test_a_later_change_that_holds_on_all_its_machines_settles_it() -> None:
    a = machine("a", change("c-2", "confirmed", "new"), change("c-1", "confirmed", "new"))
    assert splits([a, machine("b", change("c-2", "confirmed"), change("c-1", "rolled-back", "old"))]) == []
    assert len(splits([a, machine("b", change("c-2", "rolled-back"), change("c-1", "rolled-back", "old"))])) == 1

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a confirmed change leaves as intended, in files beside the inventory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.managed.intended import read_intended
from ansible_collections.pdops.sglang.plugins.module_utils.serving.confirmed import Confirmed, write_down

INSTANCES = tuple(
    Instance(role, role, role, f"/root/{role}.sh", f"http://127.0.0.1:{n + 1}", "m")
    for n, role in enumerate(("prefill", "decode", "router"))
)
LAYOUT, OWN = "SGLANG_DSV4_KV_LAYOUT", "SGLANG_LOG_MS"


def done(change_id: str, infos: list[dict[str, Any]], *edits: dict[str, Any]) -> Confirmed:
    return Confirmed("dsv4", INSTANCES, edits, tuple(infos), (LAYOUT,), change_id, "alice", "2026-11-29T20:00:00Z")


def deployed(prefill: dict[str, str], decode: dict[str, str]) -> list[dict[str, Any]]:
    offers = {"prefill": prefill, "decode": decode, "router": {}}
    return [{"instances": {}, "deploy": {name: {"intended": knobs} for name, knobs in offers.items()}}]


def seen(managed: bool, **knobs: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "instances": {
                name: {"script": {"managed": managed}, "intended": knobs.get(name, {})}
                for name in ("prefill", "decode", "router")
            }
        }
    ]


def knobs(folder: Path, kind: str, name: str) -> dict[str, str] | None:
    found = read_intended(str(folder), kind, name)
    return None if found is None else dict(found.knobs)


def edit(instance: str, knob: str, after: str | None) -> dict[str, Any]:
    return {"instance": instance, "knob": knob, "after": after}


def test_a_deploy_writes_what_the_scripts_have_and_the_pairs_once(tmp_path: Path) -> None:
    infos = deployed({LAYOUT: "packed", "SPT_NOENV": "1"}, {LAYOUT: "packed", OWN: "1", "CUDA_VISIBLE_DEVICES": "4"})
    assert write_down(str(tmp_path), done("c1", infos)) == ["dsv4.pair", "prefill", "decode", "router"]
    assert knobs(tmp_path, "pair", "dsv4") == {LAYOUT: "packed"}
    assert knobs(tmp_path, "instance", "decode") == {OWN: "1"}
    assert knobs(tmp_path, "instance", "prefill") == {}


def test_what_a_deploy_leaves_as_it_was_keeps_its_change(tmp_path: Path) -> None:
    write_down(str(tmp_path), done("c1", deployed({LAYOUT: "packed"}, {LAYOUT: "packed", OWN: "1"})))
    assert write_down(str(tmp_path), done("c2", deployed({LAYOUT: "packed"}, {LAYOUT: "packed", OWN: "2"}))) == [
        "decode"
    ]
    prefill = read_intended(str(tmp_path), "instance", "prefill")
    assert prefill is not None and prefill.change_id == "c1"
    assert write_down(str(tmp_path), done("c3", deployed({LAYOUT: "packed"}, {LAYOUT: "packed", OWN: "2"}))) == []


def test_another_verb_writes_only_what_it_changed_so_that_an_edit_by_hand_is_still_found(tmp_path: Path) -> None:
    write_down(str(tmp_path), done("c1", deployed({LAYOUT: "packed"}, {LAYOUT: "packed", OWN: "1"})))
    by_hand = seen(True, prefill={LAYOUT: "packed"}, decode={LAYOUT: "packed", OWN: "1", "BY_HAND": "1"})
    write_down(str(tmp_path), done("c2", by_hand, edit("decode", OWN, "2"), edit("decode", "NEW", "x")))
    assert knobs(tmp_path, "instance", "decode") == {OWN: "2", "NEW": "x"}
    write_down(str(tmp_path), done("c3", by_hand, edit("decode", OWN, None)))
    assert knobs(tmp_path, "instance", "decode") == {"NEW": "x"}
    # A rollback changes several at once.
    write_down(
        str(tmp_path),
        done("c4", by_hand, {"instance": "decode", "knob": "", "after": None, "expect": {"NEW": None, OWN: "1"}}),
    )
    assert knobs(tmp_path, "instance", "decode") == {OWN: "1"}


def test_a_pairs_knob_that_is_set_on_one_becomes_each_ones_own(tmp_path: Path) -> None:
    write_down(str(tmp_path), done("c1", deployed({LAYOUT: "packed"}, {LAYOUT: "packed"})))
    write_down(str(tmp_path), done("c2", seen(True), edit("decode", LAYOUT, "flat")))
    assert knobs(tmp_path, "pair", "dsv4") == {}
    assert knobs(tmp_path, "instance", "prefill") == {LAYOUT: "packed"}
    assert knobs(tmp_path, "instance", "decode") == {LAYOUT: "flat"}


def test_of_a_managed_script_without_a_record_everything_is_written_and_of_an_adopted_one_nothing(
    tmp_path: Path,
) -> None:
    assert write_down(str(tmp_path), done("c1", seen(False, decode={OWN: "1"}), edit("decode", OWN, "2"))) == []
    assert not list(tmp_path.iterdir())
    write_down(
        str(tmp_path), done("c2", seen(True, decode={OWN: "1", "B": "1", "API_KEY": "x"}), edit("decode", OWN, "2"))
    )
    assert knobs(tmp_path, "instance", "decode") == {OWN: "2", "B": "1"}


def test_what_an_interrupted_run_had_written_is_confirmed_by_the_one_that_finishes_it(tmp_path: Path) -> None:
    write_down(str(tmp_path), done("c1", deployed({}, {OWN: "1"})))
    left = seen(True, decode={OWN: "2"})
    left[0]["open_change"] = {"id": "c2", "files": [{"instance": "decode", "knobs": {OWN: ["1", "2"]}}]}
    write_down(str(tmp_path), done("c3", left))
    assert knobs(tmp_path, "instance", "decode") == {OWN: "1"}  # somebody else's, which is not finished here
    never_written = [{**left[0], "open_change": {**left[0]["open_change"]}}]
    never_written[0]["open_change"]["files"] = [{**left[0]["open_change"]["files"][0], "now": "old"}]
    write_down(str(tmp_path), replace(done("c3", never_written), taken_over="c2"))
    assert knobs(tmp_path, "instance", "decode") == {OWN: "1"}  # that run had died before it came to the script
    write_down(str(tmp_path), replace(done("c3", left), taken_over="c2"))
    assert knobs(tmp_path, "instance", "decode") == {OWN: "2"}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Intended values: what is written is read back, and what is not theirs is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.pdops.sglang.plugins.module_utils.managed.intended import (
    Intended,
    check_folder,
    folder_beside,
    from_bytes,
    path_of,
    read_intended,
    to_bytes,
    write_intended,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from hypothesis import given, settings
from hypothesis import strategies as st

ONE = Intended(
    "instance", "dsv4-decode", {"SGLANG_B": "é'\"\\", "SGLANG_A": "512"}, "set-1", "erika", "2026-11-29T20:04:56Z"
)
PAIR = Intended("pair", "dsv4", {"SGLANG_DSV4_KV_LAYOUT": "x"}, "set-2", "", "2026-11-29T20:04:56Z")


def test_the_form_of_the_file(tmp_path: Path) -> None:
    assert write_intended(str(tmp_path / "lab.intended"), ONE) is True
    path = tmp_path / "lab.intended" / "dsv4-decode.json"
    assert json.loads(path.read_text()) == {
        "schema": 1,
        "instance": "dsv4-decode",
        "knobs": {"SGLANG_A": "512", "SGLANG_B": "é'\"\\"},
        "change_id": "set-1",
        "actor": "erika",
        "confirmed_at": "2026-11-29T20:04:56Z",
    }
    assert path.read_text().endswith("}\n") and '\n    "SGLANG_A": "512",\n' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644


def test_instance_and_pair_are_read_back_and_the_same_again_writes_nothing(tmp_path: Path) -> None:
    folder = str(tmp_path / "x.intended")
    assert read_intended(folder, "instance", "dsv4-decode") is None
    for one in (ONE, PAIR):
        assert write_intended(folder, one) is True
        assert read_intended(folder, one.kind, one.name) == one
        inode = Path(path_of(folder, one.kind, one.name)).stat().st_ino
        assert write_intended(folder, one) is False
        assert Path(path_of(folder, one.kind, one.name)).stat().st_ino == inode
    later = replace(ONE, knobs={}, change_id="set-3")
    assert write_intended(folder, later) is True
    assert read_intended(folder, "instance", "dsv4-decode") == later
    assert sorted(item.name for item in (tmp_path / "x.intended").iterdir()) == ["dsv4-decode.json", "dsv4.pair.json"]


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    values=st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}X", fullmatch=True),
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\n")),
    ),
    actor=st.text(st.characters(exclude_categories=("Cs",))),
)
def test_every_value_is_read_back(values: dict[str, str], actor: str) -> None:
    one = replace(ONE, knobs=values, actor=actor)
    assert from_bytes(to_bytes(one), "x") == one


def changed(**fields: Any) -> bytes:
    document = {**json.loads(to_bytes(ONE)), **fields}
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n", "a merge left its marks"),
        (b"[]", "is no JSON object"),
        (to_bytes(ONE).replace(b'"SGLANG_B"', b'"SGLANG_A"'), "SGLANG_A stands in it twice"),
        (changed(schema=2), "has schema 2, and this pdops reads 1"),
        (changed(schema=True), "has schema True"),
        (changed(schema=...), "has schema None"),
        (changed(note="x"), "and nothing else; see note"),
        (changed(actor=...), "see actor"),
        (changed(pair="dsv4"), "instance or pair"),
        (changed(instance=...), "instance or pair"),
        (changed(instance="../x"), "has instance '../x'"),
        (changed(confirmed_at="yesterday"), "has confirmed_at 'yesterday'"),
        (changed(change_id=""), "has change_id ''"),
        (changed(actor=None), "has actor None"),
        (changed(knobs=["A"]), "knobs is no object"),
        (changed(knobs={"A": 1}), "the value of A is no string"),
        (changed(knobs={"A": None}), "the value of A is no string"),
        (changed(knobs={"A": "a\nb"}), "has a line end"),
        (changed(knobs={"A-B": "1"}), "cannot be the name"),
        (changed(knobs={"HF_TOKEN": "hf_geheim"}), "looks like a secret"),
    ],
)
def test_what_is_not_of_the_schema_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(PdopsError, match=told) as refused:
        from_bytes(content, "dsv4-decode.json")
    assert "geheim" not in str(refused.value)


def test_a_secret_or_a_bad_value_is_not_written(tmp_path: Path) -> None:
    for knobs in ({"HF_TOKEN": "hf_geheim"}, {"A": "a\nb"}):
        with pytest.raises(PdopsError):
            write_intended(str(tmp_path / "y"), replace(ONE, knobs=knobs))
    assert not (tmp_path / "y").exists()


def test_a_file_of_another_one_is_refused(tmp_path: Path) -> None:
    write_intended(str(tmp_path), ONE)
    (tmp_path / "dsv4-decode.json").rename(tmp_path / "other.json")
    with pytest.raises(PdopsError, match="holds the intended values of instance dsv4-decode"):
        read_intended(str(tmp_path), "instance", "other")


def test_names_are_file_names() -> None:
    for name in ("../x", "a/b", "", ".hidden", "dsv4.pair"):
        with pytest.raises(PdopsError, match="cannot be the name of a file"):
            path_of("/x", "instance", name)
    assert path_of("/x", "pair", "dsv4") == "/x/dsv4.pair.json"
    with pytest.raises(PdopsError, match="must be instance or pair"):
        path_of("/x", "router", "r")


def test_the_folder_lies_beside_the_inventory_and_is_none_itself(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory" / "lab"
    inventory.mkdir(parents=True)
    (inventory / "hosts.yml").write_text("all: {hosts: {dsv4-decode: {}}}\n")
    assert folder_beside(str(inventory)) == f"{inventory}.intended"
    assert folder_beside(f"{inventory}/") == f"{inventory}.intended"
    assert folder_beside(str(tmp_path / "prod.yml")) == str(tmp_path / "prod.intended")
    assert folder_beside(str(tmp_path / "prod")) == str(tmp_path / "prod.intended")
    write_intended(folder_beside(str(inventory)), ONE)
    found = InventoryManager(loader=DataLoader(), sources=[str(inventory)])
    assert [host.name for host in found.get_hosts()] == ["dsv4-decode"]


def test_a_folder_that_could_not_be_written_is_refused_before_any_effect(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "comes" / "later"))
    (tmp_path / "file").write_text("")
    with pytest.raises(
        PdopsError, match=r"into .*/file/intended on the controller .*/file is no folder; put that right"
    ):
        check_folder(str(tmp_path / "file" / "intended"))
    with pytest.raises(PdopsError, match=r"this user may not write in /proc/self; put that right"):
        check_folder("/proc/self/intended")

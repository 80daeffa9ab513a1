# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The three-way comparison: the table, then laws over generated values."""

from __future__ import annotations

from typing import Optional

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.managed.three_way import (
    Decision,
    Moved,
    base_of,
    decided_knobs,
    three_way,
    to_write_down,
    who_moved,
)
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from hypothesis import given, settings
from hypothesis import strategies as st

PATH = "/srv/serve_decode.sh"


def knobs(value: Optional[str]) -> dict[str, str]:
    return {} if value is None else {"A": value}


@pytest.mark.parametrize(
    ("base", "host", "wanted", "act", "with_host", "with_vars"),
    [
        ("1", "1", "1", "none", "1", "1"),
        ("1", "1", "2", "apply", "2", "2"),
        ("1", "1", None, "apply", None, None),
        (None, None, "2", "apply", "2", "2"),
        ("1", "2", "2", "none", "2", "2"),
        ("1", None, None, "none", None, None),
        ("1", "2", "1", "conflict", "2", "1"),
        ("1", None, "1", "conflict", None, "1"),
        (None, "2", None, "conflict", "2", None),
        ("1", "2", "3", "conflict", "2", "3"),
        ("1", None, "3", "conflict", None, "3"),
        ("1", "2", None, "conflict", "2", None),
        (None, "2", "3", "conflict", "2", "3"),
    ],
)
def test_every_case(
    base: Optional[str],
    host: Optional[str],
    wanted: Optional[str],
    act: str,
    with_host: Optional[str],
    with_vars: Optional[str],
) -> None:
    args = knobs(base), knobs(host), knobs(wanted)
    found = three_way(*args)
    assert [(row.name, row.act) for row in found] == ([("A", act)])
    if act == "conflict":
        with pytest.raises(PdopsError):
            decided_knobs(found, "dsv4-decode")
    else:
        assert decided_knobs(found, "dsv4-decode") == knobs(with_vars)
    assert decided_knobs(three_way(*args, take="host"), "d") == knobs(with_host)
    assert decided_knobs(three_way(*args, take="vars"), "d") == knobs(with_vars)


def test_without_a_record_every_difference_is_a_conflict_and_without_a_script_none_is() -> None:
    assert [row.act for row in three_way(None, {"A": "1", "B": "2"}, {"A": "1", "B": "3"})] == ["none", "conflict"]
    assert [row.act for row in three_way(None, {}, {"A": "1"})] == ["conflict"]
    assert [row.act for row in three_way({"A": "1"}, None, {"A": "2", "B": "3"})] == ["apply", "apply"]
    assert "no confirmed change is on record" in three_way(None, {}, {"A": "1"})[0].sentence


def test_a_conflict_names_the_change_and_the_actor_or_that_it_was_by_hand() -> None:
    moved = {"A": Moved("restore-20261129-1", "erika", "2026-11-29T20:04:56Z")}
    found = three_way({"A": "1", "B": "1"}, {"A": "2", "B": "2"}, {"A": "3"}, moved=moved)
    with pytest.raises(PdopsError) as refused:
        decided_knobs(found, "dsv4-decode")
    told = str(refused.value)
    assert (
        "A is '2' on the machine, set by change restore-20261129-1 of erika at 2026-11-29T20:04:56Z; "
        "it was '1' at the last confirmed change, and the variables ask for '3'" in told
    )
    assert "B is '2' on the machine, set by hand" in told and "the variables ask for unset" in told
    assert "take=host" in told and "take=vars" in told
    assert [row["name"] for row in refused.value.details["conflicts"]] == ["A", "B"]
    kept = three_way({"A": "1", "B": "1"}, {"A": "2"}, {"A": "1", "B": "1"}, take="host")
    assert to_write_down(kept) == {"A": "2", "B": None}
    assert "the machine is kept" in kept[0].sentence


def test_a_secret_on_the_machine_is_masked() -> None:
    found = three_way({}, {"HF_TOKEN": "hf_geheim"}, {})
    with pytest.raises(PdopsError) as refused:
        decided_knobs(found, "d")
    assert "geheim" not in str(refused.value) + str(refused.value.details) + str(found[0].as_dict())
    assert "********" in str(refused.value)


def test_take_is_host_or_vars() -> None:
    with pytest.raises(PdopsError, match="take=mine is unknown"):
        three_way({}, {}, {}, take="mine")


VALUES = st.one_of(st.none(), st.sampled_from(("1", "2", "3")))
SIDES = st.dictionaries(st.sampled_from("ABCD"), st.sampled_from(("1", "2", "3")))
MAYBE = st.one_of(st.none(), SIDES)
LAWS = settings(max_examples=400, deadline=None, database=None, derandomize=True)


def by_name(rows: tuple[Decision, ...]) -> dict[str, Decision]:
    assert len({row.name for row in rows}) == len(rows)
    return {row.name: row for row in rows}


@LAWS
@given(base=MAYBE, host=MAYBE, wanted=SIDES, take=st.sampled_from((None, "host", "vars")))
def test_nothing_is_lost_silently(
    base: Optional[dict[str, str]], host: Optional[dict[str, str]], wanted: dict[str, str], take: Optional[str]
) -> None:
    rows = by_name(three_way(base, host, wanted, take))
    assert set(rows) == {*(base or {}), *(host or {}), *wanted}
    for name, row in rows.items():
        was, has, wants = (base or {}).get(name), (host or {}).get(name), wanted.get(name)
        assert (row.base, row.host, row.vars) == (was, has, wants)
        assert row.value in (has, wants)
        # what is on the machine goes only when it is what was confirmed, or when the operator said so
        if row.value != has:
            assert host is None or (base is not None and has == was) or take == "vars"
        # what the variables ask for is passed over only when the operator said so, or it is refused
        if row.value != wants:
            assert row.act == "conflict" or take == "host"
        assert (row.act == "none") == (has == wants)
        assert row.act != "conflict" or take is None


@LAWS
@given(base=SIDES, host=SIDES, wanted=SIDES)
def test_take_is_symmetric_and_decides_conflicts_only(
    base: dict[str, str], host: dict[str, str], wanted: dict[str, str]
) -> None:
    plain, by_host, by_vars = (by_name(three_way(base, host, wanted, take)) for take in (None, "host", "vars"))
    mirrored = by_name(three_way(base, wanted, host, "vars"))
    for name, row in plain.items():
        if row.act != "conflict":
            assert by_host[name] == by_vars[name] == row
        else:
            assert by_host[name].value == row.host and by_vars[name].value == row.vars
        if row.host not in (row.base, row.vars) and row.vars != row.base:
            # all three differ: keeping the machine is overwriting it in the mirror
            assert mirrored[name].value == by_host[name].value


@LAWS
@given(base=SIDES, host=SIDES, wanted=SIDES, take=st.sampled_from(("host", "vars")))
def test_a_second_deploy_finds_nothing(
    base: dict[str, str], host: dict[str, str], wanted: dict[str, str], take: str
) -> None:
    rows = three_way(base, host, wanted, take)
    final = decided_knobs(rows, "d")
    written = {**wanted, **to_write_down(rows)}
    asked = {name: value for name, value in written.items() if value is not None}
    assert asked == final
    assert all(row.act == "none" for row in three_way(final, final, asked))


def test_the_journal_tells_who_moved_a_knob_as_long_as_it_still_has_that_value() -> None:
    def row(
        at: str, change: Optional[str], before: Optional[str], after: Optional[str], path: str = PATH
    ) -> dict[str, object]:
        sides = {"A": {"before": before, "after": after}}
        return {"at": at, "path": path, "knobs": sides, "change_id": change, "actor": "erika", "verb": "serve_knob"}

    journal = [
        {"at": "t0", "verb": "confirm", "change_id": "x"},
        row("t1", "c1", None, "1"),
        row("t2", "c2", "1", "2"),
        row("t3", "c3", "2", "2"),
        row("t4", "c4", "9", "2", path="/srv/other.sh"),
    ]
    assert who_moved(journal, PATH, {"A": "2"}) == {"A": Moved("c2", "erika", "t2", "serve_knob")}
    assert who_moved(journal, PATH, {"A": "1"}) == {}
    assert who_moved([*journal, row("t5", None, "2", None)], PATH, {}) == {
        "A": Moved(None, "erika", "t5", "serve_knob")
    }
    assert who_moved([{"path": PATH, "knobs": ["A"]}], PATH, {}) == {}


def test_the_base_of_an_instance_is_the_pairs_and_its_own() -> None:
    assert base_of(None, None) is None
    assert base_of({"A": "1"}, None) == {"A": "1"}
    assert base_of({"A": "1"}, {"B": "2"}) == {"A": "1", "B": "2"}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""serve_script with a comparison: what somebody did on the machine is kept, refused or overwritten as it is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.knob_edit import EditRequest, edit
from ansible_collections.pdops.sglang.plugins.module_utils.managed.comparing import Comparison
from ansible_collections.pdops.sglang.plugins.module_utils.managed.intended import split
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import knobs_of
from ansible_collections.pdops.sglang.plugins.module_utils.managed.script_edit import Placed, ScriptRequest, place
from ansible_collections.pdops.sglang.plugins.module_utils.managed.three_way import base_of, to_write_down
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from hypothesis import given, settings
from hypothesis import strategies as st

from .rendering import base_of as rendered_base
from .rendering import launch, rendered

Put = Callable[..., Placed]
CONFIRMED = {"SGLANG_A": "1", "SGLANG_B": "1"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serve_decode.sh"


@pytest.fixture
def put(path: Path, store: Store) -> Put:
    def run(
        knobs: dict[str, str], take: str | None = None, confirmed: dict[str, str] | None = CONFIRMED, **changed: Any
    ) -> Placed:
        comparison = Comparison(confirmed, None if confirmed is None else "deploy-1", take)
        base = rendered_base(launch("decode", **changed))
        return place(ScriptRequest(str(path), base, knobs, comparison=comparison), store, False)

    def first() -> None:
        base = rendered_base(launch("decode"))
        place(ScriptRequest(str(path), base, CONFIRMED, change_id="deploy-1", actor="erika"), store, False)

    first()
    return run


def test_only_the_variables_moved(put: Put, path: Path) -> None:
    done = put({"SGLANG_A": "2", "SGLANG_C": "3"}, pd_arguments={"max-running-requests": 64}, pd_gpus=[0, 1, 2, 3])
    assert {row.name: row.act for row in done.plan.decisions} == {
        "SPT_NOENV": "none",
        "CUDA_VISIBLE_DEVICES": "apply",
        "SGLANG_A": "apply",
        "SGLANG_C": "apply",
        "SGLANG_B": "apply",
    }
    found = knobs_of(path.read_bytes())
    assert found["SGLANG_A"] == "2" and "SGLANG_B" not in found and found["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert b"--max-running-requests 64" in path.read_bytes()


def test_a_knob_that_was_set_in_another_change_is_a_conflict_with_its_id(put: Put, path: Path, store: Store) -> None:
    edit(EditRequest(str(path), {"SGLANG_A": "9"}, change_id="set-7", actor="otto"), store, False)
    before = path.read_bytes()
    with pytest.raises(PdopsError, match="SGLANG_A is '9' on the machine, set by change set-7 of otto at"):
        put(CONFIRMED)
    assert path.read_bytes() == before
    kept = put({**CONFIRMED, "SGLANG_B": "2"}, "host")
    assert knobs_of(path.read_bytes())["SGLANG_A"] == "9" and knobs_of(path.read_bytes())["SGLANG_B"] == "2"
    assert to_write_down(kept.plan.decisions) == {"SGLANG_A": "9"}
    put(CONFIRMED, "vars")
    assert path.read_bytes() == rendered("decode", CONFIRMED)


def test_edits_by_hand_of_knobs_gpus_and_arguments(put: Put, path: Path) -> None:
    by_hand = path.read_bytes().replace(b"\nexec", b"\nexport SGLANG_BY_HAND=1\nexec")
    path.write_bytes(by_hand)
    with pytest.raises(PdopsError, match="SGLANG_BY_HAND is '1' on the machine, set by hand"):
        put(CONFIRMED)
    path.write_bytes(by_hand.replace(b"export SGLANG_BY_HAND=1\n", b"").replace(b"4,5,6,7", b"4,5,6"))
    for take in (None, "host"):
        with pytest.raises(PdopsError, match="CUDA_VISIBLE_DEVICES is '4,5,6'"):
            put(CONFIRMED, take)
    path.write_bytes(rendered("decode", CONFIRMED).replace(b"running-requests 96", b"running-requests 80"))
    for take in (None, "host"):
        with pytest.raises(PdopsError, match=r"was edited since the last confirmed change beside its knobs: .*80"):
            put(CONFIRMED, take)
    put(CONFIRMED, "vars")
    assert path.read_bytes() == rendered("decode", CONFIRMED)


def test_an_adopted_script_is_one_conflict(put: Put, path: Path) -> None:
    path.write_bytes(
        b"#!/bin/bash\nexport HF_TOKEN=hf_geheim SGLANG_A=1\nif x; then export B=1; fi\nexec python -m sglang.launch_server\n"
    )
    with pytest.raises(PdopsError, match="under a condition"):
        put(CONFIRMED, confirmed=None)
    path.write_bytes(path.read_bytes().replace(b"if x; then export B=1; fi\n", b""))
    with pytest.raises(PdopsError, match="no confirmed change is on record") as refused:
        put(CONFIRMED, confirmed=None)
    assert "geheim" not in str(refused.value) + str(refused.value.details)
    put(CONFIRMED, "vars", confirmed=None)
    assert path.read_bytes() == rendered("decode", CONFIRMED)


def test_a_conditional_export_on_the_machine_goes_only_with_take_vars(put: Put, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\nexec", b"\nif x; then export B=1; fi\nexec"))
    with pytest.raises(PdopsError, match=r"exports B in line .* under a condition"):
        put(CONFIRMED)
    assert put(CONFIRMED, "vars").plan.changed and path.read_bytes() == rendered("decode", CONFIRMED)


def test_a_confirmed_change_that_wrote_other_scripts_only(path: Path, put: Put, store: Store) -> None:
    later = Comparison(CONFIRMED, "set-of-another-instance")
    base = rendered_base(launch("decode", pd_arguments={"max-running-requests": 64}))
    done = place(ScriptRequest(str(path), base, CONFIRMED, comparison=later), store, True)
    assert done.plan.changed and b"--max-running-requests 64" in done.plan.after
    path.write_bytes(path.read_bytes().replace(b"--page-size 64", b"--page-size 32"))
    with pytest.raises(PdopsError, match="beside its knobs"):
        place(ScriptRequest(str(path), base, CONFIRMED, comparison=later), store, True)


def test_what_a_change_found_is_not_what_it_left(path: Path, put: Put, store: Store) -> None:
    by_hand = path.read_bytes().replace(b"--page-size 64", b"--page-size 32")
    path.write_bytes(by_hand)
    # a change that was rolled back: what it found, which is by hand, is stored with its id and there again
    base = rendered_base(launch("decode"))
    place(ScriptRequest(str(path), base, {"SGLANG_A": "5"}, change_id="deploy-2"), store, False)
    path.write_bytes(by_hand)
    later = Comparison(CONFIRMED, "set-of-another-instance")
    with pytest.raises(PdopsError, match="beside its knobs"):
        place(ScriptRequest(str(path), base, CONFIRMED, comparison=later), store, True)


def test_without_a_script_everything_is_applied(put: Put, path: Path) -> None:
    path.unlink()
    assert put({"SGLANG_A": "5"}).plan.decisions == ()
    assert path.read_bytes() == rendered("decode", {"SGLANG_A": "5"})


SIDES = st.dictionaries(st.sampled_from("ABCD"), st.sampled_from("12"))


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(prefill=SIDES, decode=SIDES, names=st.sets(st.sampled_from("ABCD")))
def test_the_records_of_pair_and_engines_lose_nothing(
    prefill: dict[str, str], decode: dict[str, str], names: set[str]
) -> None:
    engines = {"p": prefill, "d": decode}
    pair, own = split(engines, names)
    assert set(pair) <= names
    for engine, knobs in engines.items():
        assert base_of(pair, own[engine]) == knobs
    for name in names:
        assert (name in pair) == (name in prefill and prefill[name] == decode.get(name))

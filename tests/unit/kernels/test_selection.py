# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Knobs select a package: in front of what PYTHONPATH has, with no other package, and a second time the same."""

from __future__ import annotations

from typing import Any

import pytest

from module_utils.asked import read_asked
from module_utils.deployment import Instance
from module_utils.gates.kernels import judge
from module_utils.kernel_package.scripts_say import interpreter_in
from module_utils.kernel_package.selection import (
    PATH,
    PLUGINS,
    STATUS,
    Wanted,
    knobs_for,
    plugins,
    python_path,
    selected,
    selecting,
    version_of,
)
from module_utils.kernel_package.status_record import Record
from module_utils.kernel_plan import plan_kernels
from module_utils.pdops_error import PdopsError
from module_utils.sight import Sight

NEW, OLD = "/opt/pdops/kernels/0.2.0-0123abcd", "/opt/pdops/kernels/0.1.0-89abcdef"


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (None, NEW),
        ("", NEW),
        ("/a:/b", f"{NEW}:/a:/b"),
        (OLD, NEW),
        (f"/a:{OLD}/:/b", f"{NEW}:/a:/b"),
        (f"{NEW}:/a", f"{NEW}:/a"),
    ],
)
def test_the_package_comes_first_and_is_the_only_one(now: str | None, then: str) -> None:
    assert python_path(now, NEW) == then
    assert python_path(then, NEW) == then and selected(then) == NEW


def test_a_package_is_known_by_its_name() -> None:
    assert selected(f"/a:{OLD}/") == OLD and version_of(OLD) == "0.1.0"
    for other in ("/opt/pdops/kernels", "kernels/0.1.0-89abcdef", "/x/0.1.0-89abcde", None):
        assert selected(other) is None


def test_an_allow_list_of_sglang_gets_the_plugin() -> None:
    assert [plugins(value) for value in (None, "", "a", "a, pdops_kernels", "pdops_kernels")] == [
        None, None, "a,pdops_kernels", "a, pdops_kernels", "pdops_kernels",
    ]  # fmt: skip


def test_all_knobs_of_a_package() -> None:
    wanted = Wanted(NEW, "/cache/x", "/status/decode", {"PDOPS_KERNELS_POLICY": "leaf", "PDOPS_KERNELS_SPLITS": None})
    knobs = knobs_for(wanted, {PATH: "/a", PLUGINS: "other"})
    assert knobs == {
        PATH: f"{NEW}:/a",
        "TRITON_CACHE_DIR": "/cache/x",
        STATUS: "/status/decode",
        "TRITON_DISABLE_LINE_INFO": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
        PLUGINS: "other,pdops_kernels",
        "PDOPS_KERNELS_POLICY": "leaf",
        "PDOPS_KERNELS_SPLITS": None,
    }
    with pytest.raises(PdopsError, match="which the package's folder decides"):
        knobs_for(Wanted(NEW, None, "/s", {PATH: "/mine"}), {})


def test_what_a_deploy_leaves_to_the_kernels() -> None:
    knobs = {PATH: f"{NEW}:/a", STATUS: "/s", "PDOPS_KERNELS_POLICY": "leaf", "SGLANG_X": "1", "TRITON_CACHE_DIR": "/c"}
    assert selecting(knobs) == {name: value for name, value in knobs.items() if name != "SGLANG_X"}
    assert selecting({**knobs, PATH: "/a"}) == {}


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("exec /opt/venv/bin/python -m sglang.launch_server --port 1", "/opt/venv/bin/python"),
        ("exec numactl --cpunodebind=1 \\\n  python -m sglang.launch_server", "python"),
        ("exec /opt/venv/bin/sglang serve --model-path /m", "/opt/venv/bin/python"),
        ("nohup env A=1 /usr/bin/python3.12 -m sglang.launch_server >log 2>&1 &", "/usr/bin/python3.12"),
        ("echo nothing", None),
    ],
)
def test_the_python_that_serves(line: str, python: str | None) -> None:
    assert interpreter_in(f"#!/bin/bash\nexport A=1\n{line}\n".encode()) == python


# --- the gate


def record(pid: int = 1, state: str = "serving", **more: Any) -> Record:
    told = {
        "package": "0.2.0", "error": "", "fallbacks": {}, "plans": (), "policy": "auto", "machine": "", "simulation": False,
    }  # fmt: skip
    return Record(pid=pid, state=state, **{**told, **more})


@pytest.mark.parametrize(
    ("records", "schedulers", "serve", "result", "words"),
    [
        ([], [], False, "failed", "no process wrote a record"),
        ([record(state="failed", error="no triton")], [1], False, "failed", "the stock kernel serves (failed): no triton"),
        ([record(), record(2, "stock", error="no GPU")], [1, 2], False, "failed", "(stock): no GPU"),
        ([record(state="ended", error="bad knob")], [], False, "failed", "the process was ended"),
        ([record(package="0.1.0")], [1], False, "failed", "version 0.1.0 runs, and the script selects 0.2.0"),
        ([record(state="loading")], [1], False, "pending", "is being loaded"),
        ([record(state="hooked")], [1], False, "passed", "0.2.0 hooked"),
        ([record(state="hooked", fallbacks={"no rows": 3})], [1], True, "failed", "has served none with these kernels: 3 x no rows"),
        ([record(1, "hooked"), record(2), record(3)], [2, 3], True, "passed", "0.2.0 serving"),
        ([record(1), record(2), record(3, "hooked")], [2, 3], True, "failed", "process 3 has served none"),
        ([record(1, "hooked"), record(2)], [], True, "passed", "0.2.0 serving"),
        ([record(1, "hooked"), record(2, "hooked")], [], True, "failed", "process 1 has served none"),
        ([record(fallbacks={"dtype of q": 2, "no rows": 1})], [], True, "passed", "3 fallbacks (2 x dtype of q, 1 x no rows)"),
        ([record(simulation=True, plans=({"rows": 64, "heads": 16, "splits": 8},))], [], True, "passed",
         "0.2.0 serving (simulation), policy auto: 64 rows x 16 heads in 8 splits; no fallback"),
    ],
)  # fmt: skip
def test_the_gate_believes_records_only(
    records: list[Record], schedulers: list[int], serve: bool, result: str, words: str
) -> None:
    verdict = judge(NEW, {item.pid: item for item in records}, schedulers, serve)
    assert verdict.result == result and words in verdict.said


# --- the plan


def instance(role: str) -> Instance:
    return Instance(role, role, role, f"/root/{role}.sh", "http://127.0.0.1:1", "m", load_timeout_s=1)


def planned(edits: list[dict[str, Any]], stale: list[dict[str, Any]] | None = None, pid: int | None = 1) -> Any:
    instances = [instance(role) for role in ("prefill", "decode", "router")]
    seen = {
        item.name: {"unit": {"pid": pid}, "edits": edits if item.role == "decode" else [], "stale": stale or []}
        for item in instances
    }
    given = {"kernels": {"package": "pdops_kernels 0.2.0", "knobs": {"decode": {PATH: NEW, STATUS: "/s"}}}}
    asked = read_asked("kernels", given, instances)
    return plan_kernels("dsv4", Sight(instances, [{"instances": seen}]), asked)


def edit(**more: Any) -> dict[str, Any]:
    return {
        "instance": "decode", "knob": "", "knobs": {PATH: {"before": None, "after": NEW}}, "refused": None, "warnings": [],
        "in_effect": False, **more,
    }  # fmt: skip


def test_several_knobs_are_one_change_and_what_is_there_is_no_change() -> None:
    plan = planned([edit()])
    assert (plan.scope, plan.restart, len(plan.edits)) == ("co", ("prefill", "decode", "router"), 1)
    assert plan.expect == {"decode": {PATH: NEW, STATUS: "/s"}}
    assert plan.summary == "deployed kernels pdops_kernels 0.2.0 on decode"
    nothing = planned([])
    assert not nothing.changed and nothing.nothing == "nothing to deploy: decode has pdops_kernels 0.2.0 already"


def test_a_process_from_before_is_restarted_and_nothing_is_written() -> None:
    plan = planned([], [{"knob": PATH, "running": None}])
    assert not plan.edits and plan.restart and "does not have PYTHONPATH" in plan.why["decode"]
    assert planned([], [{"knob": "OTHER", "running": None}]).nothing
    assert "it does not run" in planned([], pid=None).why["decode"]


def test_a_refused_edit_and_no_instance_are_told() -> None:
    with pytest.raises(PdopsError, match="decode: it is decided under a condition"):
        planned([edit(refused="it is decided under a condition")])
    instances = [instance("decode")]
    with pytest.raises(PdopsError, match="takes no knob"):
        read_asked("kernels", {"knob": "X", "value": "1"}, instances)

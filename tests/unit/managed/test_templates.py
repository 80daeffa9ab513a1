# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The templates: what the process sees, by bash; and one writer for rendering and setting, by generated knobs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any, Optional

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import (
    BEGIN,
    END,
    fill,
    find_block,
    fixed_part,
    knobs_of,
    merge_knobs,
)
from ansible_collections.pdops.sglang.plugins.module_utils.managed.script_edit import check_script
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.scripts.oracle import Bash

from .rendering import VARIABLES, base_of, launch, rendered

NASTY = (
    "it's", 'say "x"', "$HOME", "${HOME}", "$(id)", "`id`", "back\\slash", "a\\", "ünï→", "two words", " x ", "*", "~", "!x", "#x", "",
    "-5", "a;b&c|d>e", "(x)", "tab\there", "{a,b}", '{"num_threads": "4"}', "'", '"', "\\'", "$'x'", "%s", "=x", "a=b", "é'\"$\\",
)  # fmt: skip
ROLES = tuple(VARIABLES)


class Engine(Bash):
    """The oracle, whose python also leaves its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.argv_file = os.path.join(self.root, "argv")
        program = os.path.join(self.root, "bin", "python")
        with open(program, encoding="utf-8") as file:
            text = file.read()
        with open(program, "w", encoding="utf-8") as file:
            file.write(text.replace("\n", f"\nprintf '%s\\0' \"$@\" > '{self.argv_file}'\n", 1))

    def run(self, script: bytes) -> tuple[dict[str, str], list[str]]:
        environment = self.environment(script)
        assert environment is not None, script
        with open(self.argv_file, "rb") as file:
            return environment, os.fsdecode(file.read()).split("\0")[:-1]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


def value_of(arguments: list[str], option: str) -> str:
    assert arguments.count(option) == 1, (option, arguments)
    return arguments[arguments.index(option) + 1]


def test_prefill_and_decode_get_what_a_pair_needs(engine: Engine) -> None:
    seen = {role: engine.run(rendered(role)) for role in ("prefill", "decode")}
    for role, gpus, node, port in (("prefill", "0,1,2,3", "0", "30000"), ("decode", "4,5,6,7", "1", "30001")):
        environment, arguments = seen[role]
        assert environment == {"SPT_NOENV": "1", "CUDA_VISIBLE_DEVICES": gpus}
        assert arguments[:2] == ["-m", "sglang.launch_server"]
        assert value_of(arguments, "--disaggregation-mode") == role
        assert value_of(arguments, "--disaggregation-bootstrap-port") == "8998"
        assert value_of(arguments, "--port") == port
        at = arguments.index("--numa-node")
        assert arguments[at + 1 : at + 5] == [node] * 4 and arguments[at + 5].startswith("--")
        assert "--base-gpu-id" not in arguments and "--enable-metrics" in arguments
    for option in ("--page-size", "--kv-cache-dtype", "--disaggregation-transfer-backend", "--tp-size"):
        assert value_of(seen["prefill"][1], option) == value_of(seen["decode"][1], option)


def test_the_router_repeats_the_bootstrap_port(engine: Engine) -> None:
    environment, arguments = engine.run(rendered("router"))
    assert environment == {"SPT_NOENV": "1"}
    at = arguments.index("--prefill")
    assert arguments[at : at + 5] == [
        "--prefill",
        "http://127.0.0.1:30000",
        "8998",
        "--decode",
        "http://127.0.0.1:30001",
    ]
    assert arguments[:3] == ["-m", "sglang_router.launch_router", "--pd-disaggregation"]
    assert value_of(arguments, "--prometheus-host") == "127.0.0.1"


@pytest.mark.parametrize("role", ROLES)
def test_nasty_values_reach_the_process_as_they_are(engine: Engine, role: str) -> None:
    knobs = {f"SGLANG_N{number}": value for number, value in enumerate(NASTY)}
    arguments: dict[str, Any] = {f"n{number}": value for number, value in enumerate(NASTY)}
    arguments["all-of-them"] = [value for value in NASTY if not value.startswith("-")]
    changed: dict[str, Any] = {"pd_knobs": knobs, "pd_arguments": arguments, "pd_offline": True}
    if role != "router":
        changed["pd_model_path"] = "/models/it's a $MODEL"
    environment, words = engine.run(rendered(role, **changed))
    assert {name: environment[name] for name in knobs} == knobs
    assert environment["HF_HUB_OFFLINE"] == environment["TRANSFORMERS_OFFLINE"] == "1"
    for number, value in enumerate(NASTY):
        if value.startswith("-"):
            assert f"--n{number}={value}" in words
        else:
            assert value_of(words, f"--n{number}") == value
    at = words.index("--all-of-them") + 1
    assert words[at : at + len(arguments["all-of-them"])] == arguments["all-of-them"]
    if role != "router":
        assert value_of(words, "--model-path") == "/models/it's a $MODEL"


@pytest.mark.parametrize("role", ROLES)
def test_rendered_scripts_are_fit_for_the_machine(role: str) -> None:
    script = rendered(role, pd_knobs={"SGLANG_LOG_MS": 1})
    check_script(f"/srv/serve_{role}.sh", script)
    reading = read_script(script)
    assert script.startswith(b"#!/bin/bash\n") and script.endswith(b"\n") and not script.endswith(b"\n\n")
    assert reading.exec_line == script.count(b"\n", 0, script.index(b"\nexec ") + 1) + 1
    assert [finding.code for finding in reading.findings] == ["sourced"]
    assert b"\nset -euo pipefail\nsource /opt/sglang/venv/bin/activate\n" in script
    assert b"{{" not in script and b"{%" not in script


def test_without_a_virtual_environment_nothing_is_sourced(engine: Engine) -> None:
    script = rendered("decode", pd_venv=None, pd_python="/opt/py thon/bin/python3")
    assert b"source" not in script and b"exec '/opt/py thon/bin/python3' -m sglang.launch_server" in script


def test_the_config_file_stands_last_and_no_key_anywhere(engine: Engine) -> None:
    _, arguments = engine.run(rendered("prefill", pd_engine_config="/etc/sglang/keys.yaml"))
    assert arguments[-2:] == ["--config", "/etc/sglang/keys.yaml"]
    assert launch("prefill", pd_engine_config="/etc/sglang/keys.yaml").secret_files == ("/etc/sglang/keys.yaml",)


NAMES = st.sampled_from(
    (
        "SGLANG_A",
        "SGLANG_B",
        "SGLANG_SM120_MMA_TARGET_CTAS",
        "SGLANG_SM120_X",
        "UCX_TLS",
        "UCX_NET_DEVICES",
        "NCCL_DEBUG",
        "A1",
    )
)
VALUES = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\n"), max_size=12),
    st.integers(0, 4096).map(str),
)
KNOBS = st.dictionaries(NAMES, VALUES, max_size=6)
GENERATED = settings(
    max_examples=150, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@GENERATED
@given(role=st.sampled_from(ROLES), knobs=KNOBS, name=NAMES, value=st.one_of(st.none(), VALUES))
def test_setting_a_knob_is_rendering_with_it(role: str, knobs: dict[str, str], name: str, value: Optional[str]) -> None:
    base = base_of(launch(role))
    script = fill(base, knobs)
    wanted = {key: each for key, each in {**knobs, name: value}.items() if each is not None}
    edited = unset_knob(script, name) if value is None else set_knob(script, name, value)
    assert edited == fill(base, wanted, script)
    if name not in knobs:
        assert edited == fill(base, wanted)
    own = {key: each for key, each in knobs_of(edited).items() if key not in launch(role).exports}
    assert own == wanted
    assert fixed_part(edited) == fixed_part(base)
    assert fill(base, wanted, edited) == edited
    assert knobs_of(fill(base, wanted)) == knobs_of(edited)


@settings(parent=GENERATED, max_examples=25)
@given(knobs=KNOBS)
def test_bash_sees_exactly_the_knobs(engine: Engine, knobs: dict[str, str]) -> None:
    environment, _ = engine.run(rendered("decode", knobs))
    assert environment == {"SPT_NOENV": "1", "CUDA_VISIBLE_DEVICES": "4,5,6,7", **knobs}


def test_a_rendering_keeps_the_peoples_comments_order_and_quotes() -> None:
    script = rendered("decode", {"SGLANG_A": "1", "SGLANG_B": "2", "UCX_TLS": "rc"})
    edited = script.replace(b"SGLANG_A=1\n", b"SGLANG_A='1'  # A/B: +12.8% at C64\n# why: see record 7\n\n")
    other = base_of(launch("decode", pd_arguments={"max-running-requests": 64}))
    again = fill(other, {"SGLANG_A": "1", "SGLANG_B": "3"}, edited)
    assert b"SGLANG_A='1'  # A/B: +12.8% at C64\n# why: see record 7\n\nexport SGLANG_B=3\n" in again
    assert b"UCX_TLS" not in again and b"--max-running-requests 64" in again
    assert fixed_part(again) == fixed_part(other)


def test_a_gpu_that_moves_is_an_edit_in_the_block_too() -> None:
    edited = rendered("decode").replace(b"4,5,6,7\n", b"4,5,6,7 # NUMA 1\n")
    base = base_of(launch("decode", pd_gpus=[0, 1, 2, 3]))
    assert b"export CUDA_VISIBLE_DEVICES=0,1,2,3 # NUMA 1\n" in fill(base, {}, edited)


def test_what_stands_outside_the_block_on_the_machine_is_a_knob_for_comparing_and_goes_with_a_rendering() -> None:
    script = rendered("decode").replace(b"\nexec ", b"\nexport SGLANG_BY_HAND=1\nexec ")
    assert knobs_of(script)["SGLANG_BY_HAND"] == "1"
    assert fill(base_of(launch("decode")), {}, script) == rendered("decode")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"export SGLANG_A=1\n", b"ulimit -l unlimited\nexport SGLANG_A=1\n", "line 10: the knob block holds"),
        (b"export SGLANG_A=1\n", b"if true; then export SGLANG_A=1; fi\n", "line 10: the knob block holds"),
        (BEGIN.encode(), f"{BEGIN}\n{BEGIN}".encode(), "2 begin and 1 end marks of a knob block, see line 8"),
        (END.encode(), b"", "1 begin and 0 end marks of a knob block, see line 7"),
    ],
)
def test_a_block_that_is_none_is_not_taken_over(old: bytes, new: bytes, told: str) -> None:
    present = rendered("decode", {"SGLANG_A": "1"}).replace(old, new, 1)
    base = base_of(launch("decode"))
    with pytest.raises(PdopsError, match=told):
        fill(base, {"SGLANG_A": "2"}, present, "/srv/serve_decode.sh")
    assert fill(base, {"SGLANG_A": "1"}) == rendered("decode", {"SGLANG_A": "1"})


def test_a_script_without_marks_gives_a_new_block() -> None:
    base = base_of(launch("decode"))
    assert find_block(b"#!/bin/bash\nexport A=1\n") is None
    assert fill(base, {"SGLANG_A": "1"}, b"#!/bin/bash\nexport B=1\nexec python -m sglang.launch_server\n") == fill(
        base, {"SGLANG_A": "1"}
    )


@pytest.mark.parametrize(
    ("base", "knobs", "told"),
    [
        (b"#!/bin/bash\nexec python -m sglang.launch_server\n", {}, "has no knob block"),
        (f"{BEGIN}\n{END}\nexport A=1\nexec python -m sglang.launch_server\n".encode(), {}, "outside its knob block"),
        (f"{BEGIN}\nexport A=1\n{END}\nexec python -m sglang.launch_server\n".encode(), {"A": "2"}, "but the template exports '1'"),
        (f"{BEGIN}\nexport A=$B\n{END}\nexec python -m sglang.launch_server\n".encode(), {}, "only a run tells"),
    ],
)  # fmt: skip
def test_templates_that_are_not_fit_are_refused(base: bytes, knobs: dict[str, str], told: str) -> None:
    with pytest.raises(PdopsError, match=told):
        fill(base, knobs)


def test_pair_and_own_knobs_are_one_mapping() -> None:
    assert merge_knobs({"A": 1, "B": "x"}, {"C": "010", "B": "x"}) == {"A": "1", "B": "x", "C": "010"}
    assert list(merge_knobs({"B": 1}, {"A": None, "C": 2})) == ["B", "C"]
    assert merge_knobs({"SGLANG_DSV4_KV_LAYOUT": "x"}, {"SGLANG_DSV4_KV_LAYOUT": "x"}) == {"SGLANG_DSV4_KV_LAYOUT": "x"}


@pytest.mark.parametrize(
    ("pair", "own", "told"),
    [
        ({"A": 1}, {"A": 2}, "d: A is '1' in pd_pair_knobs and '2' in pd_knobs"),
        ({"A": None}, {"A": 2}, "d: A is null in pd_pair_knobs and '2' in pd_knobs"),
        ({}, {"SGLANG_DSV4_KV_LAYOUT": "x"}, "must be equal on prefill and decode"),
        ({"HF_TOKEN": "hf_geheim"}, {}, "looks like a secret"),
        ({"A": True}, {}, "is the boolean true"),
        ({"A": "a\nb"}, {}, "has a line end"),
        ({"A-B": 1}, {}, "cannot be the name"),
        (["A"], {}, "pd_pair_knobs is no mapping"),
    ],
)
def test_knobs_that_contradict_are_refused(pair: Any, own: Any, told: str) -> None:
    with pytest.raises(PdopsError, match=told) as refused:
        merge_knobs(pair, own, "d")
    assert "geheim" not in str(refused.value)


def test_the_syntax_of_every_rendering_is_bash(tmp_path: Any) -> None:
    for role in ROLES:
        path = tmp_path / "serve.sh"
        path.write_bytes(rendered(role, {"A": "it's"}))
        assert subprocess.run(["bash", "-n", str(path)], capture_output=True).returncode == 0

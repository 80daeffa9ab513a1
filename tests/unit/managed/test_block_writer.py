# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Many knobs at once are written as the editor writes them one by one; also into a block that is empty, and fast."""

from __future__ import annotations

import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.managed import knob_block
from ansible_collections.pdops.sglang.plugins.module_utils.managed.knob_block import BEGIN, END, fill, knobs_of
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import set_knob
from hypothesis import given
from hypothesis import strategies as st

from .test_templates import GENERATED, VALUES

NAMES = ("A", "A_B", "A_B_C", "A_B_D", "A_C", "B", "B_C", "SGLANG_A", "SGLANG_A_B", "SGLANG__X", "A__B", "_A", "Z_1")
LINES = (
    "export A_B=1",
    "export A_B=1 B_C='x y'  # two",
    "  export SGLANG_A=0",
    "declare -x B='1'",
    "# why: see record 7",
    "# export A_B_C=7",
    "# export Z_1=7",
    "",
    "export A=x",
    'export A_C="a\nb"',
    "export A=$B",
)


def script_of(block: str, end_of_line: str = "\n", head: str = "set -euo pipefail\n") -> bytes:
    text = f"#!/bin/bash\n{head}{BEGIN}\n{block}{END}\nexec engine\n"
    return text.replace("\n", end_of_line).encode()


def one_by_one(base: bytes, wanted: dict[str, str], present: bytes) -> bytes:
    before = knob_block.write_knobs
    knob_block.write_knobs = lambda *_a: None  # type: ignore[assignment]
    try:
        return fill(base, wanted, present)
    finally:
        knob_block.write_knobs = before


@GENERATED
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=6),
    wanted=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=9),
    crlf=st.booleans(),
)
def test_many_at_once_are_as_one_by_one(lines: list[str], wanted: dict[str, str], crlf: bool) -> None:
    base = script_of("export SPT_NOENV=1\n", "\r\n" if crlf else "\n")
    present = script_of("".join(f"{line}\n" for line in ["export SPT_NOENV=1", *lines]), "\r\n" if crlf else "\n")
    try:
        want = one_by_one(base, wanted, present)
    except PdopsError as error:
        with pytest.raises(PdopsError) as refused:
            fill(base, wanted, present)
        assert str(refused.value) == str(error)
        return
    assert fill(base, wanted, present) == want


@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
@pytest.mark.parametrize("head", ["set -euo pipefail\n", "", "# export SGLANG_A=7\n"])
def test_an_empty_block_takes_the_knobs(end_of_line: str, head: str) -> None:
    base = script_of("", end_of_line, head)
    wanted = {"SGLANG_B": "two words", "SGLANG_A": "1", "NCCL_DEBUG": "INFO"}
    script = fill(base, wanted)
    assert knobs_of(script) == wanted
    lines = script.decode().split(end_of_line)
    begin, end = lines.index(BEGIN), lines.index(END)
    names = [line.split("=")[0] for line in lines[begin + 1 : end]]
    assert sorted(names) == ["export NCCL_DEBUG", "export SGLANG_A", "export SGLANG_B"]
    # In a CRLF script a comment keeps the carriage return out of the value.
    assert all(line.endswith(" #") for line in lines[begin + 1 : end]) == (end_of_line == "\r\n")
    assert fill(base, wanted, script) == script
    assert fill(base, {}, script) == base
    assert set_knob(script, "SGLANG_A", "1") == script
    # Behind the comments that a block without exports holds.
    noted = script_of("# ours\n", end_of_line, head)
    assert f"# ours{end_of_line}export SGLANG_A=1".encode() in fill(base, {"SGLANG_A": "1"}, noted)


def test_what_the_template_exports_outside_its_block_is_still_named() -> None:
    base = script_of("", head="export SGLANG_OUT=1\n")
    with pytest.raises(PdopsError, match="the template exports SGLANG_OUT in line 2, outside its knob block"):
        fill(base, {"SGLANG_A": "1"})


def test_thousands_of_knobs_take_seconds() -> None:
    wanted = {f"SGLANG_G{number % 40}_K{number}": str(number) for number in range(3000)}
    began = time.process_time()
    script = fill(script_of("export SPT_NOENV=1\n"), wanted)
    assert fill(script_of("export SPT_NOENV=1\n"), {**wanted, "SGLANG_G1_K1": "x"}, script).count(b"\n") == 3006
    # One by one it is more than a minute; here it is less than a second on an idle machine.
    assert time.process_time() - began < 15

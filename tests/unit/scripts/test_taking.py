# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Putting a knob back as another version has it: the line, not only the value."""

from __future__ import annotations

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.deciding import (
    comment_behind,
    has_knob,
    knob_line,
    same_knob,
)
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.taking import take_knob

HEAD = "#!/bin/bash\nexport SGLANG_A=1\n"
TAIL = "export UCX_TLS=all\nexec python3 -m sglang.launch_server\n"
# As serve scripts write values that only a run tells.
LINES = (
    "export SGLANG_X=$(nproc)   # one per core",
    "export SGLANG_X=${SGLANG_X:-8}",
    'export SGLANG_X="${OTHER:-8}"  # a default',
    "export SGLANG_X=`hostname`",
    "  export SGLANG_X=pre_$HOME/x",
    "declare -x SGLANG_X=$((2 * 8))",
    "export SGLANG_X=512   # A/B: +12.8%",
)


def script(line: str, tail: str = TAIL) -> bytes:
    return (HEAD + line + "\n" * bool(line) + tail).encode()


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("now", ["export SGLANG_X=256", "", "export SGLANG_X=256  # kept behind"])
def test_where_nothing_else_differs_every_byte_comes_back(line: str, now: str) -> None:
    assert take_knob(script(now), "SGLANG_X", script(line)) == script(line)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("now", ["export SGLANG_X=256", "", "export SGLANG_X=256  # another comment"])
def test_where_more_differs_the_line_alone_comes_back(line: str, now: str) -> None:
    tail = TAIL.replace("all", "rc") + "# notes\n"
    taken = take_knob(script(now, tail), "SGLANG_X", script(line))
    assert same_knob(taken, script(line), "SGLANG_X")
    assert line.strip() in taken.decode().splitlines() or line in taken.decode().splitlines()
    assert taken.decode().replace(line + "\n", "").replace(line.strip() + "\n", "") == script("", tail).decode()


def test_beside_others_on_a_line_the_text_of_the_value_is_taken() -> None:
    now = b"export SGLANG_A=5 SGLANG_X=256 SGLANG_B=2\nexec python3 -m sglang.launch_server\n"
    assert take_knob(now, "SGLANG_X", script(LINES[0])) == now.replace(b"256", b"$(nproc)")
    former = b"export SGLANG_A=1 SGLANG_X=$(nproc)\nexec python3 -m sglang.launch_server\n"
    assert b"\nexport SGLANG_X=$(nproc)\n" in take_knob(script("", "# x\n" + TAIL), "SGLANG_X", former)


def test_a_knob_that_the_source_has_not_is_unset() -> None:
    assert take_knob(script("export SGLANG_X=1", "# x\n" + TAIL), "SGLANG_X", script("")) == script("", "# x\n" + TAIL)


def test_a_line_that_would_mean_something_else_is_refused_and_shown() -> None:
    former = script("BASE=$(nproc)\nexport SGLANG_X=$((BASE * 2))  # twice")
    with pytest.raises(EditRefused) as refused:
        take_knob(script("export SGLANG_X=256", "# x\n" + TAIL), "SGLANG_X", former)
    assert "line 4 of the former script: export SGLANG_X=$((BASE * 2))  # twice" in str(refused.value)


def test_a_former_condition_comes_back_whole_or_not_at_all() -> None:
    former = script("export SGLANG_X=1\nif [ -n $D ]; then export SGLANG_X=2; fi")
    with pytest.raises(EditRefused, match=r"if \[ -n \$D \]; then export SGLANG_X=2; fi"):
        take_knob(script("export SGLANG_X=256", "# x\n" + TAIL), "SGLANG_X", former)


def test_a_present_condition_is_refused_and_the_line_named() -> None:
    now = script("if [ -n $D ]; then export SGLANG_X=2; fi")
    with pytest.raises(EditRefused, match="line 3: it is decided under a condition"):
        take_knob(now, "SGLANG_X", script(LINES[0], "# x\n" + TAIL))


def test_what_decides_a_knob() -> None:
    data = script(LINES[0])
    assert has_knob(data, "SGLANG_X") and not has_knob(data, "SGLANG_Y")
    assert knob_line(data, "SGLANG_X") == LINES[0] and knob_line(data, "SGLANG_Y") == ""
    assert comment_behind(data, "SGLANG_X") == (3, "# one per core")
    assert comment_behind(data, "SGLANG_A") == comment_behind(data, "SGLANG_Y") == (0, "")
    assert comment_behind(script('export SGLANG_X="# no comment" #'), "SGLANG_X") == (0, "")
    assert not same_knob(data, script(LINES[1]), "SGLANG_X")
    assert same_knob(data, set_knob(data, "SGLANG_A", "7"), "SGLANG_X")

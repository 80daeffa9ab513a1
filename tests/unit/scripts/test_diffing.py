# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.diffing import (
    ChangedLine,
    changed_lines,
    knobs_changed,
    lines_beyond,
)

CASES = os.path.join(os.path.dirname(__file__), "cases")
ENGINE = "exec python3 -m sglang.launch_server\n"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


def case(name: str) -> bytes:
    with open(os.path.join(CASES, name), "rb") as file:
        return file.read()


def beyond(before: str, after: str, *names: str) -> list[tuple[str, int, str]]:
    lines = lines_beyond((before + ENGINE).encode(), (after + ENGINE).encode(), set(names))
    return [(line.kind, line.line, line.text) for line in lines]


def test_the_pair_from_the_field_differs_in_one_line() -> None:
    before, after = case("01_dsv4_decode.reverted.sh"), case("01_dsv4_decode.sh")
    line = ChangedLine("+", 12, f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96")

    assert changed_lines(before, after) == [line]
    assert changed_lines(after, before) == [ChangedLine("-", 12, line.text)]
    assert knobs_changed(before, after) == {KNOB: (None, "512")}
    assert lines_beyond(before, after, {KNOB}) == []
    assert lines_beyond(before, after, {"SGLANG_OTHER"}) == [line]


def test_equal_texts_do_not_differ() -> None:
    script = case("05_conditional.sh")

    assert changed_lines(script, script) == []
    assert knobs_changed(script, script) == {}


def test_line_ends_count() -> None:
    assert changed_lines(b"a\r\nb", b"a\nb\n") == [
        ChangedLine("-", 1, "a\r"),
        ChangedLine("-", 2, "b"),
        ChangedLine("+", 1, "a"),
        ChangedLine("+", 2, "b"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("export A=1\n", "export A=2\n"),
        ("export A=1\n", ""),
        ("export A=1 # x\n", "export A=1 # y\n"),
        ("export A=1 B=2\n", "export A=5 B=2\n"),
        ("export A=1 B=2\n", "export B=2\n"),
        ("export B=2  A=1\n", "export B=2\n"),
        ("export A=1; export B=2\n", "export B=2\n"),
        ("export A=1\n", "#export A=1\n"),
        ("export A=1\nexport B=2\n", "export B=2\nexport A=1\n"),
        ("export A=1\nexport A=2\n", "export A=3\n"),
        ("A=1\nexport A\n", "export A=1\n"),
        ('export A="1\n2"\n', "export A=1\n"),
        ("if x; then\n  export A=1\n  echo\nfi\n", "if x; then\n  echo\nfi\n"),
        ("export \\\n  A=1 \\\n  B=2\n", "export \\\n  B=2\n"),
    ],
)
def test_lines_that_are_only_the_knobs_own(before: str, after: str) -> None:
    assert beyond(before, after, "A") == []
    assert beyond(after, before, "A") == []
    assert beyond(before, after, "C") != []


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("export A=1 B=2\n", "export A=5 B=3\n", [("-", 1, "export A=1 B=2"), ("+", 1, "export A=5 B=3")]),
        ("export A=1\ncd x\n", "export A=2\ncd y\n", [("-", 2, "cd x"), ("+", 2, "cd y")]),
        ("export A=1 # x\n# c\n", "export A=2 # x\n# d\n", [("-", 2, "# c"), ("+", 2, "# d")]),
        ("export A=1\n", "echo; export A=1\n", [("+", 1, "echo; export A=1")]),
        ("cat <<E\nexport A=1\nE\n", "cat <<E\nexport A=2\nE\n", [("-", 2, "export A=1"), ("+", 2, "export A=2")]),
        ("for x in 1; do break; export A; done\n", "export A=5\nfor x in 1; do break; export A; done\n", []),
        ("x & export A\n", "x & export A=5\n", []),
        ("x & export A=1\n", "y & export A=5\n", [("-", 1, "x & export A=1"), ("+", 1, "y & export A=5")]),
        ("export B=1 A=1\r\n", "export B=1 A=5 #\r\n", []),
        ("export A=1\n", "export A=1\nexport AB=2\n", [("+", 2, "export AB=2")]),
    ],
)
def test_lines_beyond_the_knob(before: str, after: str, lines: object) -> None:
    assert beyond(before, after, "A") == lines


def test_of_a_broken_script_every_changed_line_counts() -> None:
    assert beyond("export A=1\nexport B='\n", "export A=2\nexport B='\n", "A") == [
        ("-", 1, "export A=1"),
        ("+", 1, "export A=2"),
    ]


def test_changed_values() -> None:
    before = b"export A=1 B=2 C=${X:-1} D=4\n" + ENGINE.encode()
    after = b"export A=1 B=3 C=${X:-2} E=5\n" + ENGINE.encode()

    assert knobs_changed(before, after) == {"B": ("2", "3"), "C": (None, None), "D": ("4", None), "E": (None, "5")}

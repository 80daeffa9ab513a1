# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The history of a script as a person reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.history_text import history_lines
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.version_listing import list_versions

END = b"exec python3 -m sglang.launch_server\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "decode.sh"
    path.write_bytes(b"export A=1\n" + END)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


def told(script: Path, store: Store, knob: str | None = None) -> list[str]:
    return history_lines("lab-decode", "decode", list_versions(str(script), store, knob), knob)


def test_a_knob_that_was_never_there_is_told_with_the_one_of_nearly_that_name(script: Path, store: Store) -> None:
    store.add_version(str(script), b"export SGLANG_LOG_MS=1\n" + END, "first", "alice on ops1", None)
    assert "  no stored version that changed SGLANG_LOG_M; did you mean SGLANG_LOG_MS?" in told(
        script, store, "SGLANG_LOG_M"
    )
    assert "  no stored version that changed sglang_log_ms; did you mean SGLANG_LOG_MS?" in told(
        script, store, "sglang_log_ms"
    )
    assert "  no stored version that changed UCX_TLS" in told(script, store, "UCX_TLS")
    # Of one that is there and was never changed nothing else is meant.
    script.with_name("decode.sh.x.bak").write_bytes(b"export SGLANG_LOG_M=1\n" + END)
    assert not any("did you mean" in line for line in told(script, store, "SGLANG_LOG_M"))


def test_each_version_says_what_it_changed_in_aligned_columns(script: Path, store: Store) -> None:
    for content, label, actor in (
        (b"export A=1\n", "first", "alice on ops1"),
        (b"export A=1\nexport B=\n# why\n", "set B", "bob on a-far-away-host"),
        (b"export A=2\nexport C=$(date)\nexport HF_TOKEN=hf_one23456\n", "x" * 60, "alice on ops1"),
        (b"export A=2\nexport C=$(date)\nexport HF_TOKEN=hf_two23456\n", "token", "alice on ops1"),
    ):
        store.add_version(str(script), content + END, label, actor, None)
    lines = told(script, store)
    assert lines[0] == f"lab-decode (decode): {script}"
    token, big, set_b, first = (
        next(line for line in lines if part in line) for part in ("token ", "xxx", "set B", "nothing older")
    )
    assert token.endswith("HF_TOKEN: another value (masked)")
    # What does not fit beside stands below.
    at = lines.index(big)
    place = big.index("A: 1 -> 2")
    assert "x..." in big and [line[place:] for line in lines[at : at + 5]] == [
        "A: 1 -> 2",
        'B: "" -> unset',
        "C: unset -> (known only at run time)",
        "HF_TOKEN: unset -> ********",
        "and 1 other line",
    ]
    assert set_b[place:] == 'B: unset -> ""'
    assert first[place:] == "nothing older is known; 1 knob"
    assert [line[2] for line in (token, big, set_b, first)] == [" ", " ", " ", "*"]
    assert "hf_" not in "".join(lines)


def test_of_one_knob_only_that_is_told(script: Path, store: Store) -> None:
    for content, label in (
        (b"export A=1\n", "one"),
        (b"export A=2\nexport B=2\n", "two"),
        (b"export B=2\n#\n", "three"),
    ):
        store.add_version(str(script), content + END, label, "alice", None)
    (script.parent / "decode.sh.old.bak").write_bytes(b"export B=2\n" + END)
    lines = told(script, store, "B")
    rows = [line for line in lines if "alice" in line]
    assert (
        len(rows) == 1 and rows[0].endswith("B: unset -> 2") and "and 1 other knob" in lines[lines.index(rows[0]) + 1]
    )
    assert any(line.strip() == "(2 more, which did not change B)" for line in lines)
    assert any("decode.sh.old.bak" in line and "B: 2 -> unset" in line for line in lines)
    assert "no stored version that changed Z" in "".join(told(script, store, "Z"))


def test_an_edit_by_hand_is_told_and_so_is_a_script_that_is_gone(script: Path, store: Store) -> None:
    store.add_version(str(script), script.read_bytes(), "one", "alice", None)
    script.write_bytes(b"export A=7\n# note\n" + END)
    assert "  now: edited by hand since the newest version: A: 1 -> 7; and 1 other line" in told(script, store)
    script.unlink()
    assert any("does not exist" in line for line in told(script, store))


def test_the_change_that_made_a_version_is_named_since_rollback_takes_it(script: Path, store: Store) -> None:
    store.add_version(str(script), b"export A=1\n" + END, "before set A", "alice", "20261130T061819-set-0960af")
    store.add_version(str(script), b"export A=2\n" + END, "set A", "alice", "20261130T061819-set-0960af")
    lines = told(script, store)
    (at,) = (number for number, line in enumerate(lines) if "set-0960af" in line)
    assert lines[at].strip() == "change 20261130T061819-set-0960af" and lines[at - 1].endswith("A: 1 -> 2")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Every script of cases/ and corpus/: read, and each knob set, unset and restored, with bash as the judge."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import read_script

from .judging import judge_edit, judge_reading
from .oracle import Bash

HERE = os.path.dirname(__file__)
NEW_KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


def scripts(folder: str) -> list[str]:
    return sorted(
        os.path.join(HERE, folder, name) for name in os.listdir(os.path.join(HERE, folder)) if name.endswith(".sh")
    )


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    oracle = Bash()
    yield oracle
    oracle.close()


@pytest.mark.parametrize("path", scripts("cases") + scripts("corpus"), ids=os.path.basename)
def test_bash_agrees_with_what_is_read_and_with_each_edit(path: str, bash: Bash) -> None:
    script = content(path)
    reading = judge_reading(script, bash)
    assert reading is not None, "the script starts no engine under bash"
    names = {export.name for export in reading.exports} - {"PATH"} | {NEW_KNOB, "UCX_TLS"}
    for name in sorted(names):
        for value in ("7", "a b", "it's $5", '{"k": "v"}', "", None):
            judge_edit(script, name, value, bash)
        _restore(script, name, bash)


def _restore(script: bytes, name: str, bash: Bash) -> None:
    """Set to something else and back: the same environment, and the same bytes when the quotes can be kept."""
    before = read_script(script).value(name)
    if before is None or "\n" in before:
        return
    try:
        changed = set_knob(script, name, before + "x")
        back = set_knob(changed, name, before)
    except EditRefused:
        return
    assert bash.environment(back) == bash.environment(script)
    try:
        gone = unset_knob(script, name)
    except EditRefused:
        return
    again = set_knob(gone, name, before)
    assert bash.environment(again) == bash.environment(script)


@pytest.mark.parametrize("path", [path for path in scripts("cases") if "05_" not in path], ids=os.path.basename)
def test_the_shared_cases_are_edited_and_not_refused(path: str) -> None:
    script = content(path)
    for name in {export.name for export in read_script(script).exports} | {NEW_KNOB}:
        assert read_script(set_knob(script, name, "a b")).value(name) == "a b"
        assert name not in read_script(unset_knob(script, name)).active()

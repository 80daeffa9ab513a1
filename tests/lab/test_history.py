# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an operator sees of the past of a deployment's scripts, and that looking changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of

from .conftest import KNOB, Lab, Ran

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.story()
    return module_lab


def files(lab: Lab) -> dict[str, Any]:
    """Scripts and state, with their times; the lab's logs go on by themselves."""
    found = [*lab.script.parent.rglob("*"), *(lab.dir / "state").rglob("*")]
    return {str(path): path.stat().st_mtime_ns for path in found}


def version(lab: Lab, *arguments: str) -> Ran:
    """``serve_version`` on decode's script, as an operator calls it by hand."""
    words = f"path={lab.script} state_dir={lab.dir}/state {' '.join(arguments)}"
    done = subprocess.run(
        ["ansible", "lab-decode", "-m", "pdops.sglang.serve_version", "-a", words],
        cwd=Path(__file__).resolve().parents[2],
        env=lab.environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    return Ran(done.returncode, done.stdout + done.stderr)


def test_the_past_is_shown_as_it_grows_and_what_is_shown_can_be_taken(lab: Lab) -> None:
    before = files(lab)
    ran = lab.play("history.yml")
    assert ran.rc == 0, ran.text
    assert ran.text.count("no stored version yet") == 3
    assert "pretgt_revert_2025" in ran.text and f"{KNOB}: 512 -> unset" in ran.text
    assert ran.recap["changed"] == 0 and files(lab) == before

    # By hand, so that nothing has to restart: the backup becomes a version, then the whole of it comes back.
    assert "CHANGED" in version(lab, "verb=import").text
    restored = version(lab, "verb=restore version=pretgt_revert_2025")
    assert restored.rc == 0, restored.text
    assert lab.script.read_bytes() == lab.backup.read_bytes()
    lab.script.write_text(lab.script.read_text().replace(f"{KNOB}=512", f"{KNOB}=768"))

    before = files(lab)
    ran = lab.play("history.yml", "-e", f"knob={KNOB}", "-e", "role=decode")
    assert ran.rc == 0, ran.text
    assert f"now: edited by hand since the newest version: {KNOB}: 512 -> 768" in ran.words
    assert f"restored version {ran.text.split('restored version ')[1][:12]}" in ran.text
    assert "lab-prefill (prefill)" not in ran.text and files(lab) == before

    sha = sha256_of(lab.backup.read_bytes())[:12]
    assert ran.text.count(sha) >= 2
    taken = lab.play("restore_knob.yml", "--check", "-e", f"knob={KNOB}", "-e", f"from={sha}")
    assert taken.rc == 0, taken.text
    assert f"from version {sha}" in taken.words
    shutil.rmtree(lab.dir / "state")
    taken = lab.play("restore_knob.yml", "--check", "-e", f"knob={KNOB}", "-e", f"from={sha}")
    assert taken.rc == 0 and f"from backup {lab.backup.name}" in taken.words, taken.text


def test_what_cannot_be_shown_fails_with_one_sentence_after_the_rest_is_shown(lab: Lab) -> None:
    ran = lab.play("history.yml", "-e", "scope=co")
    assert ran.rc == 2 and "history takes no scope=" in ran.words
    assert version(lab, "verb=import").rc == 0
    index = next((lab.dir / "state" / "files").glob("serve_dsv4_decode*"))
    content = index.read_bytes()
    index.unlink()
    index.mkdir()
    try:
        ran = lab.play("history.yml", "-e", "instance=lab-prefill,lab-decode")
    finally:
        os.rmdir(index)
        index.write_bytes(content)
    assert ran.rc == 2 and "lab-prefill (prefill)" in ran.text
    assert "lab-decode:" in ran.words and "cannot be read" in ran.words


def test_an_empty_script_is_told_and_nothing_is_done_with_it(lab: Lab) -> None:
    content = lab.script.read_bytes()
    lab.script.write_bytes(b"")
    try:
        ran = lab.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=1")
        proved = lab.play("verify.yml")
        shown = lab.play("history.yml", "-l", "lab-decode")
        assert lab.script.read_bytes() == b""
    finally:
        lab.script.write_bytes(content)
    for refused in (ran, proved):
        assert refused.rc == 2 and "is empty (0 bytes), so it starts no engine" in refused.words
    assert shown.rc == 0 and "it is empty, so it starts nothing" in shown.words

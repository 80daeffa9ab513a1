# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Edits that die at every step, that are killed at any moment, and that meet. What must hold is in the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import COLLECTIONS


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: thousands of fsyncs are not what is tested."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="pdops-test-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def drive(what: str, folder: Path, *more: str, driver: str = "crash_driver.py") -> dict[str, Any]:
    program = Path(__file__).with_name(driver)
    done = subprocess.run(
        [sys.executable, "-B", program, COLLECTIONS, what, folder, *more], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert isinstance(seen, dict)
    return seen


def test_an_edit_that_dies_at_any_call_into_the_system_leaves_old_or_new_and_can_be_done_again(folder: Path) -> None:
    seen = drive("steps", folder)
    # The edit makes this many calls at least, or the test looks at something else.
    assert seen["steps"] > 60
    assert seen["old"] > 60 and seen["new"] > 10 and seen["leftovers"] > 10


def test_an_edit_that_is_killed_at_any_moment_leaves_old_or_new(folder: Path) -> None:
    seen = drive("kills", folder, "60")
    assert seen["False"] > 5 and seen["versions"] > 5, "it was always killed before it did anything"


def test_two_edits_at_once_lose_nothing(folder: Path) -> None:
    seen = drive("both", folder)
    assert seen == {"codes": [0, 0], "values": ["19", "19"], "versions": 41, "journal": 40}

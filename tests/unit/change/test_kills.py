# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Hundreds of changes that die at any call into the system. What must hold is in the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SEEDS = int(os.environ.get("PDOPS_KILL_SEEDS", "540"))
FLEET_SEEDS = SEEDS // 5


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: thousands of fsyncs are not what is tested."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="pdops-test-", dir="/dev/shm"))
    yield made
    shutil.rmtree(made)


def played(folder: Path, driver: str, seeds: int) -> Counter[str]:
    """What was seen in the stories of all seeds, told by two processes."""
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-B",
                Path(__file__).with_name(driver),
                ROOT / "collections",
                folder,
                str(first),
                str(last),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first, last in ((0, seeds // 2), (seeds // 2, seeds))
    ]
    seen: Counter[str] = Counter()
    for process in processes:
        told, trouble = process.communicate(timeout=3600)
        assert process.returncode == 0, trouble
        seen.update(json.loads(told))
    return seen


def test_wherever_a_change_dies_old_or_new_serves_nothing_is_lost_and_the_next_run_ends_clean(folder: Path) -> None:
    seen = played(folder, "kill_driver.py", SEEDS)
    # The stories came to every end that there is, or the test looks at something else.
    assert seen["calls of a whole change"] > 2 * 500
    for end in ("without a controller: old", "back: old", "again: new, 3 runs", "gate failed: old", "cut off: old"):
        assert seen[end] >= SEEDS // 30, seen
    for end in (
        () if SEEDS < 500 else ("rollback failed", "twice: old", "twice: new", "without a controller: new", "leftovers")
    ):
        assert seen[end] >= 1, seen


def test_over_two_to_five_machines_a_change_that_dies_ends_the_same_on_all(folder: Path) -> None:
    seen = played(folder, "kill_fleet.py", FLEET_SEEDS)
    for end in ("without a controller: old", "back: old", "again: new", "gate failed: old", "one alone"):
        assert seen[end] >= FLEET_SEEDS // 30, seen
    for end in () if FLEET_SEEDS < 100 else ("split", "forward: new"):
        assert seen[end] >= 1, seen

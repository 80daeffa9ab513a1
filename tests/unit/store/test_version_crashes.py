# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Prunes and imports that die at every step, that are killed, and that meet edits. What must hold is in the driver."""

from __future__ import annotations

from pathlib import Path

from .test_crashes import drive as drive_with
from .test_crashes import folder

__all__ = ["folder"]  # a fixture


def drive(what: str, folder: Path, *more: str) -> dict[str, object]:
    return drive_with(what, folder, *more, driver="version_crash_driver.py")


def test_a_prune_that_dies_at_any_call_loses_nothing_that_is_named_and_the_next_one_finishes_it(folder: Path) -> None:
    seen = drive("prunes", folder)
    # The prune makes this many calls at least, or the test looks at something else.
    assert seen["steps"] > 60
    assert seen["old"] > 30 and seen["new"] > 10
    assert seen["unnamed"] > 3, "no death came between the index and the removal of contents"
    assert seen["temporary"] > 1


def test_an_import_that_dies_at_any_call_can_be_done_again(folder: Path) -> None:
    seen = drive("imports", folder)
    assert seen["steps"] > 60 and seen["0"] > 10 and seen["1"] > 5 and seen["2"] > 1


def test_edits_and_prunes_that_are_killed_at_any_moment_leave_a_whole_store(folder: Path) -> None:
    seen = drive("kills", folder, "40")
    assert seen["prunes"] > 3 and seen["more"] > 3, "it was always killed at the same place"


def test_edits_and_prunes_at_once_lose_nothing(folder: Path) -> None:
    seen = drive("both", folder)
    assert seen["codes"] == [0, 0, 0]
    assert seen["versions"] == 2 and seen["objects"] == 2

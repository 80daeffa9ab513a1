# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where a report lies."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.report.files import report_name, write_report

GIVEN = {"verb": "restore", "change_id": "20261129T200613-restore-0064ef", "began": "2026-11-29T20:06:14Z"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (GIVEN, "20261129T200614Z-restore-20261129T200613-restore-0064ef.html"),
        ({"verb": "verify", "outcome": "failed", "began": 1795982774}, "20261129T200614Z-verify-failed.html"),
        ({"verb": "../../etc/passwd", "change_id": "a b/\n"}, "etc-passwd-a-b.html"),
        ({}, "unknown.html"),
    ],
)
def test_names(given, name):
    assert report_name(given) == name


def test_both_files_are_whole_and_latest_is_replaced(tmp_path):
    folder = tmp_path / "reports" / "x"
    path, latest = write_report(str(folder), "one", GIVEN)
    before = os.stat(latest).st_ino
    other, latest = write_report(str(folder), "two", {**GIVEN, "change_id": "20261129T200700-set-000000"})
    assert sorted(os.listdir(folder)) == sorted([os.path.basename(path), os.path.basename(other), "latest.html"])
    assert Path(path).read_text() == "one" and Path(latest).read_text() == "two"
    assert os.stat(latest).st_ino != before  # replaced, never rewritten in place
    assert not stat.S_IMODE(os.stat(path).st_mode) & 0o022


def test_a_folder_that_cannot_be_made_is_said_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(PdopsError, match=r"could not be made: .*\.$"):
        write_report(str(tmp_path / "file" / "reports"), "page", GIVEN)

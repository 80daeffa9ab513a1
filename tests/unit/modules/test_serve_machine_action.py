# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The action plugin of serve_machine: a wheel comes into its place whole, and what did not fit leaves nothing."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.action.serve_machine import ActionModule
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError


@pytest.fixture
def item(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "controller").mkdir()
    (tmp_path / "temporary").mkdir()
    wheel = tmp_path / "controller" / "big-1.0-py3-none-any.whl"
    wheel.write_bytes(b"x" * 100_000)
    files = [{"name": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    return {"source": str(tmp_path / "machine"), "wheels": {"folder": str(wheel.parent), "files": files}}


def carry(item: dict[str, Any], tmp_path: Path, limit: str = "unlimited") -> None:
    """With the machine's commands run by a shell that may write files up to a limit (of 1024 bytes each)."""
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=f"{tmp_path}/temporary/"))
    action = ActionModule(SimpleNamespace(args={}), connection, None, None, None, None)

    def run(command: str) -> dict[str, Any]:
        done = subprocess.run(["bash", "-c", f"ulimit -f {limit}; {command}"], capture_output=True, text=True)
        return {"rc": done.returncode, "stderr": done.stderr}

    action._low_level_execute_command = run
    action._carry = lambda path, name: str(shutil.copy(path, tmp_path / "temporary" / name))
    action._carry_wheels(item, [file["name"] for file in item["wheels"]["files"]])


def test_it_is_there_whole_and_nothing_beside_it(item: dict[str, Any], tmp_path: Path) -> None:
    carry(item, tmp_path)
    (there,) = Path(item["source"]).iterdir()
    assert there.name == "big-1.0-py3-none-any.whl" and there.read_bytes() == b"x" * 100_000
    assert there.stat().st_mode & 0o777 == 0o644 and list((tmp_path / "temporary").iterdir()) == []


def test_of_one_that_does_not_fit_nothing_is_left(item: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PdopsError, match=r"big-1\.0.* could not be put into .*/machine: .*run again"):
        carry(item, tmp_path, limit="8")
    assert list(Path(item["source"]).iterdir()) == []

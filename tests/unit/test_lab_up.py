# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""python -m lab up never takes another lab's scripts, state and evidence away unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def up(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab", "up", "--dir", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(
    "arguments", [("--story", "--name", "dsv4"), ("--name", "dsv4"), ("--decodes", "2"), ("--story", "--machines", "2")]
)
def test_a_lab_of_another_name_or_shape_is_refused_and_kept(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shape = {"name": "lab", "prefills": 1, "decodes": 1, "machines": 1, "tensor_parallel": 4}
    mark = {"supervisord": None, "short": "/nowhere", "first_port": 1, "engine": "simulated", "shape": shape}
    (tmp_path / "processes.json").write_text(json.dumps(mark))
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "entry.json").write_text("kept")
    ran = up(tmp_path, *arguments)
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1 and "holds another lab (lab-prefill, lab-decode, lab-router)" in ran.stderr
    assert "--fresh replaces it" in ran.stderr and "--dir" in ran.stderr
    assert (tmp_path / "evidence" / "entry.json").read_text() == "kept"


@pytest.mark.parametrize("name", ["lab", "dsv4"])
def test_the_usual_inventory_says_which_one_a_lab_of_another_name_has(tmp_path: Path, name: str) -> None:
    instances = {f"{name}-{role}": {"unit": role} for role in ("prefill", "decode", "router")}
    (tmp_path / "lab.json").write_text(json.dumps({"name": name, "state_dir": "/state", "instances": instances}))
    ran = subprocess.run(
        [str(Path(sys.executable).with_name("ansible")), "lab", "-m", "debug", "-a", "msg={{ lab.name }}"],
        cwd=ROOT,
        env={**os.environ, "PDOPS_LAB_DIR": str(tmp_path), "ANSIBLE_INVENTORY": str(ROOT / "inventory" / "lab")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    words = " ".join((ran.stdout + ran.stderr).split())
    if name == "lab":
        assert ran.returncode == 0, words
    else:
        assert ran.returncode != 0
        assert "has dsv4-prefill, dsv4-decode, dsv4-router, and inventory/lab describes only the usual one" in words
        assert f"export ANSIBLE_INVENTORY={tmp_path}/inventory.json" in words

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What people call in ``tools/`` says what it takes, and refuses what it does not take before it does anything; ``make clean`` leaves nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.conftest import Lab

ROOT = Path(__file__).resolve().parents[2]
TOOLS = sorted(path.name for path in (ROOT / "tools").iterdir() if os.access(path, os.X_OK) and path.is_file())


def tool(name: str, *words: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Nothing that a tool needs is found, so one that goes on to work fails otherwise than by refusing."""
    known = {**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **environment}
    command = [str(root / "tools" / name), *words]
    return subprocess.run(command, env=known, cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows of the repo and what it does not know yet, elsewhere, so that a tool that works would spoil nothing."""
    root = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    return root


def test_the_tools_are_found() -> None:
    assert len(TOOLS) >= 14 and "molecule" in TOOLS


@pytest.mark.parametrize("name", TOOLS)
def test_help_says_in_a_few_lines_what_a_tool_takes(checkout: Path, name: str) -> None:
    for word in ("--help", "-h"):
        done = tool(name, word, root=checkout)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert name in done.stdout and 1 <= len(done.stdout.splitlines()) <= 12, done.stdout
        assert "SPDX" not in done.stdout and "set -" not in done.stdout


@pytest.mark.parametrize("name", [name for name in TOOLS if name != "test-real"])  # its words go to pytest
def test_what_a_tool_does_not_take_is_refused_before_anything_is_done(checkout: Path, name: str) -> None:
    before = sorted(checkout.rglob("*"))
    for words in (("nonsense", "more", "words"), ("--nonsense",)):
        done = tool(name, *words, root=checkout)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        told = done.stderr.splitlines()[-1]
        assert "nonsense" in told or "more" in told, told
        assert not done.stdout
    assert sorted(checkout.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "words", "environment"),
    [
        ("test", (), {"PARTS": "lint unti"}),
        ("molecule", ("default", "convergee"), {}),
        ("setup", ("lab", "devel"), {}),
    ],
)
def test_a_slip_of_the_pen_is_refused(checkout: Path, name: str, words: tuple[str, ...], environment: dict) -> None:
    done = tool(name, *words, root=checkout, **environment)
    assert done.returncode == 2 and not done.stdout
    assert any(slip in done.stderr for slip in ("unti", "convergee", "devel")), done.stderr


def test_make_clean_leaves_what_git_has_and_the_environments(checkout: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    shutil.copytree(checkout, root, symlinks=True)
    known = {path.relative_to(root) for path in root.rglob("*")}
    kept = [".venv/lib/__pycache__/x.pyc", "kernels/.venv/lib/__pycache__/x.pyc", "reports/lab/latest.html"]
    built = [
        *("module_utils/__pycache__/x.pyc", "tests/unit/store/__pycache__/x.pyc", "kernels/src/__pycache__/x.pyc"),
        *(".lab/lab.log", ".lab-dsv4/lab.log", "build/x", ".cache/x", ".mypy_cache/x", ".ruff_cache/x"),
        *(".pytest_cache/x", ".hypothesis/x", ".ansible/x", "changelogs/.plugin-cache.yaml"),
    ]
    for name in (*kept, *built):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    done = subprocess.run(["make", "clean"], cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    left = {path.relative_to(root) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert left - known == {Path(name) for name in kept}
    assert {name for name in known if (root / name).is_file()} <= left


def test_an_inventory_of_real_machines_that_somebody_has_exported_is_not_what_the_lab_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runbooks say to export it, and the demo changes what it finds."""
    monkeypatch.setenv("ANSIBLE_INVENTORY", "/real")
    assert Lab(tmp_path).environment["ANSIBLE_INVENTORY"] == str(ROOT / "inventory" / "lab")
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ansible-playbook"):
        (programs / name).write_text('#!/bin/sh\necho "on $ANSIBLE_INVENTORY"\n')
        (programs / name).chmod(0o755)
    ran = tool("demo", root=tmp_path)
    assert f"on {tmp_path}/inventory/lab" in ran.stdout and "/real" not in ran.stdout, ran.stdout
    told = subprocess.run(
        ["make", "-s", "--eval", "told:;@echo on [$$ANSIBLE_INVENTORY]", "told"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert told.stdout == "on []\n", told.stderr

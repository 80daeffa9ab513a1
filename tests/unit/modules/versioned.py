# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One serve script, its store, and the module serve_version run in process, for the tests of its verbs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.modules import serve_version

from .in_process import answer_of

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests" / "unit" / "scripts" / "cases"
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
LABEL = "pretgt_revert_2025"

Module = Callable[..., "tuple[int, dict[str, Any]]"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The story's script: the knob is gone, and the backup of before has it."""
    path = tmp_path / "serve_decode.sh"
    shutil.copy(CASES / "01_dsv4_decode.reverted.sh", path)
    backup = tmp_path / f"serve_decode.sh.{LABEL}.bak"
    shutil.copy(CASES / "01_dsv4_decode.sh", backup)
    os.utime(backup, (1.7e9, 1.7e9))
    path.chmod(0o750)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def module(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Module:
    def run(verb: str, check: bool = False, diff: bool = False, **given: Any) -> tuple[int, dict[str, Any]]:
        arguments = {
            **({} if verb == "verify" else {"path": str(script)}),
            "verb": verb,
            "state_dir": str(tmp_path / "state"),
            "_ansible_check_mode": check,
            "_ansible_diff": diff,
            "_ansible_remote_tmp": str(tmp_path),
            **given,
        }
        code, answer, _text = answer_of(serve_version.main, arguments, capsys)
        return code, answer

    return run


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def add(store: Store, script: Path, *values: str) -> list[str]:
    """Versions with these values of the knob, oldest first; their sha256. The script is not touched."""
    text = (CASES / "01_dsv4_decode.sh").read_bytes()
    return [
        store.add_version(str(script), text.replace(b"CTAS=512", f"CTAS={value}".encode()), value, "alice", None).sha256
        for value in values
    ]


def use(store: Store, script: Path, sha256: str) -> None:
    script.write_bytes(store.content(sha256))


def opened(store: Store, script: Path, change_id: str, state: str, **files: Any) -> None:
    """The record of a change, as the book keeps it."""
    record = {
        "id": change_id,
        "deployment": "dsv4",
        "verb": "set",
        "summary": "set X",
        "leader": {"user": "bob", "host": "ops", "pid": 1, "boot_id": "", "started_ticks": 0},
        "opened": f"2026-11-29T00:00:{len(Book(store).all()):02}Z",
        "state": state,
        "reason": "",
        "files": [{"instance": "d", "path": str(script), "sha256_before": "", "sha256_after": "", **files}],
        "instances": [{"name": "d", "unit": "d", "serve_script": str(script)}],
        "steps": [],
        "touched": [],
        "inherits": [],
        "lease": {"step": "", "budget_s": 1, "boot_id": "", "deadline_s": 0.0, "renewed": ""},
    }
    store.write_state(os.path.join(store.state_dir, "changes", f"{change_id}.json"), json.dumps(record).encode())

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What processes that were killed left behind is taken away by the next one, and what belongs to the living is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.action import serve_script
from ansible_collections.pdops.sglang.plugins.module_utils import left_by_dead
from ansible_collections.pdops.sglang.plugins.module_utils.change import verbs
from ansible_collections.pdops.sglang.plugins.module_utils.probe import worker
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

from tests.unit.change.test_reentry import Changing

ROOT = Path(__file__).resolve().parents[2]
MAKES = """
import os, signal, sys
from ansible_collections.pdops.sglang.plugins.module_utils.left_by_dead import folder_of_mine
print(folder_of_mine(sys.argv[1], "rendered"), flush=True)
input()
"""


def making(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that lives until its input closes, and the folder that it made."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKES, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_rendered_scripts_of_a_killed_run_go_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [tmp_path / f"ansible-local-{number}" for number in (1, 2, 3)]
    for run in runs:
        run.mkdir()
    (killed, left), (living, kept) = making(runs[0]), making(runs[1])
    foreign = runs[0] / "pdops-rendered-00000000-1-1-abc"
    foreign.mkdir()
    (runs[0] / "ansiballz_cache").mkdir()
    (left / "serve.sh").write_text("export A=1")
    killed.kill()
    killed.communicate()
    monkeypatch.setattr(serve_script.C, "DEFAULT_LOCAL_TMP", str(runs[2]))
    mine = Path(serve_script.rendered_folder())
    assert mine.parent == runs[2] and mine.stat().st_mode & 0o077 == 0
    assert not left.exists() and kept.exists() and foreign.exists() and (runs[0] / "ansiballz_cache").exists()
    living.communicate("\n")
    os.utime(foreign, (1.0, 1.0))
    left_by_dead.clear_folders(str(runs[0]), "rendered")
    assert not foreign.exists(), "of another start of the machine, and old"


def test_what_killed_writes_left_in_the_state_folder_goes_when_the_next_change_begins(tmp_path: Path) -> None:
    changing = Changing(tmp_path)
    Store(changing.store.state_dir).prepare()
    gone = subprocess.Popen(["true"])
    gone.wait()
    state = Path(changing.store.state_dir)
    old, young = state / "changes" / ".pdops-x.json-0123456789ab", state / ".pdops-journal.jsonl-ba9876543210"
    probe, theirs = state / f".probe-{gone.pid}", state / f".probe-{os.getppid()}"
    for path in (old, young, probe, theirs):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    try:
        real = time.time
        left = os.stat(old).st_ctime
        time.time = lambda: real() + 120.0  # the age counts from the last change of the inode, which nobody can set
        young.touch()
        os.utime(young, (left + 120.0, left + 120.0))
        verbs.run({**changing.given, "verb": "begin"}, check_mode=False)
    finally:
        time.time = real
        for pid in changing.guards():
            os.kill(pid, signal.SIGKILL)
    assert not old.exists() and not probe.exists()
    assert young.exists() and theirs.exists()


def test_the_folder_of_a_killed_probe_goes_with_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    me: Any = left_by_dead.read_process(os.getpid())
    folders = {}
    for name, pid, ticks in (
        ("killed", gone.pid, 1),
        ("living", os.getpid(), me.started_ticks),
        ("looked", gone.pid, 1),
    ):
        folders[name] = tmp_path / f"pdops-probe-{name}"
        folders[name].mkdir()
        (folders[name] / "pid").write_text(f"{pid} {ticks}")
        looked = folders[name] / "looked"
        looked.write_text("")
        if name != "looked":
            os.utime(looked, (1.0, 1.0))
    other = tmp_path / "of-somebody-else"
    other.mkdir()
    worker._clear_dead()
    assert not folders["killed"].exists()
    assert folders["living"].exists() and folders["looked"].exists() and other.exists()

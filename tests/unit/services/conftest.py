# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Real supervisords, and a folder with stand-ins for systemctl and journalctl."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import supervised
from ansible_collections.pdops.sglang.plugins.module_utils.services import base


@pytest.fixture(scope="session")
def one_supervisord():
    daemon = supervised.Supervised()
    yield daemon
    daemon.close()


@pytest.fixture
def supervisord(one_supervisord):
    """A function that gives a running supervisord these programs."""
    yield one_supervisord.use
    one_supervisord.clear()


class FakeSystemd:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("units", "journal", "bin", "cgroup"):
            (folder / name).mkdir()
        for name in ("systemctl", "journalctl"):
            script = folder / "bin" / name
            source = Path(__file__).parent / "fake_systemd.py"
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{source}" {name} "$@"\n')
            script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def unit(self, name: str, command: list, **more) -> None:
        (self.folder / "units" / name).write_text(json.dumps({"exec": command, **more}))

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def fake_systemd(tmp_path, monkeypatch):
    folder = tmp_path / "systemd"
    folder.mkdir()
    fake = FakeSystemd(folder)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PDOPS_FAKE_SYSTEMD", str(folder))
    yield fake
    for path in (folder / "state").iterdir() if (folder / "state").exists() else ():
        pid = int(json.loads(path.read_text())["ExecMainPID"])
        if pid:
            try:
                os.killpg(pid, 9)
            except OSError:
                pass


@pytest.fixture
def patient(monkeypatch):
    """Programs of tests that die at once may take a while for it on a busy machine."""
    monkeypatch.setattr(base, "SETTLE_S", 8.0)

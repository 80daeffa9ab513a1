# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A systemctl and a systemd-analyze that only write down how they were called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.services import systemd as running


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The calls so far, each as one line. Units are enabled when a file of their name lies in ``enabled``."""
    folder = tmp_path / "bin"
    (folder / "enabled").mkdir(parents=True)
    calls = tmp_path / "calls"
    calls.touch()
    (folder / "systemctl").write_text(
        f'#!/bin/sh\necho "$*" >> {calls}\ncd {folder}/enabled\nfor name; do :; done\n'
        'case "$1 $2" in\n  "is-enabled "*) [ -e "$name" ];;\n  *" enable") touch "$name";;\n  *" disable") rm -f "$name";;\nesac\n'
    )
    (folder / "systemd-analyze").write_text(
        f'#!/bin/sh\necho "analyze" >> {calls}\ngrep -Hn Nonsense "$3" >&2\nexit 0\n'
    )
    for name in ("systemctl", "systemd-analyze"):
        (folder / name).chmod(0o755)
    monkeypatch.setattr(running, "RUN_FOLDER", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return lambda: calls.read_text().splitlines()

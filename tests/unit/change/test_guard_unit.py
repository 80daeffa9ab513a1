# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The guard's unit: what is written, what is left when it has ended, and what it does after a boot before the units start."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import agent, agent_main, guard, guard_unit, who
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

OLD, NEW = b"export A=1\n", b"export A=2\n"
PROGRAM = ["/usr/bin/python3", "-I", "/var/lib/pd ops/agent/50%.pyz"]


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/etc/systemd/system, and a systemctl that notes what it was asked."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(guard_unit, "UNIT_FOLDER", str(folder))
    for name in ("systemctl", "systemd-run"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/asked\n[ ! -e {tmp_path}/refuses-{name} ] || exit 1\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return folder


def asked(units: Path) -> list[str]:
    path = units.parent / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_the_unit_is_written_once_enabled_and_started(units: Path) -> None:
    written = guard_unit.start(PROGRAM, "/var/lib/pd ops", "one-1", ["sglang-prefill", "sglang-router.service"])
    drop_in = (units / "pdops-guard@one-1.service.d" / "change.conf").read_text()
    assert "Before=sglang-prefill.service sglang-router.service\n" in drop_in
    assert 'RequiresMountsFor="/var/lib/pd ops"' in drop_in
    command = '"--state-dir" "/var/lib/pd ops" "--change" "one-1"'
    assert (
        f'ExecStart=\nExecStart="/usr/bin/python3" "-I" "/var/lib/pd ops/agent/50%%.pyz" "guard" {command}\n' in drop_in
    )
    assert 'ExecStartPre=-"/usr/bin/python3" "-I" "/var/lib/pd ops/agent/50%%.pyz" "files"' in drop_in
    link = units / "multi-user.target.wants" / "pdops-guard@one-1.service"
    assert link.readlink() == units / "pdops-guard@.service"
    assert len(written) == 3
    start = ["systemctl reset-failed pdops-guard@one-1.service", "systemctl start pdops-guard@one-1.service"]
    assert asked(units) == ["systemctl daemon-reload", *start]
    # Once more: nothing is written, so nothing has to be read again.
    assert guard_unit.start(PROGRAM, "/var/lib/pd ops", "one-1", ["sglang-prefill", "sglang-router.service"]) == []
    assert asked(units)[3:] == start
    guard_unit.remove("one-1")
    guard_unit.remove("one-1")
    assert sorted(path.name for path in units.rglob("*")) == ["multi-user.target.wants", "pdops-guard@.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    (tmp_path / "pdops-guard@.service").write_text(guard_unit.TEMPLATE)
    unit = tmp_path / "pdops-guard@one-1.service"
    whole = guard_unit.drop_in(["/usr/bin/python3", "-I", "/a.pyz"], str(tmp_path), "one-1", ["sglang-prefill"])
    unit.write_text(guard_unit.TEMPLATE.replace("ExecStart=/bin/false\n", "") + "\n" + whole)
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "Unknown" not in done.stderr and "pdops-guard" not in done.stderr, done.stderr


def test_where_no_unit_can_be_written_a_transient_one_guards_and_it_is_said(
    units: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_unit, "UNIT_FOLDER", "/proc/nowhere")
    told = agent.start_guard(Store(str(tmp_path / "state")), "/a.pyz", "one-1", True, ["d"])
    assert "the guard of change one-1 would not survive a reboot" in told[0]
    assert asked(units)[-1].startswith("systemd-run --quiet --collect --unit=pdops-guard-one-1 ")
    (units.parent / "refuses-systemd-run").touch()
    with pytest.raises(PdopsError, match=r"could not be started.*nothing was changed"):
        agent.start_guard(Store(str(tmp_path / "state")), "/a.pyz", "one-1", True, ["d"])


def opened(tmp_path: Path, boot: str | None = None) -> tuple[Book, Path]:
    script = tmp_path / "serve.sh"
    script.write_bytes(NEW)
    book = Book(Store(str(tmp_path / "state")))
    for content in (OLD, NEW):
        book.store.add_version(str(script), content, "", "test", "one-1")
    file = {"instance": "d", "path": str(script), "sha256_before": sha256_of(OLD), "sha256_after": sha256_of(NEW)}
    instance = {"name": "d", "role": "decode", "unit": "d", "serve_script": str(script), "url": "http://127.0.0.1:1"}
    more: dict[str, Any] = {"machine": "m", "manager": "supervisor"}
    leader = who.this_process("alice")
    record = rules.new_record("one-1", "lab", "set", "a test", leader, [file], [{**instance, **more}], 60, now_utc())
    if boot:
        record["lease"]["boot_id"] = boot
    book.begin(record, None)
    return book, script


def test_after_a_boot_the_files_come_back_before_anything_starts(tmp_path: Path) -> None:
    book, script = opened(tmp_path, boot="an earlier boot")
    assert agent_main.main(["files", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve) == 0
    assert script.read_bytes() == OLD
    record = book.load("one-1")
    assert record["state"] == "rolling-back"
    assert "the machine was rebooted after step 'begin'" in record["reason"]
    assert agent_main.main(["guard", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve) == 0
    assert book.load("one-1")["state"] == "rolled-back"
    # The same program once more, as at the next boot: it has nothing to do.
    assert agent_main.main(["files", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve) == 0
    assert agent_main.main(["guard", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve) == 0


def test_in_the_same_boot_the_files_are_left_to_the_guard(tmp_path: Path) -> None:
    book, script = opened(tmp_path)
    assert agent_main.main(["files", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve) == 0
    assert (script.read_bytes(), book.load("one-1")["state"]) == (NEW, "open")


def test_a_rollback_that_failed_is_not_started_again_by_systemd(tmp_path: Path) -> None:
    book, script = opened(tmp_path, boot="an earlier boot")
    script.write_bytes(b"by somebody else\n")
    code = agent_main.main(["guard", "--state-dir", book.store.state_dir, "--change", "one-1"], guard.serve)
    assert (code, book.load("one-1")["state"]) == (guard_unit.EXIT_ROLLBACK_FAILED, "rollback-failed")
    assert f"RestartPreventExitStatus=0 {code}\n" in guard_unit.TEMPLATE

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""serve_knob as a process of its own before what stands in the way of an edit: right, or one sentence and nothing touched.

What the writer itself does with each obstacle is tested in tests/unit/store.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COLLECTIONS = str(Path(__file__).resolve().parents[3] / "collections")
OLD = b"#!/bin/bash\nexport SGLANG_A=1\nexec python3 -m sglang.launch_server\n"
NEW = OLD.replace(b"=1", b"=2")
RUN = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
from ansible.module_utils import basic
from ansible_collections.pdops.sglang.plugins.modules import serve_knob
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = sys.argv[2].encode(), "legacy"
size, uid = int(sys.argv[3]), int(sys.argv[4])
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
if uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
serve_knob.main()
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users and flags need root")


@pytest.fixture
def script() -> Iterator[Path]:
    """In a folder that other users may enter, with a state folder beside it."""
    folder = Path(tempfile.mkdtemp(prefix="pdops-test-"))
    folder.chmod(0o755)
    path = folder / "serve" / "decode.sh"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.chmod(0o750)
    yield path
    shutil.rmtree(folder)


def run(script: Path, size: int = 0, uid: int = 0, **more: Any) -> dict[str, Any]:
    arguments = {
        "path": str(script),
        "knobs": {"SGLANG_A": 2},
        "state_dir": str(script.parent.parent / f"state{uid}"),
        "_ansible_remote_tmp": tempfile.gettempdir(),
        **more,
    }
    given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
    done = subprocess.run(
        [sys.executable, "-B", "-c", RUN, COLLECTIONS, given, str(size), str(uid)], capture_output=True, text=True
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def refused(script: Path, words: str, **how: Any) -> None:
    answer = run(script, **how)
    assert answer.get("failed") is True and words in answer["msg"] and "\n" not in answer["msg"], answer
    assert script.read_bytes() == OLD
    assert [name for name in os.listdir(script.parent) if name.startswith(".")] == []


def test_a_symlink_is_followed_and_stays_one(script: Path) -> None:
    link = script.with_name("link.sh")
    link.symlink_to("decode.sh")
    assert run(link)["changed"] is True
    assert link.is_symlink() and script.read_bytes() == NEW


def test_a_hard_link_is_refused(script: Path) -> None:
    os.link(script, script.with_name("twin.sh"))
    refused(script, "hard links")


def test_a_hand_edit_since_the_plan_is_refused(script: Path) -> None:
    planned = run(script, _ansible_check_mode=True)["sha256_before"]
    edited = OLD.replace(b"exec", b"# by hand\nexec")
    script.write_bytes(edited)
    answer = run(script, expect_sha256=planned)
    assert answer["failed"] is True and "somebody edited it in the meantime" in answer["msg"]
    assert script.read_bytes() == edited


def test_no_space_by_the_limit_of_a_file_is_refused(script: Path) -> None:
    refused(script, "file size limit", size=64)


@needs_root
@pytest.mark.parametrize("flag", ["i", "a"])
def test_a_flag_that_forbids_it_is_refused(script: Path, flag: str) -> None:
    if subprocess.run(["chattr", f"+{flag}", script], capture_output=True).returncode != 0:
        pytest.skip("this file system has no such flags")
    try:
        refused(script, f"chattr -{flag} {script} first")
    finally:
        subprocess.run(["chattr", f"-{flag}", script], check=True)


@needs_root
def test_another_users_script_and_folder_are_refused(script: Path) -> None:
    script.chmod(0o755)
    state = script.parent.parent / "state1234"
    state.mkdir(mode=0o700)
    os.chown(state, 1234, 1234)
    refused(script, "run with become", uid=1234)
    os.chown(script.parent, 1234, 1234)
    refused(script, "belongs to another user (uid 0)", uid=1234)


@needs_root
def test_owner_group_and_mode_are_kept_in_a_setgid_folder_with_attributes(script: Path) -> None:
    os.chown(script, 1234, 2345)
    os.chown(script.parent, 0, 3456)
    script.parent.chmod(0o2755)
    with_attribute = True
    try:
        os.setxattr(script, "user.note", b"kept")
    except OSError:
        with_attribute = False
    assert run(script)["changed"] is True
    told = script.stat()
    assert (told.st_uid, told.st_gid, told.st_mode & 0o7777) == (1234, 2345, 0o750)
    assert script.read_bytes() == NEW
    if with_attribute:
        assert os.getxattr(script, "user.note") == b"kept"

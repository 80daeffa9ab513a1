# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

COLLECTIONS = str(Path(__file__).resolve().parents[3] / "collections")
OLD, NEW = b"export A=1\n", b"export A=2\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "state"))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "serve" / "decode.sh"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.chmod(0o750)
    return path


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users may enter; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="pdops-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_user(uid: int, work: Callable[[], object]) -> str:
    """What a child process of another user and group was refused with; '' when it was not."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            try:
                work()
            except PdopsError as error:
                os.write(writer, str(error).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        said = source.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return said


def in_own_mounts(program: str, *arguments: str) -> str:
    """Run a program whose mounts end with it; its output. Skips where no mount is permitted."""
    prelude = f"""
import os, subprocess, sys
sys.path.insert(0, {COLLECTIONS!r})
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store import atomic
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
def mount(*arguments):
    if subprocess.run(["mount", *arguments], capture_output=True).returncode != 0:
        print("no mount here")
        sys.exit(77)
def said(work):
    try:
        work()
    except PdopsError as error:
        return str(error)
    return ""
"""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("mounts need root and unshare(1)")
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", prelude + program, *arguments], capture_output=True, text=True
    )
    if done.returncode == 77 or "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("no mount is permitted here")
    assert done.returncode == 0, done.stderr
    return done.stdout

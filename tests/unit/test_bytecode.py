# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What Python compiled of pdops is kept on a machine, and only what this user alone can have written is used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from module_utils import bytecode

ROOT = Path(__file__).resolve().parents[2]
#: As a module does it: first this, then what it needs; what is told is what a test asks about.
PROGRAM = """
import builtins, json, os, pwd, sys
sys.path.insert(0, sys.argv[1])
home = sys.argv[2]
pwd.getpwuid = lambda uid: pwd.struct_passwd(("tester", "x", uid, 0, "", home, "/bin/sh"))
compiled = []
real = builtins.compile
def counting(source, name, *rest, **more):
    compiled.append(name)
    return real(source, name, *rest, **more)
builtins.compile = counting
from sent.module_utils import bytecode
from sent.module_utils.change import agent, guard
print(json.dumps({
    "compiled": [name for name in compiled if name.startswith("pdops/")],
    "loader": type(guard.__spec__.loader).__module__ + "." + type(guard.__spec__.loader).__name__,
    "file": guard.__file__, "source": agent._source(guard) != "", "packed": agent.pack().hex(),
}))
"""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All sources in a zip, as Ansible sends them."""
    path = tmp_path_factory.mktemp("sent") / "sent.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sent/__init__.py", "")
        for source in sorted((ROOT / "module_utils").rglob("*.py")):
            archive.write(source, f"sent/{source.relative_to(ROOT)}")
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    return folder


def call(sent: Path, home: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM, str(sent), str(home)],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def kept(home: Path) -> list[Path]:
    return sorted(home.joinpath(*bytecode.PARTS).glob("*"))


def test_the_second_call_compiles_nothing_and_has_the_same(sent: Path, home: Path) -> None:
    first, second = call(sent, home), call(sent, home)
    assert "pdops/change/guard.py" in first["compiled"] and first["loader"].endswith("bytecode.Loader")
    assert second["compiled"] == []
    assert {**first, "compiled": []} == second
    assert second["source"] and "sent.zip" in second["file"]
    assert {path.stat().st_mode & 0o777 for path in kept(home)} == {0o600}
    assert home.joinpath(*bytecode.PARTS).stat().st_mode & 0o777 == 0o700


def test_what_is_damaged_or_cut_is_compiled_again_and_mended(sent: Path, home: Path) -> None:
    good = call(sent, home)
    for number, path in enumerate(kept(home)):
        content = path.read_bytes()
        path.write_bytes((content[:-7], b"", content[:40] + b"\xff" + content[41:])[number % 3])
    again = call(sent, home)
    assert sorted(again["compiled"]) == sorted(good["compiled"]) and again["packed"] == good["packed"]
    assert call(sent, home)["compiled"] == []


def test_another_source_is_another_file(sent: Path, home: Path, tmp_path: Path) -> None:
    call(sent, home)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(sent) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            more = b"\nCHANGED = True\n" if name.endswith("change/guard.py") else b""
            new.writestr(name, old.read(name) + more)
    assert call(other, home)["compiled"] == ["pdops/change/guard.py"]
    assert call(sent, home)["compiled"] == call(other, home)["compiled"] == []


@pytest.mark.parametrize("part", ["", ".cache", ".cache/pdops", ".cache/pdops/bytecode"])
def test_where_others_can_write_nothing_is_read_and_nothing_written(sent: Path, home: Path, part: str) -> None:
    call(sent, home)
    (home / part).chmod(0o777)
    before = {path: path.read_bytes() for path in kept(home)}
    for path in before:
        path.write_bytes(b"not ours")
    told = call(sent, home)
    assert told["loader"] == "builtins.zipimporter" or told["loader"].startswith("zipimport")
    assert {path.read_bytes() for path in kept(home)} == {b"not ours"}


def test_a_folder_of_somebody_else_or_behind_a_link_is_not_used(sent: Path, home: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else")
    call(sent, home)
    os.chown(home / ".cache" / "pdops", 12345, 12345)
    assert not call(sent, home)["loader"].endswith("bytecode.Loader")
    os.chown(home / ".cache" / "pdops", 0, 0)
    assert call(sent, home)["loader"].endswith("bytecode.Loader")
    (home / ".cache").rename(tmp_path / "elsewhere")
    (home / ".cache").symlink_to(tmp_path / "elsewhere")
    assert not call(sent, home)["loader"].endswith("bytecode.Loader")


def test_without_a_home_or_with_no_bytecode_wanted_all_works(sent: Path, home: Path, tmp_path: Path) -> None:
    assert not call(sent, tmp_path / "missing")["loader"].endswith("bytecode.Loader")
    plain = call(sent, home, "-B")
    assert not plain["loader"].endswith("bytecode.Loader") and kept(home) == []
    assert plain["packed"] == call(sent, home)["packed"]
    shutil.rmtree(home / ".cache")
    (home / ".cache").write_text("a file")
    assert not call(sent, home)["loader"].endswith("bytecode.Loader")


def test_what_was_kept_long_ago_goes_when_something_new_comes(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    code = compile("1", "x", "exec")
    bytecode.write(str(old), code)
    long_ago = time.time() - bytecode.KEPT_S - 60
    os.utime(old, (long_ago, long_ago))
    (tmp_path / "new.0123456789ab").write_bytes(b"of a call that was killed")
    os.utime(tmp_path / "new.0123456789ab", (long_ago, long_ago))
    bytecode.write(str(new), code)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert bytecode.read(str(new)) == code and bytecode.read(str(old)) is None


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    bytecode.write(str(tmp_path / "new"), compile("1", "x", "exec"))
    assert list(tmp_path.iterdir()) == []


def test_every_module_imports_it_before_what_it_is_to_keep() -> None:
    texts = {path.name: path.read_text() for path in (ROOT / "library").glob("*.py")}
    ours = {
        name: text[text.index("from ..module_utils") :] for name, text in texts.items() if "from ..module_utils" in text
    }
    assert len(ours) >= 17
    first = re.compile(r"from \.\.module_utils import (\(\s*)?bytecode\b")
    assert [name for name, imports in ours.items() if not first.match(imports)] == []

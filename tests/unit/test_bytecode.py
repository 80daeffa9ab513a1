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

#: Tells which folders are looked through.
SCANS = """
import os, sys
scan = os.scandir
def telling(path=".", *rest):
    print(path, file=sys.stderr)
    return scan(path, *rest)
os.scandir = telling
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
        timeout=60,
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


def changed(sent: Path, other: Path) -> Path:
    """Another version, of which one source is another."""
    with zipfile.ZipFile(sent) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            more = b"\nCHANGED = True\n" if name.endswith("change/guard.py") else b""
            new.writestr(name, old.read(name) + more)
    return other


def test_another_source_is_another_file(sent: Path, home: Path, tmp_path: Path) -> None:
    call(sent, home)
    other = changed(sent, tmp_path / "other.zip")
    assert call(other, home)["compiled"] == ["pdops/change/guard.py"]
    assert call(sent, home)["compiled"] == call(other, home)["compiled"] == []


@pytest.mark.parametrize("days", [-31, 31, 4000], ids=["long ago", "by a clock ahead", "by a clock far ahead"])
def test_what_was_kept_long_ago_goes_when_something_new_comes(
    sent: Path, home: Path, tmp_path: Path, days: int
) -> None:
    call(sent, home)
    folder = kept(home)[0].parent
    (folder / f"{kept(home)[0].name}.0123456789ab").write_bytes(b"of a call that was killed")
    (folder / "0").mkdir()  # somebody's, which cannot be taken away as a file can
    when = time.time() + days * 86400
    for path in folder.iterdir():
        os.utime(path, (when, when))
    other = changed(sent, tmp_path / "other.zip")
    assert "pdops/change/guard.py" in call(other, home)["compiled"]
    left = [path for path in kept(home) if path.is_file()]
    assert left and all(abs(path.stat().st_mtime - time.time()) < bytecode.KEPT_S for path in left)
    assert call(other, home)["compiled"] == []


def test_many_files_of_former_versions_are_looked_through_once(sent: Path, home: Path) -> None:
    call(sent, home)
    folder = kept(home)[0].parent
    count = len(kept(home))
    for path in kept(home):
        path.unlink()
    done = subprocess.run(
        [sys.executable, "-c", SCANS + PROGRAM, str(sent), str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(kept(home)) == count > 20
    assert done.stderr.split().count(str(folder)) == 1


@pytest.mark.parametrize("how", ["writable", "foreign", "link", "pipe", "folder", "swapped"])
def test_a_file_that_is_not_what_this_user_wrote_there_is_neither_used_nor_waited_for(
    sent: Path, home: Path, tmp_path: Path, how: str
) -> None:
    """As one that was put there while the folder was open to others."""
    if how == "foreign" and os.geteuid() != 0:
        pytest.skip("only root can make a file of somebody else")
    good = call(sent, home)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    there = kept(home)
    contents = {path: path.read_bytes() for path in there}
    for path, other in zip(there, [*there[1:], there[0]]):
        if how == "writable":
            path.chmod(0o666)
        elif how == "foreign":
            os.chown(path, 12345, 12345)
        elif how == "swapped":
            path.write_bytes(contents[other])
        else:
            path.rename(elsewhere / path.name)
            if how == "link":
                path.symlink_to(elsewhere / path.name)
            elif how == "pipe":
                os.mkfifo(path)
            else:
                path.mkdir()
    again = call(sent, home)
    assert sorted(again["compiled"]) == sorted(good["compiled"]) and again["packed"] == good["packed"]
    if how != "folder":
        assert call(sent, home)["compiled"] == [], "it is mended"


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
    # The other one, of what goes as one module, imports it itself.
    first = re.compile(r"from \.\.module_utils import (\(\s*)?(bytecode|sent_code)\b")
    assert [name for name, imports in ours.items() if not first.match(imports)] == []


def test_every_plugin_of_a_controller_imports_it_before_what_it_is_to_keep() -> None:
    """Or another plugin does, which it imports before all else of pdops."""
    paths = sorted(path for room in ("action_plugins", "filter_plugins") for path in (ROOT / room).glob("*.py"))
    ours = re.compile(r"^from ansible_collections\.pdops\.sglang\.plugins\.(.*(?:\n    .*)*)", re.MULTILINE)
    first = {path.name: found[1] for path in paths if (found := ours.search(path.read_text()))}
    assert len(first) >= 25
    wanted = re.compile(r"(action|filter)\b|module_utils import (\(\s*)?(bytecode|sent_code|as_typed as words)\b")
    assert [name for name, text in first.items() if not wanted.match(text)] == []


def test_a_controller_keeps_compiled_what_it_imports(tmp_path: Path) -> None:
    folder = tmp_path / "ansible_collections" / "pdops" / "sglang"
    shutil.copytree(
        ROOT / "module_utils", folder / "plugins" / "module_utils", ignore=shutil.ignore_patterns("__pycache__")
    )
    program = (
        "import sys; import ansible.cli; from ansible.plugins.loader import init_plugin_loader; init_plugin_loader([sys.argv[1]]);"
        "from ansible_collections.pdops.sglang.plugins.module_utils import bytecode;"
        "from ansible_collections.pdops.sglang.plugins.module_utils.record import fold;"
        "print(fold.__file__, fold.__cached__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    assert done.returncode == 0, done.stderr
    source, kept = map(Path, done.stdout.split())
    assert source == folder / "plugins/module_utils/record/fold.py" and kept.is_file()

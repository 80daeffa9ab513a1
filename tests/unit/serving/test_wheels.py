# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Wheels of the controller, and a virtual environment of them on the machine; pip and venv are the real ones."""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving import venv
from ansible_collections.pdops.sglang.plugins.module_utils.serving.machine import carry_out, plan_machine
from ansible_collections.pdops.sglang.plugins.module_utils.serving.wheel_set import read_wheels, wheel_set_from_dict

ROOT = Path(__file__).resolve().parents[3]


def wheel(folder: Path, name: str = "tiny", version: str = "1.0", also: Optional[Mapping[str, str]] = None) -> Path:
    """A wheel of one module, as small as they come, and of the files that are given."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        **(also or {}),
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(zipfile.ZipInfo(inside), text)
    return path


def test_the_key_is_that_of_the_content_and_of_what_is_installed(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        wheel(tmp_path / folder)
        wheel(tmp_path / folder, "other_one")
    (tmp_path / "b" / "README").write_text("not a wheel")
    one, two = (read_wheels(str(tmp_path / name), None, "d") for name in "ab")
    assert one.key == two.key and len(one.key) == 12
    assert one.install == ("other-one", "tiny")
    assert read_wheels(str(tmp_path / "a"), ["tiny"], "d").key != one.key
    assert wheel_set_from_dict(one.as_dict()) == one
    wheel(tmp_path / "b", version="1.1")
    assert read_wheels(str(tmp_path / "b"), None, "d").key != one.key


@pytest.mark.parametrize(
    ("install", "words"),
    [
        ([], "list names"),
        ({"tiny": 1}, "list names"),
        (["--index-url=http://evil"], "no name of a distribution"),
        (["tiny @ http://evil/x.whl"], "no name of a distribution"),
        (["-e ."], "no name of a distribution"),
    ],
)
def test_what_pip_would_take_for_an_option_or_an_address_is_refused(tmp_path: Path, install: Any, words: str) -> None:
    wheel(tmp_path)
    with pytest.raises(PdopsError, match=words):
        read_wheels(str(tmp_path), install, "d")
    assert read_wheels(str(tmp_path), ["tiny==1.0", "tiny[fast]>=1,<2"], "d").install


def test_a_wheel_that_was_cut_short_is_refused_on_the_controller(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(PdopsError, match=r"d: .*tiny-1\.0-py3-none-any\.whl is no whole wheel: .*; get it again"):
        read_wheels(str(tmp_path), None, "d")


def test_a_folder_that_is_missing_empty_or_odd_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(PdopsError, match=r"nosuch.*cannot be read on the controller"):
        read_wheels(str(tmp_path / "nosuch"), None, "d")
    with pytest.raises(PdopsError, match=r"no \*\.whl"):
        read_wheels(str(tmp_path), None, "d")
    (tmp_path / "tiny.whl").write_text("")
    with pytest.raises(PdopsError, match="not named like a wheel"):
        read_wheels(str(tmp_path), None, "d")


def wanted(tmp_path: Path, **more: Any) -> dict[str, Any]:
    wheels = read_wheels(str(tmp_path / "wheels"), None, "d").as_dict()
    source = tmp_path / "machine" / "wheels" / wheels["key"]
    source.mkdir(parents=True, exist_ok=True)
    for item in wheels["files"]:
        (source / item["name"]).write_bytes((tmp_path / "wheels" / item["name"]).read_bytes())
    path = str(tmp_path / "machine" / f"venv-{wheels['key']}")
    return {"path": path, "base_python": sys.executable, "wheels": wheels, "source": str(source), **more}


def test_a_virtual_environment_is_made_once_and_a_half_one_anew(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    needed = wanted(tmp_path)
    everything = {"folders": [], "venvs": [needed], "keys": []}
    tasks = plan_machine(everything)
    assert [task.said for task in tasks] == [f"make {needed['path']} from 1 wheels of the controller (tiny)"]
    carry_out(tasks)
    python = os.path.join(needed["path"], "bin", "python")
    assert (
        subprocess.run([python, "-c", "import tiny; print(tiny.VERSION)"], capture_output=True, text=True).stdout
        == "1.0\n"
    )
    assert plan_machine(everything) == []
    assert not os.path.exists(needed["source"])  # as large as the environment itself
    os.unlink(os.path.join(needed["path"], venv.MARK))  # as after a crash in the middle
    assert "make anew" in plan_machine(everything)[0].said


def base_python(folder: Path, ensurepip: str = "exit 0", install: str = "exit 0") -> str:
    """A python3 that makes an environment whose Python does these two otherwise; the real ones take seconds."""
    inner = f'#!/bin/sh\ncase "$*" in\n*ensurepip*) {ensurepip};;\n*install*) {install};;\nesac\n'
    (folder / "inner").write_text(inner)
    base = folder / "python3"
    base.write_text(
        '#!/bin/sh\n[ "$2" = venv ] || exit 0\nfor last; do :; done\n'
        f"mkdir -p $last/bin $last/lib\ncp {folder}/inner $last/bin/python\nchmod +x $last/bin/python\n"
    )
    base.chmod(0o755)
    return str(base)


FULL = "[Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (
            {
                "install": "echo Processing one; echo Processing two; echo ERROR: no matching distribution for nosuch >&2; exit 1"
            },
            r"could not be filled: ERROR: no matching distribution for nosuch; what serves was not touched, put that right",
        ),
        ({"install": f"echo 'ERROR: {FULL}' >&2; exit 1"}, "could not be filled: .*, free space there and run again"),
        ({"install": "echo only this; exit 1"}, "could not be filled: only this;"),
        (
            {
                "ensurepip": f"printf 'ERROR: {FULL}\\nTraceback (most recent call last):\\n  File x\\nCalledProcessError: pip\\n' >&2; exit 1"
            },
            "could not be made: ERROR: .*No space left on device; .*, free space there",
        ),
        (
            {"install": "printf 'Traceback (most recent call last):\\n  File x\\nOSError: odd\\n' >&2; exit 1"},
            "could not be filled: OSError: odd;",
        ),
        ({"ensurepip": f"echo 'ERROR: {FULL}' >&2; exit 1"}, "could not be made: .*No space left.*, free space there"),
    ],
)
def test_what_fails_in_the_environment_says_why_and_leaves_only_its_wheels(
    tmp_path: Path, fails: dict[str, str], words: str
) -> None:
    wheel(tmp_path / "wheels")
    needed = wanted(tmp_path, base_python=base_python(tmp_path, **fails))
    with pytest.raises(PdopsError, match=words):
        venv.make(needed)
    left = {path.name for path in (tmp_path / "machine").iterdir()}
    assert left == {"wheels", ".pdops-venv.lock"} and venv.missing(needed) and os.listdir(needed["source"])


def test_what_killed_runs_left_goes_with_the_next_environment_and_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "machine"
    wheel(tmp_path / "wheels", "first")
    first = wanted(tmp_path, base_python=base_python(tmp_path, install="kill -9 $PPID; sleep 9"))
    program = f"import json, sys; sys.path.insert(0, {str(ROOT)!r}); from module_utils.serving import venv; "
    dead = subprocess.run([sys.executable, "-c", program + "venv.make(json.loads(sys.argv[1]))", json.dumps(first)])
    assert dead.returncode == -9 and os.path.isdir(first["path"]) and os.listdir(first["source"])
    others = root / "venv-of-somebody", root / "venv-0123456789ab"
    for other in others:
        (other / "bin").mkdir(parents=True)
    wheel(tmp_path / "wheels", "second")
    second = wanted(tmp_path, base_python=base_python(tmp_path))
    venv.make(second)
    assert not venv.missing(second) and not os.path.exists(first["path"]) and all(other.exists() for other in others)
    assert os.listdir(root / "wheels") == [os.path.basename(first["source"])]  # somebody may be carrying them now
    assert not [name for name in os.listdir(root) if name.startswith(".pdops-half")]
    venv.shutil.rmtree(second["path"])
    second = wanted(tmp_path, base_python=base_python(tmp_path))
    with pytest.MonkeyPatch.context() as later:
        later.setattr(venv, "_ABANDONED_S", -1.0)
        venv.make(second)
    assert os.listdir(root / "wheels") == []


def test_a_wheel_that_was_damaged_on_the_way_is_not_installed(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    needed = wanted(tmp_path)
    (Path(needed["source"]) / "tiny-1.0-py3-none-any.whl").write_bytes(b"cut")
    assert venv.lacking(needed["wheels"], needed["source"]) == ["tiny-1.0-py3-none-any.whl"]
    with pytest.raises(PdopsError, match=r"does not have tiny-1\.0.* as this run saw it"):
        venv.make(needed)


def test_a_base_python_that_cannot_is_told_with_its_debian_package(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    bare = tmp_path / "python3"
    bare.write_text('#!/bin/sh\n[ "$2" = ensurepip ] && exit 1\nexit 0\n')
    bare.chmod(0o755)
    with pytest.raises(PdopsError, match=r"apt install python3-venv"):
        venv.missing(wanted(tmp_path, base_python=str(bare)))
    wheel(tmp_path / "wheels", "pip", "25.0")  # with a pip among the wheels it can
    assert venv.missing(wanted(tmp_path, base_python=str(bare)))
    with pytest.raises(PdopsError, match="does not run"):
        venv.missing(wanted(tmp_path, base_python="/no/python3"))


def test_folders_are_made_once_and_keys_are_made_private_but_never_written(tmp_path: Path) -> None:
    me = "root" if os.geteuid() == 0 else os.environ["USER"]
    key, folder = tmp_path / "etc" / "keys.yaml", tmp_path / "a" / "b"
    everything = {
        "folders": [{"path": str(path), "user": me} for path in (folder, key.parent)],
        "venvs": [],
        "keys": [{"path": str(key), "user": me}],
    }
    carry_out(plan_machine(everything))
    assert folder.is_dir() and key.parent.is_dir() and not key.exists()  # a change writes it
    assert plan_machine(everything) == []
    key.write_text("api-key: one\n")
    key.chmod(0o644)
    (task,) = plan_machine(everything)
    assert "private" in task.said and "one" not in str(task.as_dict())
    carry_out([task])
    assert key.read_text() == "api-key: one\n" and key.stat().st_mode & 0o777 == 0o600
    assert plan_machine(everything) == []


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "read-only"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], capture_output=True).returncode != 0:
        pytest.skip("a read-only disk needs the right to mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_on_which_nothing_can_be_made_is_told_before_anything_is(tmp_path: Path, read_only: Path) -> None:
    wheel(tmp_path / "wheels")
    root = read_only / "opt" / "pdops"
    needed = wanted(tmp_path, path=str(root / "venv-0a1b2c3d4e5f"), base_python=base_python(tmp_path))
    folders = [{"path": str(root / name), "user": getpass.getuser()} for name in ("", "run")]
    with pytest.raises(PdopsError) as refused:
        plan_machine({"folders": folders, "venvs": [needed], "keys": []})
    said = refused.value.details["mistakes"]
    assert len(said) == 3 and all(
        line.endswith(f"could not be made: the file system of {read_only} is read-only; remount it writable.")
        for line in said
    )


def test_what_is_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PdopsError, match="something else is there"):
        plan_machine({"folders": [{"path": str(tmp_path / "file"), "user": "root"}], "venvs": [], "keys": []})
    with pytest.raises(PdopsError, match="no user nobody-here"):
        plan_machine({"folders": [{"path": str(tmp_path / "x"), "user": "nobody-here"}], "venvs": [], "keys": []})


def test_all_that_is_in_the_way_on_a_machine_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folders = [{"path": str(tmp_path / "file"), "user": "root"}, {"path": str(tmp_path / "x"), "user": "nobody-here"}]
    venv = {"path": str(tmp_path / "venv"), "base_python": "/no/python3", "wheels": {"files": [], "install": []}}
    with pytest.raises(PdopsError, match="3 obstacles on the machine, and nothing was touched") as refused:
        plan_machine({"folders": folders, "venvs": [venv], "keys": []})
    words = ("something else is there", "no user nobody-here", "/no/python3 does not run")
    assert all(word in said for word, said in zip(words, refused.value.details["mistakes"], strict=True))

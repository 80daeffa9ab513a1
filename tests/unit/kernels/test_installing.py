# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A wheel lands in its own folder whole or not at all; what somebody may still need is never pruned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from module_utils.kernel_package import installing
from module_utils.kernel_package.folders import MARK, compare, installed_in
from module_utils.kernel_package.installing import install, plan
from module_utils.kernel_package.pruning import plan_pruning
from module_utils.kernel_package.wheel import Wheel, read_wheel
from module_utils.pdops_error import PdopsError
from module_utils.store.store import Store
from tests.kernel_wheel import make_wheel

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    return read_wheel(str(make_wheel(tmp_path / "wheels")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


def test_it_is_there_as_the_wheel_has_it_and_python_finds_its_entry_point(wheel: Wheel, root: Path) -> None:
    old = os.umask(0o077)
    try:
        path = Path(install(wheel, str(root)))
    finally:
        os.umask(old)
    assert path == root / wheel.folder
    assert {name: (path / name).read_bytes() for name in wheel.files} == dict(wheel.files)
    assert all(item.stat().st_mode & 0o777 == (0o755 if item.is_dir() else 0o644) for item in [path, *path.rglob("*")])
    code = "from importlib.metadata import entry_points as e; print([p.name for p in e(group='sglang.srt.plugins')])"
    env = {"PYTHONPATH": str(path), "PATH": os.environ["PATH"]}
    assert "pdops_kernels" in subprocess.check_output([sys.executable, "-c", code], env=env, text=True)
    assert plan(wheel, str(root)) == "", "what Python wrote beside the files is no damage"
    before = (path / MARK).stat()
    assert install(wheel, str(root)) == str(path) and (path / MARK).stat() == before
    assert [item.name for item in root.iterdir() if item.name.startswith(".pdops-half")] == []


def test_a_damaged_folder_is_installed_anew(wheel: Wheel, root: Path) -> None:
    path = Path(install(wheel, str(root)))
    (path / "pdops_kernels" / "plan.py").write_text("damaged = True\n")
    (path / "pdops_kernels" / "book.py").unlink()
    assert "2 files are not as installed: pdops_kernels/plan.py, pdops_kernels/book.py" in plan(wheel, str(root))
    install(wheel, str(root))
    assert plan(wheel, str(root)) == ""
    assert (path / "pdops_kernels" / "plan.py").read_bytes() == wheel.files["pdops_kernels/plan.py"]


def test_what_is_not_ours_is_left_alone(wheel: Wheel, root: Path) -> None:
    path = root / wheel.folder
    path.mkdir(parents=True)
    (path / "mine.txt").write_text("x")
    with pytest.raises(PdopsError, match="was not installed by pdops"):
        install(wheel, str(root))
    assert (path / "mine.txt").read_text() == "x"
    with pytest.raises(PdopsError, match="absolute path"):
        plan(wheel, "kernels")


LIMITED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from module_utils.kernel_package import installing, wheel
from module_utils.pdops_error import PdopsError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    installing.install(wheel.read_wheel(sys.argv[2]), sys.argv[3])
except PdopsError as error:
    print(error)
"""


def test_no_room_leaves_nothing_behind(wheel: Wheel, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "wheels" / "pdops_kernels-0.1.0-py3-none-any.whl"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(ROOT), str(path), str(root)], capture_output=True, text=True, check=True
    )
    assert "could not be installed" in done.stdout and "nothing of it is there" in done.stdout
    assert [item.name for item in root.iterdir()] == [".pdops-lock"]
    install(wheel, str(root))


def test_an_interrupted_install_is_no_install_and_the_next_one_clears_it_away(
    wheel: Wheel, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(installing, "_put", kill)
        patch.setattr(installing.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed):
            install(wheel, str(root))
    (half,) = (item for item in root.iterdir() if item.is_dir())
    assert half.name.startswith(".pdops-half-") and installed_in(str(root)) == []
    install(wheel, str(root))
    assert [item.name for item in root.iterdir() if item.is_dir()] == [wheel.folder]


def test_two_installs_at_once_are_one(wheel: Wheel, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "wheels" / "pdops_kernels-0.1.0-py3-none-any.whl"
    code = LIMITED.replace("resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))", "")
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(ROOT), str(path), str(root)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == [b"", b""]
    assert plan(wheel, str(root)) == ""


def test_files_are_compared() -> None:
    diff = compare({"a": "1", "b": "1", "c": "1"}, {"b": "1", "c": "2", "d": "1"})
    assert diff.lines() == ["+ d", "- a", "~ c"] and not diff.same


# --- pruning


def installed(root: Path, tmp_path: Path, *versions: str) -> list[Path]:
    """Packages, the oldest first."""
    made = []
    for number, version in enumerate(versions):
        wheel = read_wheel(str(make_wheel(tmp_path / "wheels", version)))
        path = Path(install(wheel, str(root)))
        mark = json.loads((path / MARK).read_text())
        (path / MARK).write_text(json.dumps({**mark, "installed_at": 1000.0 + number}))
        made.append(path)
    return made


def test_what_something_refers_to_is_kept(root: Path, tmp_path: Path) -> None:
    script_of, stored, running, changing, free, newest = installed(
        root, tmp_path, "0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0"
    )
    script = tmp_path / "serve.sh"
    script.write_text(f"export PYTHONPATH={script_of}:/x\nexec python3 -m sglang.launch_server\n")
    store = Store(str(tmp_path / "state"))
    with store.lock("test"):
        store.add_version(str(script), f"export PYTHONPATH={stored}\n".encode(), "old", "test", None)
        store.put(f"export PYTHONPATH={changing}\n".encode())
    process = subprocess.Popen(["sleep", "60"], env={"PYTHONPATH": f"{running}"})
    try:
        deadline = time.monotonic() + 60
        while str(running).encode() not in Path(f"/proc/{process.pid}/environ").read_bytes():
            assert time.monotonic() < deadline
        found = plan_pruning(str(root), 1, store, [str(script)])
    finally:
        process.kill()
        process.wait()
    assert [folder.path for folder in found.gone] == [str(free)]
    reasons = {folder.path: reason for folder, reason in found.kept}
    assert reasons[str(newest)] == "one of the newest"
    assert str(script) in reasons[str(script_of)]
    assert "stored version" in reasons[str(stored)] and "stored version" in reasons[str(changing)]
    assert f"process {process.pid} refers to it" in reasons[str(running)]
    after = plan_pruning(str(root), 1, store, [str(script)])
    assert {folder.path for folder in after.gone} == {str(free), str(running)}


def test_a_longer_name_is_no_reference(root: Path, tmp_path: Path) -> None:
    old, _new = installed(root, tmp_path, "0.1.0", "0.2.0")
    script = tmp_path / "serve.sh"
    script.write_text(f"export PYTHONPATH={old}0:{old}.bak\n")
    found = plan_pruning(str(root), 1, Store(str(tmp_path / "state")), [str(script)])
    assert [folder.path for folder in found.gone] == [str(old)]
    installing.remove(str(old))
    assert not old.exists() and len(installed_in(str(root))) == 1
    with pytest.raises(PdopsError, match="no number of kernel packages"):
        plan_pruning(str(root), -1, Store(str(tmp_path / "state")), [])


def test_compiled_kernels_go_with_the_last_package_of_their_version(root: Path, tmp_path: Path) -> None:
    """Never those that a version or an open change refers to, and nothing that is not ours."""
    gone, other, newest = installed(root, tmp_path, "0.1.0", "0.2.0", "0.3.0")
    again = Path(install(read_wheel(str(make_wheel(tmp_path / "b", "0.2.0", {"pdops_kernels/x.py": ""}))), str(root)))
    place = tmp_path / "cache" / "decode" / "triton"
    of = {name: place / name for name in ("3.7.1-0.1.0-sm120-0a1b2c3d", "3.7.1-0.1.0-sm90-0a1b2c3d",
          "3.7.1-0.2.0-sm120-0a1b2c3d", "3.7.1-0.3.0-sm120-0a1b2c3d", "3.6.0-0.0.9-sm120-0a1b2c3d", "mine", "0.1.0")}  # fmt: skip
    for folder in of.values():
        for made in (folder, folder.with_name(f"{folder.name}.selftest")):
            (made / "HASH").mkdir(parents=True)
            (made / "HASH" / "kernel.cubin").write_text("x")
    (place / "3.7.1-0.0.8-sm120-0a1b2c3d").symlink_to(of["mine"])
    store = Store(str(tmp_path / "state"))
    with store.lock("test"):
        store.put(f"export TRITON_CACHE_DIR={of['3.7.1-0.1.0-sm90-0a1b2c3d']}\n".encode())
    caches = [str(place), str(tmp_path / "cache" / "prefill" / "triton")]
    found = plan_pruning(str(root), 2, store, [], caches)
    assert {folder.path for folder in found.gone} == {str(gone), str(other)}
    wanted = {"3.7.1-0.1.0-sm120-0a1b2c3d", "3.6.0-0.0.9-sm120-0a1b2c3d"}
    names = wanted | {f"{name}.selftest" for name in wanted}
    assert {Path(path).name for path in found.caches} == names
    script = tmp_path / "serve.sh"
    script.write_text(f"export TRITON_CACHE_DIR={of['3.6.0-0.0.9-sm120-0a1b2c3d']}\n")
    kept = {Path(path).name for path in plan_pruning(str(root), 2, store, [str(script)], caches).caches}
    assert kept == {name for name in names if not name.startswith("3.6.0")}
    # One package is asked for: of its version another one is there, so what was compiled of both stays.
    only = plan_pruning(str(root), 0, store, [str(script)], caches, again.name)
    assert [folder.path for folder in only.gone] == [str(again)] and other.exists() and newest.exists()
    assert only.caches == ()
    for path in found.caches:
        installing.remove_compiled(path)
        installing.remove_compiled(path)
    left = {name for name in os.listdir(place) if not name.endswith(".selftest")}
    assert left == set(of) - wanted | {"3.7.1-0.0.8-sm120-0a1b2c3d"}

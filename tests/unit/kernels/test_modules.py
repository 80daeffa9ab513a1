# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""kernel_package and kernel_selftest as processes of their own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from module_utils.kernel_package import bench_history
from tests.kernel_wheel import make_wheel

ROOT = Path(__file__).resolve().parents[3]
RUN = """
import importlib, resource, sys
sys.path.insert(0, sys.argv[1])
from ansible.module_utils import basic
module = importlib.import_module("ansible_collections.pdops.sglang.plugins.modules." + sys.argv[2])
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = sys.argv[3].encode(), "legacy"
if int(sys.argv[4]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]),) * 2)
module.main()
"""


def run(module: str, size: int = 0, **given: Any) -> dict[str, Any]:
    arguments = json.dumps({"ANSIBLE_MODULE_ARGS": {"_ansible_remote_tmp": tempfile.gettempdir(), **given}})
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "collections"), module, arguments, str(size)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_install_again_upgrade_and_prune(tmp_path: Path) -> None:
    common = {"root": str(tmp_path / "kernels"), "state_dir": str(tmp_path / "state"), "_ansible_diff": True}
    first = make_wheel(tmp_path / "a")
    looked = run("kernel_package", wheel=str(first), _ansible_check_mode=True, **common)
    assert looked["changed"] and looked["missing"] and not (tmp_path / "kernels").exists()
    assert "+ " not in looked["lines"][1] and len(looked["diff"]["after"].splitlines()) == len(
        looked["package"]["files"]
    )
    done = run("kernel_package", wheel=str(first), sha256=looked["package"]["sha256"], **common)
    assert done["changed"] and [item["name"] for item in done["installed"]] == [looked["package"]["folder"]]
    again = run("kernel_package", wheel=str(first), **common)
    assert not again["changed"] and "is there" in again["lines"][0]
    script = tmp_path / "serve.sh"
    script.write_text(f"#!/bin/bash\nexport PYTHONPATH={done['path']}\nexec python3 -m sglang.launch_server\n")
    common["scripts"] = [str(script)]
    second = make_wheel(tmp_path / "b", "0.2.0", {"pdops_kernels/more.py": "x = 1\n", "pdops_kernels/plots.py": None})
    upgraded = run("kernel_package", wheel=str(second), **common)
    assert upgraded["against"]["path"] == done["path"] and upgraded["selected"] == {str(script): done["path"]}
    assert "pdops_kernels/more.py" in upgraded["files"]["added"]
    assert "pdops_kernels/plots.py" in upgraded["files"]["removed"]
    assert "pdops_kernels/__init__.py" in upgraded["files"]["changed"]
    pruned = run("kernel_package", state="prune", keep=1, **common)
    assert not pruned["changed"] and {item["path"] for item in pruned["kept"]} == {done["path"], upgraded["path"]}
    refused = run("kernel_package", state="absent", name=Path(done["path"]).name, **common)
    assert refused["failed"] and "is not removed" in refused["msg"] and str(script) in refused["msg"]
    script.write_text("exec python3 -m sglang.launch_server\n")
    cache = tmp_path / "cache" / "decode" / "triton" / "3.7.1-0.1.0-sm120-0a1b2c3d"
    cache.mkdir(parents=True)
    common["caches"] = [str(cache.parent)]
    looked = run("kernel_package", state="prune", keep=1, _ansible_check_mode=True, **common)
    assert looked["removed"] == [done["path"], str(cache)] and cache.exists() and Path(done["path"]).exists()
    gone = run("kernel_package", state="prune", keep=1, **common)
    assert gone["changed"] and gone["removed"] == looked["removed"] and gone["lines"] == [
        f"remove {done['path']}, to which nothing refers", f"remove {cache}, compiled of a package that is gone"
    ]  # fmt: skip
    assert not Path(done["path"]).exists() and not cache.exists()
    assert run("kernel_package", state="status", **common)["installed"] == [
        {"name": Path(upgraded["path"]).name, "path": upgraded["path"], "version": "0.2.0",
         "sha256": upgraded["package"]["sha256"]}
    ]  # fmt: skip
    assert run("kernel_package", state="absent", name=Path(upgraded["path"]).name, **common)["changed"]


def test_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    root, state = tmp_path / "kernels", str(tmp_path / "state")
    wheel = make_wheel(tmp_path / "a", edit={"pdops_kernels/big.py": "#" * 200_000})
    wrong = run("kernel_package", wheel=str(wheel), sha256=hashlib.sha256(b"x").hexdigest(), root=str(root))
    assert wrong["failed"] and "is not the wheel that was meant" in wrong["msg"] and not root.exists()
    full = run("kernel_package", size=100_000, wheel=str(wheel), root=str(root), state_dir=state)
    assert full["failed"] and "could not be installed" in full["msg"]
    assert [item.name for item in root.iterdir()] == [".pdops-lock"]
    odd = run("kernel_package", state="absent", name="../state", root=str(root))
    assert odd["failed"] and "is no folder of a kernel package" in odd["msg"]


# --- the self-test


@pytest.fixture
def ready(tmp_path: Path) -> dict[str, Any]:
    """Options for the self-test of an installed package, by this very Python, which has no Triton."""
    script = tmp_path / "serve.sh"
    script.write_text(
        f"#!/bin/bash\nexport PYTHONPATH=/somewhere\nexport SGLANG_SM120_MMA_TARGET_CTAS=512\nexport X_API_KEY=s3cret\n"
        f"exec {sys.executable} -m sglang.launch_server --port 1\n"
    )
    return {
        "instance": {
            "name": "decode", "role": "decode", "unit": "u", "serve_script": str(script), "url": "http://127.0.0.1:1",
            "machine": "m", "manager": "supervisor", "supervisor_config": str(tmp_path / "none.conf"),
        },
        "root": str(tmp_path / "kernels"),
        "cache_root": str(tmp_path / "cache"),
        "status_root": str(tmp_path / "status"),
        "state_dir": str(tmp_path / "state"),
        "arch": 120,
        "checks": ["import", "plan"],
    }  # fmt: skip


def proved(
    ready: dict[str, Any], tmp_path: Path, phase: str = "test", more: Any = None, **wheel: Any
) -> dict[str, Any]:
    made = make_wheel(tmp_path / "wheels", **wheel)
    installed = run("kernel_package", wheel=str(made), root=ready["root"], state_dir=ready["state_dir"])
    assert not installed.get("failed"), installed
    return run("kernel_selftest", phase=phase, package=installed["package"], **{**ready, **(more or {})})


def test_a_good_package_passes_by_the_python_of_the_script(ready: dict[str, Any], tmp_path: Path) -> None:
    done = proved(ready, tmp_path)
    assert not done.get("failed") and not done["changed"], done
    assert [(row["check"], row["result"]) for row in done["rows"]] == [
        ("import", "passed"), ("plan", "passed"), ("compile", "skipped"), ("device", "skipped"), ("bench", "skipped"),
    ]  # fmt: skip
    assert (
        "policy target on rtx-pro-6000: 1 rows 20 splits, 64 rows 8 splits, 96 rows 6 splits" in done["rows"][1]["said"]
    )
    aim = done["aim"]
    assert aim["python"]["path"] == sys.executable and aim["knobs"]["PYTHONPATH"] == f"{aim['folder']}:/somewhere"
    assert aim["cache"].endswith("/cache/decode/triton/no-triton-0.1.0-sm120")
    assert "s3cret" not in json.dumps(done)


@pytest.mark.parametrize(
    ("wheel", "words"),
    [
        ({"edit": {"pdops_kernels/sglang_plugin.py": "raise RuntimeError('broken at import')\n"}}, "broken at import"),
        (
            {"edit": {"pdops_kernels-0.1.0.dist-info/entry_points.txt": "[other]\na = b\n"}},
            "no entry point pdops_kernels",
        ),
        ({"edit": {"pdops_kernels/plan.py": "def (:\n"}}, "check import"),
        ({"edit": {"pdops_kernels/machine.py": "MACHINES = {}\n"}}, "check "),
    ],
)
def test_a_package_that_does_not_hold_fails_with_its_reason(
    ready: dict[str, Any], tmp_path: Path, wheel: dict[str, Any], words: str
) -> None:
    done = proved(ready, tmp_path, **wheel)
    assert done["failed"] and words in done["msg"] and done["msg"].endswith("no script and no process was touched.")


def test_a_bad_knob_of_the_script_fails_before_it_ends_an_engine(ready: dict[str, Any], tmp_path: Path) -> None:
    done = proved(ready, tmp_path, more={"knobs": {"PDOPS_KERNELS_POLICI": "leaf"}})
    assert done["failed"] and "PDOPS_KERNELS_POLICI is not a variable of this package" in done["msg"]


def test_another_python_or_no_triton_is_refused_at_the_look(ready: dict[str, Any], tmp_path: Path) -> None:
    old = proved(ready, tmp_path, "look", version="0.3.0", requires_python=">=3.99")
    assert old["failed"] and "and pdops_kernels 0.3.0 needs >=3.99; nothing was changed" in old["msg"]
    none = proved(ready, tmp_path, "look", more={"checks": ["import", "compile"]})
    assert none["failed"] and "has no triton, and pdops_kernels 0.1.0 needs <3.10,>=3.7.1" in none["msg"]
    for more, words in (
        ({"python": "/nowhere/python"}, "does not run on this machine"),
        ({"arch": 12}, "compute capability without its point"),
        ({"status_root": "here"}, "absolute path"),
        ({"knobs": {"PYTHONPATH": "/x"}}, "decides; take it out"),
        ({"knobs": {"MY_TOKEN": "x"}}, "MY_TOKEN"),
    ):
        done = proved(ready, tmp_path, "look", more=more)
        assert done["failed"] and words in done["msg"], done


def test_a_machine_without_the_script_or_without_room_is_refused_at_the_look(
    ready: dict[str, Any], tmp_path: Path
) -> None:
    odd = tmp_path / "file"
    odd.write_text("")
    done = proved(ready, tmp_path, "look", more={"status_root": str(odd)})
    words = f"decode: {odd}/decode could not be made: {odd} is no folder; move it away, or correct the path. Nothing was changed."
    assert done["failed"] and done["msg"] == words
    there = run(
        "kernel_package", wheel=str(make_wheel(tmp_path / "w")), root=f"{odd}/kernels", _ansible_check_mode=True
    )
    assert there["failed"] and f"could not be installed: {odd} is no folder" in there["msg"]
    Path(ready["instance"]["serve_script"]).unlink()
    done = proved(ready, tmp_path, "look")
    assert (
        done["failed"]
        and "is not there, and a serve script is what selects kernels; deploy the instance first" in done["msg"]
    )


def test_a_pythonpath_that_only_a_run_tells_is_refused(ready: dict[str, Any], tmp_path: Path) -> None:
    script = Path(ready["instance"]["serve_script"])
    script.write_text(script.read_text().replace("=/somewhere", "=$(pwd)/x"))
    done = proved(ready, tmp_path, "look")
    assert done["failed"] and "what PYTHONPATH is, only a run of" in done["msg"]


def test_the_folder_of_records_is_made_once(ready: dict[str, Any], tmp_path: Path) -> None:
    first, second = proved(ready, tmp_path, "prepare"), proved(ready, tmp_path, "prepare")
    assert first["changed"] and not second["changed"] and first["compiled"] == 0
    assert (tmp_path / "status" / "decode").is_dir()


# --- the history of micro-benchmarks


def entry(us: float, device: str = "GPU sm_120") -> dict[str, Any]:
    return {"at": 1.0, "device": device, "triton": "3.9.0", "package": "0.1.0-x", "us": {"rows64": us}}


def test_a_package_is_judged_by_the_best_of_its_machine(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    assert bench_history.judge(entry(40), bench_history.read(state, "GPU sm_120"), 1.25).good
    for us in (40.0, 38.0, 44.0):
        bench_history.append(state, entry(us))
    bench_history.append(state, entry(1.0, "other sm_90"))
    (tmp_path / "state" / "kernel-bench.jsonl").open("a").write("torn {\n")
    former = bench_history.read(state, "GPU sm_120")
    assert len(former) == 3
    assert bench_history.judge(entry(47), former, 1.25).good
    verdict = bench_history.judge(entry(48), former, 1.25)
    assert not verdict.good and "took 38 us at its best here: 1.26 times that" in verdict.said

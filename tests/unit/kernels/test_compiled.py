# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Compiled ahead once; after that a note says so, but only as long as nothing that decides about it is another."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from module_utils.kernel_package.compiled import CACHE_NAME, NOTE, cache_name
from module_utils.kernel_package.engine_python import Told
from module_utils.kernel_package.prewarming import Warmed, prewarm

#: Stands for the package's own: a file for each launch, and a line for each call.
PREWARM = """
import json, os, sys
words = sys.argv[1:]
cache = words[words.index("--cache-dir") + 1]
open(os.environ["CALLS"], "a").write(" ".join(words) + "\\n")
path = os.path.join(cache, "-".join(words[-6:]).replace("/", ""), "kernel.cubin")
there = os.path.exists(path) and "TRITON_ALWAYS_COMPILE" not in os.environ
if not there:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write("compiled")
print(json.dumps({"ok": True, "compiled": 0 if there else 2, "cached": 2 if there else 0}))
"""


class Machine:
    def __init__(self, tmp_path: Path) -> None:
        self.package, self.triton, self.cache = tmp_path / "package", tmp_path / "triton", tmp_path / "cache"
        (self.package / "pdops_kernels").mkdir(parents=True)
        (self.package / "pdops_kernels" / "__init__.py").write_text("")
        (self.package / "pdops_kernels" / "prewarm.py").write_text(PREWARM)
        (self.triton / "_C").mkdir(parents=True)
        (self.triton / "_C" / "libtriton.so").write_text("compiler")
        self.calls_file = tmp_path / "calls"
        self.given: dict[str, Any] = {
            "told": Told(sys.executable, "3.12.1", "3.7.1", key="0a1b2c3d", triton_folder=str(self.triton)),
            "package": "0" * 64,
            "knobs": {"PYTHONPATH": str(self.package), "CALLS": str(self.calls_file), "TRITON_CACHE_DIR": "/c"},
            "cache": str(self.cache),
            "arch": 120,
            "heads": [16, 64],
            "owner": None,
        }

    def prewarm(self, **other: Any) -> Warmed:
        return prewarm(**{**self.given, **other})

    def calls(self) -> int:
        """Since the last look."""
        count = len(self.calls_file.read_text().splitlines()) if self.calls_file.exists() else 0
        self.calls_file.write_text("")
        return count

    @property
    def one(self) -> Path:
        return sorted(self.cache.rglob("*.cubin"))[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    assert made.prewarm() == Warmed(str(made.cache), 12, 0) and made.calls() == 6
    assert made.prewarm() == Warmed(str(made.cache), 0, 12, noted=True) and made.calls() == 0
    return made


def knobs(machine: Machine, **more: str) -> dict[str, Any]:
    return {"knobs": {**machine.given["knobs"], **more}}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a kernel is gone", lambda m: m.one.unlink() or {}),
        ("a kernel is another", lambda m: m.one.write_text("other") and {}),
        ("a kernel was written anew", lambda m: os.utime(m.one, ns=(1, 1)) or {}),
        ("the compiler was altered", lambda m: (m.triton / "_C" / "libtriton.so").write_text("patched.") and {}),
        ("the compiler has another file", lambda m: (m.triton / "more.py").write_text("x = 1") and {}),
        ("another Triton", lambda m: {"told": replace(m.given["told"], triton="3.8.0")}),
        ("another Python", lambda m: {"told": replace(m.given["told"], python="3.13.0")}),
        ("another wheel of that version", lambda m: {"package": "1" * 64}),
        ("another variable", lambda m: knobs(m, DISABLE_LLVM_OPT="1")),
        ("other heads", lambda m: {"heads": [16]}),
        ("another architecture", lambda m: {"arch": 90}),
        ("a note of something else", lambda m: (m.cache / NOTE).write_text('{"key": 7, "files": [[1]]}') and {}),
        ("a note that was torn", lambda m: (m.cache / NOTE).write_text('{"key"') and {}),
        ("a note that is a link", lambda m: (m.cache.joinpath(NOTE).rename(m.cache / "n") and os.symlink("n", m.cache / NOTE)) or {}),
        ("no note", lambda m: (m.cache / NOTE).unlink() or {}),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_only_a_compile_tells_when(machine: Machine, name: str, change: Any) -> None:
    other = change(machine)
    warmed = machine.prewarm(**other)
    assert not warmed.noted and machine.calls() == 3 * len(other.get("heads", [16, 64])), name
    assert machine.prewarm(**other).noted and machine.calls() == 0


@pytest.mark.parametrize("how", [{"TRITON_ALWAYS_COMPILE": "1"}, {"TRITON_HOME": "/x"}])
def test_a_triton_that_is_told_otherwise_is_asked_each_time(machine: Machine, how: dict[str, str]) -> None:
    for _ in range(2):
        warmed = machine.prewarm(**knobs(machine, **how))
        assert not warmed.noted and warmed.compiled == (12 if "TRITON_ALWAYS_COMPILE" in how else 0)
        assert machine.calls() == 6


def test_where_triton_is_not_known_and_without_room_for_a_note_each_run_compiles(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gone in ("", "/nowhere"):
        told = replace(machine.given["told"], triton_folder=gone)
        for _ in range(2):
            assert not machine.prewarm(told=told).noted and machine.calls() == 6
    (machine.cache / NOTE).unlink()
    (machine.cache / NOTE).mkdir()
    for _ in range(2):
        assert not machine.prewarm().noted and machine.calls() == 6


def test_what_an_engine_compiles_besides_is_no_difference(machine: Machine) -> None:
    (machine.cache / "more").mkdir()
    (machine.cache / "more" / "other.cubin").write_text("by an engine")
    assert machine.prewarm().noted


def test_names_of_folders_are_recognized() -> None:
    told = Told("/p", "3.12", "3.7.1+git0", key="0a1b2c3d")
    for name in (cache_name(told, "0.1.0", 120), cache_name(replace(told, triton=""), "0.1.0", 90)):
        for whole in (name, f"{name}.selftest"):
            match = CACHE_NAME.fullmatch(whole)
            assert match is not None and match["version"] == "0.1.0"
    for name in ("cache", "0.1.0-0a1b2c3d", "3.7.1-0.1.0-sm120-0a1b2c3d.bak", "3.7.1-0.1.0"):
        assert CACHE_NAME.fullmatch(name) is None

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The self-test of an installed kernel package on its machine, by the Python that will serve it; before anything restarts."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ..left_by_dead import clear_folders, folder_of_mine
from ..pdops_error import PdopsError
from . import bench_history
from .engine_python import clean_environment, last_words, run_python

CHECKS = ("import", "plan", "compile", "device", "bench")
#: Seconds. Every served kernel of one architecture takes 20 to 40 s to compile on two cores (reference/kernels.md 2).
LONGEST_S = {"import": 60.0, "plan": 120.0, "compile": 900.0, "device": 900.0, "bench": 900.0}
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_NO_GPU = "no GPU can be used by this Python here"
#: As SGLang's loader does it: by the entry points of its group.
_IMPORT = """
import json, os, sys
from importlib.metadata import entry_points
found = [point for point in entry_points(group="sglang.srt.plugins") if point.name == "pdops_kernels"]
if not found:
    sys.exit("no entry point pdops_kernels in group sglang.srt.plugins is found by PYTHONPATH")
function = found[0].load()
module = sys.modules[function.__module__]
module.read_knobs()
print(json.dumps({"file": os.path.realpath(module.__file__), "version": found[0].dist.version}))
"""
_PLAN = """
import importlib, json, sys
book, machines, plan = (importlib.import_module("pdops_kernels." + name) for name in ("book", "machine", "plan"))
machine = next((one for one in machines.MACHINES.values() if one.arch == int(sys.argv[1])), None)
if machine is None:
    sys.exit("the package knows no GPU of sm_" + sys.argv[1])
book = book.PlanBook(machine)
for rows in (1, 64, 96):
    book.plan(plan.Shape("mla_packed", rows, 16, (128, 512)))
print(json.dumps({"ok": True, "machine": machine.name, "policy": book.knobs.policy, "plans": book.resolved()}))
"""
_DEVICE = """
import importlib, json
try:
    torch = importlib.import_module("torch")
    told = {"there": torch.cuda.is_available()}
    if told["there"]:
        told["name"] = torch.cuda.get_device_name()
        told["arch"] = int("%d%d" % torch.cuda.get_device_capability())
except ImportError as error:
    told = {"there": False, "why": str(error)}
print(json.dumps(told))
"""
#: The field's batch sizes; few shapes, so that it takes seconds.
_BENCH = ("--rows", "64,96", "--heads", "16", "--topk", "128+512", "--replays", "10")


@dataclass(frozen=True)
class Row:
    check: str
    result: str
    said: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {"check": self.check, "result": self.result, "said": self.said, "seconds": round(self.seconds, 2)}


@dataclass(frozen=True)
class Bench:
    """``band``: how many times the best former time is still good."""

    state_dir: str
    band: float = 1.25


class SelfTest:
    """:param knobs: what the script will give to the engine"""

    def __init__(
        self,
        python: str,
        package: Mapping[str, Any],
        folder: str,
        knobs: Mapping[str, Optional[str]],
        arch: int,
        bench: Bench,
    ) -> None:
        self.python, self.package, self.folder, self.arch, self.bench = python, package, folder, arch, bench
        self.environment = clean_environment(knobs)
        self.device: Optional[dict[str, Any]] = None

    def run(self, checks: Sequence[str]) -> list[Row]:
        """In order, up to the first that fails; those that were not asked for are named as skipped."""
        rows: list[Row] = []
        makers: dict[str, Callable[[], tuple[str, str]]] = {
            "import": self._import,
            "plan": self._plan,
            "compile": self._compile,
            "device": self._numerics,
            "bench": self._bench,
        }
        for check in CHECKS:
            if check not in checks:
                rows.append(Row(check, SKIPPED, "pd_kernel_checks leaves it out", 0.0))
                continue
            begin = time.monotonic()
            try:
                result, said = makers[check]()
            except PdopsError as error:
                result, said = FAILED, str(error)
            rows.append(Row(check, result, said, time.monotonic() - begin))
            if result == FAILED:
                break
        return rows

    def _tool(
        self, check: str, words: Sequence[str], environment: Optional[Mapping[str, str]] = None
    ) -> dict[str, Any]:
        """A tool of the package that answers in JSON; its exit code is part of the answer."""
        done = run_python(self.python, words, environment or self.environment, LONGEST_S[check])
        for text in (done.stdout, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""):
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                return {**found, "ok": done.returncode == 0 and bool(found.get("ok"))}
        raise PdopsError(f"{' '.join(words[:2])} ended with {done.returncode}: {last_words(done)}")

    def _import(self) -> tuple[str, str]:
        done = run_python(self.python, ["-c", _IMPORT], self.environment, LONGEST_S["import"])
        if done.returncode != 0:
            return FAILED, f"importing it as SGLang does ended with {last_words(done)}"
        found = json.loads(done.stdout.strip().splitlines()[-1])
        below = os.path.realpath(self.folder)
        if not found["file"].startswith(below + os.sep):
            return (
                FAILED,
                f"another one is imported, {found['file']}, instead of the one in {self.folder}; take that away",
            )
        if found["version"] != self.package["version"]:
            return FAILED, f"version {found['version']} is imported, and {self.package['version']} was installed"
        return PASSED, f"{self.package['name']} {found['version']} is what the entry point gives"

    def _plan(self) -> tuple[str, str]:
        done = run_python(
            self.python, ["-W", "ignore", "-c", _PLAN, str(self.arch)], self.environment, LONGEST_S["plan"]
        )
        if done.returncode != 0:
            return FAILED, f"planning with the knobs of the script ended with {last_words(done)}"
        found = json.loads(done.stdout.strip().splitlines()[-1])
        splits = ", ".join(f"{plan['rows']} rows {plan['splits']} splits" for plan in found["plans"])
        return PASSED, f"policy {found['policy']} on {found['machine']}: {splits}"

    def _compile(self) -> tuple[str, str]:
        cache = self.environment.get("TRITON_CACHE_DIR")
        # What is not served has no place in the cache that serves.
        environment = {**self.environment, **({"TRITON_CACHE_DIR": f"{cache}.selftest"} if cache else {})}
        found = self._tool("compile", ["-m", "pdops_kernels.gate", "--archs", str(self.arch), "--json"], environment)
        if not found["ok"]:
            bad = [row for row in found.get("kernels", ()) if row["problems"]]
            first = f"{bad[0]['kernel']}: {bad[0]['problems'][0]}" if bad else found.get("error", "it failed")
            return FAILED, f"sm_{self.arch}: {first}" + (f" ({len(bad)} kernels fail)" if len(bad) > 1 else "")
        return PASSED, (
            f"{len(found['kernels'])} kernels for sm_{self.arch} on triton {found['triton']} hold their budgets "
            f"({found['compiled']} compiled, {found['cached']} from cache)"
        )

    def _gpu(self) -> Optional[str]:
        """Why nothing can be run on a GPU here; None when it can. A GPU of another architecture than declared is an error."""
        if self.device is None:
            done = run_python(self.python, ["-W", "ignore", "-c", _DEVICE], self.environment, LONGEST_S["import"])
            try:
                self.device = dict(json.loads(done.stdout.strip().splitlines()[-1]))
            except (ValueError, IndexError):
                raise PdopsError(f"whether there is a GPU is not known: {last_words(done)}") from None
        if not self.device["there"]:
            return _NO_GPU + (f" ({self.device['why']})" if self.device.get("why") else "")
        if self.device["arch"] != self.arch:
            raise PdopsError(
                f"pd_gpu_arch is {self.arch}, and {self.device['name']} is sm_{self.device['arch']}; correct pd_gpu_arch."
            )
        return None

    def _numerics(self) -> tuple[str, str]:
        why = self._gpu()
        if why:
            return SKIPPED, why
        found = self._tool("device", ["-m", "pdops_kernels.selftest", "--expect-warm", "--json"])
        if not found["ok"]:
            bad = [row for row in found.get("checks", ()) if not row["ok"]]
            return FAILED, f"{bad[0]['name']}: {bad[0]['detail']}" if bad else str(found.get("error", "it failed"))
        return PASSED, f"{len(found['checks'])} checks on {found['device']}, {found['compiled']} kernels compiled"

    def _bench(self) -> tuple[str, str]:
        why = self._gpu()
        if why:
            return SKIPPED, why
        folder = self.environment.get("TMPDIR", "/tmp")
        clear_folders(folder, "kernel-bench")
        out = folder_of_mine(folder, "kernel-bench")
        try:
            found = self._tool("bench", ["-m", "pdops_kernels.bench", *_BENCH, "--out", out, "--json"])
        finally:
            shutil.rmtree(out, ignore_errors=True)  # all that is kept of it is in what it prints
        if not found["ok"]:
            return FAILED, str(found.get("error", "it failed"))
        entry = bench_history.entry_of(found, self.package)
        former = bench_history.read(self.bench.state_dir, entry["device"])
        verdict = bench_history.judge(entry, former, self.bench.band)
        if verdict.good:
            bench_history.append(self.bench.state_dir, entry)
        return (PASSED if verdict.good else FAILED), verdict.said

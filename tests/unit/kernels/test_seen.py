# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What is seen of kernels: the record of the simulated engine, whose loader is SGLang's, and how status, gate and report tell it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from module_utils.gates.base import Look, Target
from module_utils.gates.kernels import applicable, check
from module_utils.kernel_package.installing import install
from module_utils.kernel_package.serving_now import kernels_of
from module_utils.kernel_package.status_record import read_records
from module_utils.kernel_package.wheel import read_wheel
from module_utils.processes import read_process
from module_utils.report.view import make_view
from module_utils.unit_environment.status_text import status_lines
from tests.kernel_wheel import SOURCES, make_wheel

ROOT = Path(__file__).resolve().parents[3]
ENGINE = """
import os, sys, time
from lab.engine.plugins import load_plugins
kernels = load_plugins(dict(os.environ), lambda text: print(text, flush=True))
for rows in map(int, sys.argv[1:]):
    kernels.decode(rows)
print("loaded", kernels is not None, flush=True)
time.sleep(30)
"""


class Engine:
    """A process that loads plugins as the simulated engine does, with the package of a wheel in its PYTHONPATH."""

    def __init__(self, tmp_path: Path, rows: str = "", env: dict[str, str] | None = None, **wheel: Any) -> None:
        made = make_wheel(tmp_path / "wheels", **wheel)
        self.folder = install(read_wheel(str(made)), str(tmp_path / "kernels"))
        self.status = str(tmp_path / "status")
        knobs = {"PYTHONPATH": f"{self.folder}:{ROOT}", "PDOPS_KERNELS_STATUS_DIR": self.status, **(env or {})}
        self.script = tmp_path / "serve.sh"
        exports = "".join(f"export {name}={value}\n" for name, value in knobs.items())
        self.script.write_text(f"#!/bin/bash\n{exports}exec python3 -m sglang.launch_server\n")
        self.process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, *rows.split()],
            env={"PATH": os.environ["PATH"], **knobs},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if line.startswith("loaded"):
                break

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> int:
        self.process.kill() if self.process.poll() is None and "loaded" in self.said else None
        return self.process.wait()

    def gate(self, serve: bool = False) -> Any:
        found = read_process(self.pid)
        assert found is not None

        class Manager:
            def processes(self, _unit: str) -> list[int]:
                return [found.pid]

        look = Look(Manager(), {}, time.monotonic() + 5)  # type: ignore[arg-type]
        look.main = found.id
        target = Target("d", "decode", "u", "http://x", serve_script=str(self.script), kernels_serve=serve)
        assert applicable(target, ["unit", "kernels"]) == ["unit", "kernels"]
        return check(target, look)


def test_a_record_of_real_plans_is_told_by_gate_status_and_report(tmp_path: Path) -> None:
    engine = Engine(tmp_path, "1 3 4 64", {"SGLANG_SM120_MMA_TARGET_CTAS": "512", "SGLANG_PLUGINS": "x,pdops_kernels"})
    try:
        (record,) = read_records(engine.status, [engine.pid, 1]).values()
        assert (record.state, record.package, record.simulation, record.policy) == ("serving", "0.1.0", True, "target")
        assert [(plan["rows"], plan["splits"]) for plan in record.plans] == [(1, 20), (4, 20), (64, 8)]
        verdict = engine.gate(serve=True)
        assert verdict.result == "passed" and "64 rows x 16 heads in 8 splits; no fallback" in verdict.said
        seen = kernels_of(f"{engine.folder}:/x", engine.status, [engine.pid])
        assert seen is not None and seen["said"] == verdict.said
        other = engine.folder.replace("0.1.0", "0.0.9")
        gone = kernels_of(other, engine.status, [engine.pid])
        assert gone is not None and "is not there, so the stock kernel serves" in gone["said"]
    finally:
        engine.end()
    none = kernels_of(engine.folder, engine.status, [])
    assert none is not None and "no process wrote a record" in none["said"]
    assert kernels_of("/x", engine.status, []) is None
    event = {
        "kind": "gates",
        "instance": "decode",
        "gates": [{"gate": "kernels", "result": "passed", "said": "0.1.0 serving"}],
    }
    facts = {fact["name"]: fact["value"] for fact in make_view({"verb": "set", "events": [event]})["facts"]}
    assert facts["Kernels"] == "decode: 0.1.0 serving"
    unit = {"name": "u", "state": "active", "detail": "", "pid": 7, "age_s": 1.0}
    report = {
        "role": "decode", "unit": unit, "script": {"path": "/s", "error": None, "version": None, "is_newest": False, "findings": []},
        "kernels": none, "knobs": [], "environment": {"unread": [], "notes": []},
    }  # fmt: skip
    assert any(line == f"  kernels: {none['said']}" for line in status_lines({"instances": {"decode": report}}))


def test_what_raises_at_import_is_swallowed_and_the_gate_sees_it(tmp_path: Path) -> None:
    plugin = "raise RuntimeError('broken')\n" + (SOURCES / "sglang_plugin.py").read_text()
    engine = Engine(tmp_path, edit={"pdops_kernels/sglang_plugin.py": plugin})
    try:
        assert "Failed to load plugin pdops_kernels" in engine.said and "loaded False" in engine.said
        verdict = engine.gate()
        assert verdict.result == "failed" and "no process wrote a record" in verdict.said
    finally:
        engine.end()


def test_an_allow_list_leaves_it_out_and_a_bad_knob_ends_the_process(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "a", env={"SGLANG_PLUGINS": "other"})
    try:
        assert "Skipping plugin pdops_kernels (not in SGLANG_PLUGINS)" in engine.said
        assert engine.gate().result == "failed"
    finally:
        engine.end()
    engine = Engine(tmp_path / "b", env={"PDOPS_KERNELS_POLICY": "best"})
    assert engine.end() == 78 and "PDOPS_KERNELS_POLICY='best' is not one of" in engine.said


def test_a_record_of_a_former_process_with_that_pid_does_not_count(tmp_path: Path) -> None:
    told = {"pid": os.getpid(), "package": "0.1.0", "state": "serving", "time": time.time()}
    path = tmp_path / f"{os.getpid()}.json"
    path.write_text(json.dumps(told))
    assert read_records(str(tmp_path), [os.getpid()])
    path.write_text(json.dumps({**told, "time": 1.0}))
    assert not read_records(str(tmp_path), [os.getpid()])
    path.write_text("{")
    assert not read_records(str(tmp_path), [os.getpid()]) and not read_records(str(tmp_path / "none"), [1])


@pytest.mark.parametrize("gates", [["unit", "kernels"], ["kernels"], ["unit", "port"]])
def test_without_a_package_the_gate_is_not_in_the_ladder(tmp_path: Path, gates: list[str]) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/bash\nexport PYTHONPATH=/a\nexec python3 -m sglang.launch_server\n")
    target = Target("d", "decode", "u", "http://x", serve_script=str(script))
    left = [gate for gate in gates if gate != "kernels"]
    assert applicable(target, gates) == (left or gates)

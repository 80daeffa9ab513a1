# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The real pair, once for all tests; it is ended at the end, whatever happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Target
from ansible_collections.pdops.sglang.plugins.module_utils.gates.ladder import GateResult, run_ladder
from ansible_collections.pdops.sglang.plugins.module_utils.processes import descendants, process_table
from ansible_collections.pdops.sglang.plugins.module_utils.services.base import UnitStatus
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lab import processes  # noqa: E402
from lab.real.pair import PYTHON, VENV, start  # noqa: E402
from lab.runner import ask, down  # noqa: E402

PLAYBOOK_S = 900


@dataclass(frozen=True)
class Played:
    """A run of a playbook."""

    code: int
    text: str
    seconds: float

    def recap(self) -> dict[str, int]:
        """The numbers of the deployment's line, on which a change is led."""
        line = next(line for line in self.text.splitlines() if line.startswith("lab ") and "changed=" in line)
        return {name: int(number) for name, _, number in (word.partition("=") for word in line.split()) if number}


class RealLab:
    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.manager = manager_for("supervisor", data["supervisor_config"])

    def script(self, name: str) -> Path:
        return Path(self.data["instances"][name]["serve_script"])

    def scripts(self) -> dict[str, bytes]:
        """Everything beside the serve scripts too: a run leaves nothing there."""
        return {path.name: path.read_bytes() for path in sorted(self.script("lab-decode").parent.iterdir())}

    def status(self, name: str) -> UnitStatus:
        return self.manager.status(self.data["instances"][name]["unit"])

    def mains(self) -> dict[str, tuple[int, int]]:
        """Who runs: pid and start tick by instance."""
        found = {}
        for name in self.data["instances"]:
            main = self.status(name).main
            assert main is not None, f"{name} does not run"
            found[name] = (main.pid, main.started_ticks)
        return found

    def scheduler(self, name: str) -> int:
        """By its title, which the gate does not trust: an independent look."""
        main = self.status(name).pid
        table = process_table()
        below = descendants([main or 0], table)
        found = [pid for pid in below if table[pid].command.startswith("sglang::schedul")]
        assert len(found) == 1, f"{name} has schedulers {found}"
        return found[0]

    def gate(self, name: str, *gates: str, expect: dict[str, str | None] | None = None) -> GateResult:
        """The last gate's result."""
        one = self.data["instances"][name]
        workers = [self.data["instances"][peer]["url"] for peer in ("lab-prefill", "lab-decode")]
        target = Target(
            name=name,
            role=one["role"],
            unit=one["unit"],
            url=one["url"],
            manager="supervisor",
            supervisor_config=self.data["supervisor_config"],
            bootstrap_port=one["bootstrap_port"],
            metrics_url=one.get("metrics_url"),
            serve_script=one["serve_script"],
            workers=tuple(workers) if one["role"] == "router" else (),
        )
        state = run_ladder(target, gates, expect, slice_s=30, remaining_s=30)
        assert state.last is not None
        return state.last

    def answer(self) -> dict[str, Any]:
        """What the model says to the same question, through the router."""
        status, body = ask(self.data, "the quick brown fox")
        assert status == 200, f"{status}: {body[:300]!r}"
        return dict(json.loads(body)["choices"][0])

    def play(self, playbook: str, *arguments: str) -> Played:
        begin = time.monotonic()
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(ROOT / "inventory" / "lab"),
            "PDOPS_LAB_DIR": self.data["dir"],
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["ansible-playbook", playbook, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PLAYBOOK_S,
        )
        played = Played(done.returncode, done.stdout + done.stderr, time.monotonic() - begin)
        print(f"\n$ ansible-playbook {' '.join((playbook, *arguments))}\n{played.text}", flush=True)
        print(f"rc {played.code} after {played.seconds:.1f} s", flush=True)
        return played


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def lab() -> Iterator[RealLab]:
    """Fresh, in the story's state. In the repo, so that make clean finds it after a crash."""
    if not PYTHON.exists():
        pytest.skip(f"{VENV} is not there; make test-real makes it (2.7 GB)")
    folder = os.environ.get("PDOPS_REAL_LAB_DIR") or str(ROOT / ".lab-real")
    down(folder)
    data = start(folder)
    try:
        yield RealLab(data)
    finally:
        down(folder)
        assert processes.own([f"{folder}/work"], [f"{folder}/state"]) == [], "nothing of it runs any more"

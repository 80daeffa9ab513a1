# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A test run that is killed from outside leaves no playbook and no lab behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import processes

from ..process_tree import tree
from .conftest import ROOT, Lab

pytestmark = pytest.mark.lab

#: As a test does that holds a playbook, which waits for something that never comes; killed there, it cannot let it go on.
HOLDING = """
import os, signal, sys, time
from pathlib import Path
from tests.lab.conftest import Lab
from tests.process_tree import standing, tree
from tests.reaper import bound_lab
lab = Lab(Path(sys.argv[1]))
bound_lab(lab.dir)
lab.lab("up", "--light", "--load-time-s", "0.2", "--health-time-s", "0.1")
waiting = lab.dir / "waiting.yml"
waiting.write_text("[{hosts: localhost, gather_facts: false, tasks: [{ansible.builtin.wait_for: {path: /nowhere, timeout: 3600}}]}]")
process = lab.start(str(waiting))
while len(tree(process.pid)) < 3:
    time.sleep(0.02)
with standing(process):
    print(*tree(process.pid), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_test_held_is_ended_with_its_lab(module_lab: Lab) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", HOLDING, str(module_lab.dir)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'collections'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    held = [one for one in map(processes.identity, map(int, killed.stdout.split())) if one is not None]
    assert len(killed.stdout.split()) >= 3
    supervisord = Path(module_lab.dir / "supervisord.pid")

    def over() -> bool:
        return not any(map(processes.alive, held)) and not supervisord.exists()

    module_lab.wait("the end of all that was left", over, timeout_s=120)
    assert tree(os.getpid())

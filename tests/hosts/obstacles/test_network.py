# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The network between controller and machine goes away in the middle of a change and comes back."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from ..field import QUICK, Machine, setting

CUT_S = 30


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run keeps its connections; short, because a socket's path may have 107 bytes only."""
    return tmp_path_factory.mktemp("cut")


def cut(gpu1: Machine, seconds: int) -> None:
    """No packet of ssh passes from now on, in either direction, for so long."""
    rules = " ".join(
        f"iptables -{{verb}} {chain} -p tcp --{port} 22 -j DROP;"
        for chain, port in (("INPUT", "dport"), ("OUTPUT", "sport"))
    )
    gpu1.sh(
        f"systemd-run --quiet --collect sh -c 'sleep 0.5; {rules.format(verb='I')} sleep {seconds}; {rules.format(verb='D')}'"
    )


@pytest.mark.parametrize("kept", [False, True], ids=["the connection breaks", "the connection hangs"])
def test_ssh_is_cut_while_the_model_loads(gpu1: Machine, sockets: Path, kept: bool) -> None:
    """The gates go on over a new connection; the run notices no more than a pause, and nothing happens twice."""
    value = "512" if gpu1.running_knob() != "512" else "640"
    with gpu1.faults(slow_load=10):
        process = gpu1.start(
            "ansible-playbook", "set_knob.yml", *setting(value), ANSIBLE_SSH_CONTROL_PATH_DIR=str(sockets)
        )
        known = gpu1.changes()[-1]["id"]
        gpu1.wait(
            "the start of decode",
            lambda: gpu1.changes()[-1]["id"] != known and gpu1.last_step() == ("start", "dsv4-decode"),
        )
        time.sleep(3)  # into the gates
        cut(gpu1, CUT_S)
        time.sleep(1)
        if not kept:
            for path in sockets.iterdir():
                subprocess.run(["ssh", "-S", path, "-O", "exit", "gpu1"], capture_output=True)
        text, _ = process.communicate(timeout=900)
    assert process.returncode == 0, text
    if not kept:
        assert "connection lost" in text, text
    change = gpu1.changes()[-1]
    assert change["state"] == "confirmed" and gpu1.running_knob() == value and gpu1.serves()
    counted = Counter((step["step"], step["instance"]) for step in change["steps"])
    assert max(counted.values()) == 1, counted


def test_a_machine_that_falls_silent_for_good(gpu1: Machine, sockets: Path) -> None:
    """The controller comes to an end and says what it knows; meanwhile the machine's guard has put the old state back."""
    before = gpu1.script()
    with gpu1.faults(slow_load=25):
        known = gpu1.changes()[-1]["id"]
        command = ("ansible-playbook", "set_knob.yml", *setting("256"), *QUICK, "-e", "pd_load_timeout_s=30")
        process = gpu1.start(*command, ANSIBLE_SSH_CONTROL_PATH_DIR=str(sockets))
        gpu1.wait(
            "the start of decode",
            lambda: gpu1.changes()[-1]["id"] != known and gpu1.last_step() == ("start", "dsv4-decode"),
        )
        cut(gpu1, 130)
        text, _ = process.communicate(timeout=900)
    assert process.returncode == 2, text
    assert "unreachable" in text and "its guard puts the old state back by itself" in " ".join(text.split()), text
    gpu1.wait("the guard's rollback", lambda: gpu1.changes()[-1]["state"] == "rolled-back", timeout_s=150)
    assert gpu1.script() == before and gpu1.serves()

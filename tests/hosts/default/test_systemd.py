# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The manager of units on a real systemd: what pd_instance does, run by the host's own Python as the module runs it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..field import ROOT, Machine

PLACE = "/run/pdops-under-test"
PROGRAM = """\
import json, sys
sys.path.insert(0, "/run/pdops-under-test")
from pdops.pdops_error import PdopsError
from pdops.services.choosing import manager_for
from pdops.services.instance import Request, bring
given = json.load(sys.stdin)
manager = manager_for("systemd")
if given["state"] == "last death":
    told = {"exit_code": manager.last_exit(given["unit"]), "log_tail": manager.log_tail(given["unit"], 20, all_runs=True)}
    sys.exit(print(json.dumps(told)))
try:
    told = bring(manager, Request(**given))
except PdopsError as error:
    told = {**error.details, "failed": str(error)}
print(json.dumps(told, default=str))
"""
Bring = Callable[..., dict[str, Any]]
Unit = Callable[..., str]


@pytest.fixture(scope="module")
def bring(gpu1: Machine) -> Iterator[Bring]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(ROOT / "module_utils", "pdops", filter=lambda item: None if "__pycache__" in item.name else item)
    subprocess.run(
        [*gpu1.ssh, f"mkdir -p {PLACE} && tar -xC {PLACE} --no-same-owner"], input=packed.getvalue(), check=True
    )
    gpu1.write(f"{PLACE}/bring.py", PROGRAM)

    def ask(unit: str, state: str, **more: Any) -> dict[str, Any]:
        given = json.dumps({"unit": unit, "state": state, "drain_s": 5, **more})
        return dict(json.loads(gpu1.sh(f"python3 {PLACE}/bring.py", given=given)))

    yield ask
    gpu1.sh(f"rm -r {PLACE}")


@pytest.fixture
def unit(gpu1: Machine, request: pytest.FixtureRequest) -> Iterator[Unit]:
    """Writes the unit of this test and returns its name; it is gone after the test."""
    name = "pdops-" + re.sub(r"\W+", "-", request.node.name.replace("_", "-")).strip("-") + ".service"
    path = f"/etc/systemd/system/{name}"

    def make(command: str, service: str = "", of_unit: str = "") -> str:
        gpu1.write(path, f"[Unit]\n{of_unit}\n[Service]\nExecStart=/bin/bash -c '{command}'\n{service}\n")
        gpu1.sh("systemctl daemon-reload")
        return name

    yield make
    gpu1.sh(
        f"systemctl unmask {name}; systemctl disable {name}; systemctl kill -s KILL {name}; systemctl stop {name}; rm -f {path}",
        check=False,
    )
    gpu1.sh(f"systemctl daemon-reload; systemctl reset-failed {name}", check=False)


def test_death_at_once_is_told_with_the_journal_of_that_run(bring: Bring, unit: Unit) -> None:
    for number in range(8):  # journald sometimes loses whose line the last one was
        name = unit(f"echo this is run {number}; exit {number + 1}")
        told = bring(name, "started")
        ending = f"failed (failed), result exit-code, exit code {number + 1}"
        assert f"{name} died at once after its start: {ending}" in told["failed"]
        assert told["exit_code"] == number + 1
        assert [line for line in told["log_tail"] if "this is" in line] == [f"this is run {number}"]
        assert any(f"status={number + 1}" in line for line in told["log_tail"])  # what systemd itself said of it


def test_death_is_told_although_the_next_try_runs_already(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    """With a short RestartSec (systemd's own is 100 ms) the next process is there before one has looked."""
    gpu1.sh("rm -f /run/pdops-tries")
    name = unit(
        "echo x >> /run/pdops-tries; echo this is try $$(wc -l < /run/pdops-tries); sleep 0.4; exit 7",
        "Restart=on-failure\nRestartSec=1ms",
        "StartLimitIntervalSec=0",
    )
    told = bring(name, "started")
    assert "died at once after its start" in told["failed"] and "exit code 7" in told["failed"]
    assert told["exit_code"] == 7
    assert [line for line in told["log_tail"] if line.startswith("this is")] == ["this is try 1"]


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -KILL $$$$", -9)])
def test_the_last_death_is_found_below_what_the_next_run_says(
    gpu1: Machine, bring: Bring, unit: Unit, end: str, code: int
) -> None:
    """As the gates ask for it, when an engine dies while it loads and Restart= begins again."""
    gpu1.sh("rm -f /run/pdops-tries")
    name = unit(
        "echo x >> /run/pdops-tries; "
        f"if [ $$(wc -l < /run/pdops-tries) = 1 ]; then sleep 1.5; echo no such device; {end}; fi; "
        "seq -f chatter%%g 500; exec sleep 1000",
        "Restart=on-failure\nRestartSec=1ms",
    )
    assert bring(name, "started")["after"]["state"] == "active"
    gpu1.wait("the next run", lambda: gpu1.show(name, "NRestarts") == "1")
    gpu1.wait("its chatter", lambda: "chatter500" in gpu1.sh(f"journalctl -n 3 -o cat -u {name}"))
    told = bring(name, "last death")
    assert told["exit_code"] == code
    assert "no such device" in told["log_tail"] and not [line for line in told["log_tail"] if "chatter" in line]


def test_death_by_a_signal(bring: Bring, unit: Unit) -> None:
    told = bring(unit("sleep 0.2; kill -SEGV $$$$"), "started")
    assert "signal SIGSEGV" in told["failed"]
    assert told["exit_code"] == -11


def test_a_start_limit_is_told_and_cured(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    # Enabled, as a unit of the field: systemd forgets the starts of a unit that nothing refers to when it stops.
    name = unit(
        "exec sleep 1000", "[Install]\nWantedBy=multi-user.target", "StartLimitIntervalSec=3600\nStartLimitBurst=2"
    )
    gpu1.sh(f"systemctl enable {name}")
    for _time in range(2):
        gpu1.sh(f"systemctl restart {name}")
    # The limit is used up, and nothing shows it: the next start of an active unit would be refused.
    told = bring(name, "restarted")
    assert told["after"]["state"] == "active", told
    gpu1.sh(f"systemctl restart {name}; systemctl restart {name}", check=False)
    assert gpu1.show(name, "Result") == "start-limit-hit"
    told = bring(name, "status")
    assert "start-limit-hit" in told["after"]["detail"]
    assert bring(name, "started")["after"]["state"] == "active"


def test_a_start_limit_that_a_dying_unit_ran_into(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit(
        "echo no such device; exit 9", "Restart=always\nRestartSec=20ms", "StartLimitIntervalSec=60\nStartLimitBurst=3"
    )
    told = bring(name, "started")
    assert "exit code 9" in told["failed"] and "no such device" in told["log_tail"]
    gpu1.wait("the start limit", lambda: gpu1.show(name, "ActiveState") == "failed")
    told = bring(name, "status")
    # What it died of comes first, although systemd's last word is another.
    assert told["after"]["exit_code"] == 9
    unit("exec sleep 1000", "Restart=always\nRestartSec=20ms", "StartLimitIntervalSec=60\nStartLimitBurst=3")
    assert bring(name, "started")["after"]["state"] == "active"


def test_a_unit_that_is_stopping_is_waited_out(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit('trap "sleep 2; exit 0" TERM; while :; do sleep 0.1; done')
    gpu1.sh(f"systemctl start {name}; sleep 0.3; systemctl stop --no-block {name}")
    before = gpu1.show(name, "MainPID")
    assert gpu1.show(name, "ActiveState") == "deactivating"
    told = bring(name, "started")
    assert "failed" not in told, told
    assert told["after"]["state"] == "active" and str(told["after"]["pid"]) != before
    gpu1.sh(f"systemctl stop --no-block {name}")
    assert bring(name, "stopped")["after"]["state"] == "inactive"


def test_a_unit_that_is_starting_is_waited_out(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit("exec sleep 1000", "ExecStartPre=/bin/sleep 2")
    gpu1.sh(f"systemctl start --no-block {name}")
    assert gpu1.show(name, "SubState") == "start-pre"
    told = bring(name, "started")
    assert told["after"]["state"] == "active" and told["after"]["pid"], told
    assert bring(name, "stopped")["after"]["state"] == "inactive"
    gpu1.sh(f"systemctl start --no-block {name}")
    assert bring(name, "stopped")["after"]["state"] in ("inactive", "failed")
    assert gpu1.show(name, "MainPID") == "0"


def test_what_systemd_tries_again_and_again_is_started_afresh(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit("exit 4", "Restart=on-failure\nRestartSec=600")
    assert "exit code 4" in bring(name, "started")["failed"]
    told = bring(name, "status")["after"]
    assert told["detail"].startswith("activating (auto-restart)") and told["exit_code"] == 4
    unit("exec sleep 1000", "Restart=on-failure\nRestartSec=600")
    assert bring(name, "started")["after"]["state"] == "active"


def test_a_masked_unit(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit("exec sleep 1000")
    gpu1.sh(f"systemctl mask --runtime {name}")
    gpu1.sh(f"mv /etc/systemd/system/{name} /run/pdops-masked && systemctl daemon-reload")
    told = bring(name, "restarted")
    assert told["failed"] == f"unit {name} is masked on this machine: systemctl unmask {name}"
    gpu1.sh(f"mv /run/pdops-masked /etc/systemd/system/{name}; systemctl unmask --runtime {name}")


def test_an_orphan_on_the_port_is_named_and_left(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    name = unit("exec sleep 1000")
    before = bring(name, "started")["after"]["pid"]
    gpu1.sh("systemd-run --quiet --unit=pdops-orphan python3 -m http.server 30555 --bind 127.0.0.1")
    try:
        gpu1.wait("the orphan", lambda: gpu1.sh("ss -Hltn sport = :30555"))
        orphan = gpu1.show("pdops-orphan", "MainPID")
        told = bring(name, "restarted", url="http://127.0.0.1:30555")
        assert told["failed"].startswith(f"{name} was not touched: port 30555 is held by process {orphan} (")
        assert "http.server 30555" in told["failed"]
        assert bring(name, "status")["after"]["pid"] == before
        assert gpu1.show("pdops-orphan", "MainPID") == orphan
    finally:
        gpu1.sh("systemctl stop pdops-orphan")


def test_what_a_unit_leaves_behind_on_its_port_is_taken_down(gpu1: Machine, bring: Bring, unit: Unit) -> None:
    """KillMode=process, as in hand-written units: the main process goes, the one that listens stays."""
    name = unit("python3 -m http.server 30556 --bind 127.0.0.1 & exec sleep 1000", "KillMode=process")
    bring(name, "started")
    gpu1.wait("the port", lambda: gpu1.sh("ss -Hltn sport = :30556"))
    told = bring(name, "restarted", url="http://127.0.0.1:30556")
    assert told["after"]["state"] == "active", told
    assert len(told["leftovers"]) == 1
    gpu1.sh(f"systemctl stop {name}")
    assert gpu1.sh("ss -Hltn sport = :30556") != ""  # by hand, it is left behind
    told = bring(name, "started", url="http://127.0.0.1:30556")
    assert told["after"]["state"] == "active" and len(told["leftovers"]) == 1, told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ConditionPathExists=/nix", "a condition of its unit file is not met (ConditionPathExists=/nix)"),
        ("AssertPathExists=/nix", "an assertion of its unit file is not met"),
    ],
)
def test_a_unit_that_may_not_start(bring: Bring, unit: Unit, line: str, words: str) -> None:
    assert words in bring(unit("exec sleep 1000", of_unit=line), "started")["failed"]


def test_a_unit_that_ends_by_itself(bring: Bring, unit: Unit) -> None:
    told = bring(unit("echo done"), "started")
    assert "ended at once after its start" in told["failed"] or "died at once" in told["failed"]
    assert "done" in told["log_tail"]


def test_a_unit_that_is_not_there(bring: Bring) -> None:
    assert bring("pdops-nix.service", "started")["failed"].startswith("systemd has no unit pdops-nix.service on this")

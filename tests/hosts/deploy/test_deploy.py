# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""From bare Debian 12 and Debian 13 machines to serving, by deploy.yml and nothing else. Tests run in this order."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ...installed import Installed
from ..field import KNOB, PLACES, Machine, Ran

FAULTS = "/etc/pdops-simulation-faults.json"


class Fleet:
    """Both machines, each with its deployment, and the operator's folder."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        #: What the check had said before anything was there.
        self.promised = ""
        self.machines = {"dsv4": Machine(folder, "gpu12", "dsv4"), "dsv4b": Machine(folder, "gpu13", "dsv4b")}

    def play(self, playbook: str, *arguments: str) -> Ran:
        return self.machines["dsv4"].play(playbook, *arguments)

    def bare(self) -> None:
        """As before the first deploy, so that these tests can be repeated on machines that stand."""
        for machine in self.machines.values():
            machine.bare()
            machine.sh(f"rm -f {FAULTS}")
        for made in self.dir.glob("inventory.intended*"):
            shutil.rmtree(made)

    def found(self) -> dict[str, str]:
        return {name: machine.sh(f"ls -d {PLACES} 2>/dev/null || :") for name, machine in self.machines.items()}

    def states(self) -> dict[str, str]:
        """Everything that a change could alter: units, scripts, and the processes that run."""
        asked = "sha256sum /root/serve_* /etc/systemd/system/sglang-*.service; systemctl show -p MainPID -p UnitFileState 'sglang-*'"
        return {name: machine.sh(asked) for name, machine in self.machines.items()}


@pytest.fixture(scope="module")
def fleet(gpu12: Machine) -> Fleet:
    made = Fleet(gpu12.dir)
    made.bare()
    return made


def test_check_on_bare_machines_tells_what_would_happen_and_touches_nothing(fleet: Fleet) -> None:
    ran = fleet.play("deploy.yml", "--check", "--diff")
    assert ran.rc == 0, ran.text
    for deployment in fleet.machines:
        assert ran.recap_of(deployment)["changed"] > 0, ran.text
        for role in ("prefill", "decode", "router"):
            assert f"/root/serve_{deployment}_{role}.sh" in ran.words
            assert f"sglang-{deployment}-{role}" in ran.words
    assert f"+export {KNOB}=512" in ran.text.replace(" ", "").replace("+export", "+export ")
    assert fleet.found() == {"dsv4": "", "dsv4b": ""}
    fleet.promised = ran.text


def test_a_first_deploy_that_does_not_pass_its_gates_leaves_nothing(fleet: Fleet) -> None:
    machine = fleet.machines["dsv4b"]
    machine.write(FAULTS, json.dumps({"decode": {"refuse_start_with": {KNOB: "512"}}}))
    ran = fleet.play("deploy.yml", "-l", "dsv4b", "-e", "pd_load_timeout_s=20")
    machine.sh(f"rm {FAULTS}")
    assert ran.rc == 2, ran.text
    assert f"the engine does not start with {KNOB}=512" in ran.words
    assert machine.changes()[-1]["state"] == "rolled-back"
    assert (
        machine.sh("ls /root/serve_* /etc/systemd/system/sglang-* /etc/systemd/system/*/sglang-* 2>/dev/null || :")
        == ""
    )
    assert machine.sh("systemctl list-unit-files --no-legend 'sglang-*' 'pdops-guard@2*'", check=False) == ""
    assert machine.sh("systemctl list-units --no-legend 'sglang-*'") == ""
    assert machine.sh("systemctl --failed --no-legend") == ""
    assert machine.sh("ss -Hltn '( sport = :30000 or sport = :30001 or sport = :8000 )'") == ""


def test_deploy(fleet: Fleet) -> None:
    ran = fleet.play("deploy.yml")
    assert ran.rc == 0, ran.text
    for deployment, machine in fleet.machines.items():
        assert ran.recap_of(deployment)["changed"] > 0
        assert machine.serves(), ran.text
        assert machine.running_knob() == "512"
        assert machine.changes()[-1]["state"] == "confirmed"
        for name in machine.units.values():
            assert machine.sh(f"systemctl is-enabled {name}") == "enabled"
        said = machine.sh(
            f"systemd-analyze verify {' '.join(f'{unit}.service' for unit in machine.units.values())} 2>&1", check=False
        )
        assert said == "", said
        assert machine.sh("systemctl --failed --no-legend") == ""
        assert machine.show(machine.units["decode"], "KillMode") == "mixed"
        assert (
            machine.show(machine.units["decode"], "TimeoutStopUSec") == "1min 40s"
        )  # 20 s of generation, 5 s of drain, 75 s


def test_the_check_had_told_the_truth(fleet: Fleet) -> None:
    """Every folder it named was made, and every line of every script and unit is one that it had shown."""
    lines = [line.strip() for line in fleet.promised.splitlines()]
    shown = {line[1:].strip() for line in lines if line.startswith("+")}
    for machine in fleet.machines.values():
        made = f"[{machine.name}] make folder "
        folders = [line.removeprefix(made).split()[0] for line in lines if line.startswith(made)]
        assert folders
        for path in folders:
            assert machine.sh(f"stat -c %F {path}") == "directory"
        written = machine.sh("cat /root/serve_*.sh /etc/systemd/system/sglang-*.service").splitlines()
        assert [line for line in written if line.strip() and line.strip() not in shown] == []


def test_again_changes_and_restarts_nothing(fleet: Fleet) -> None:
    before = fleet.states()
    for arguments in ((), ("--check",)):
        ran = fleet.play("deploy.yml", *arguments)
        assert ran.rc == 0, ran.text
        assert [ran.recap_of(name)["changed"] for name in fleet.machines] == [0, 0], ran.text
    assert fleet.states() == before


def test_a_knob_is_lost_and_restored_and_the_next_deploy_agrees(fleet: Fleet) -> None:
    decode = ("-l", "dsv4-decode", "-e", f"knob={KNOB}")
    taken = fleet.play("set_knob.yml", *decode, "-e", "state=absent")
    assert taken.rc == 0, taken.text
    assert fleet.machines["dsv4"].running_knob() is None
    restored = fleet.play("restore_knob.yml", *decode)
    assert restored.rc == 0, restored.text
    assert fleet.machines["dsv4"].running_knob() == "512" and fleet.machines["dsv4"].serves()
    ran = fleet.play("deploy.yml", "--check", "-l", "dsv4")
    assert ran.rc == 0 and ran.recap_of("dsv4")["changed"] == 0, ran.text


def test_a_deploy_that_does_not_pass_its_gates_goes_back_to_the_old_state(fleet: Fleet) -> None:
    machine = fleet.machines["dsv4"]
    asked = "sha256sum /root/serve_* /etc/systemd/system/sglang-*.service"
    before = machine.sh(asked)
    machine.write(FAULTS, json.dumps({"decode": {"refuse_start_with": {KNOB: "1024"}}}))
    ran = fleet.play(
        "deploy.yml",
        "-l",
        "dsv4",
        "-e",
        json.dumps({"pd_load_timeout_s": 20, "pd_knobs": {KNOB: 1024}, "pd_longest_generation_s": 30}),
    )
    machine.sh(f"rm {FAULTS}")
    assert ran.rc == 2, ran.text
    assert f"the engine does not start with {KNOB}=1024" in ran.words
    assert machine.changes()[-1]["state"] == "rolled-back"
    assert machine.sh(asked) == before
    assert machine.running_knob() == "512" and machine.serves()
    assert machine.show(machine.units["decode"], "TimeoutStopUSec") == "1min 40s"
    again = fleet.play("deploy.yml", "--check")
    assert again.rc == 0 and [again.recap_of(name)["changed"] for name in fleet.machines] == [0, 0], again.text


def test_serving_after_a_reboot(fleet: Fleet) -> None:
    for machine in fleet.machines.values():
        machine.reboot()
    ran = fleet.play("verify.yml")
    assert ran.rc == 0, ran.text
    for machine in fleet.machines.values():
        assert machine.serves() and machine.running_knob() == "512"


def test_values_that_cannot_work_are_refused_before_anything_is_written(fleet: Fleet) -> None:
    before = fleet.states()
    for given, word in (
        ({"pd_unit": "sglang-same"}, "sglang-same"),
        ({"pd_gpus": [0, 1, 2, 3]}, "GPU"),
        ({"pd_url": "http://127.0.0.1:30000"}, "30000"),
    ):
        ran = fleet.play("deploy.yml", "-l", "dsv4", "-e", json.dumps(given))
        assert ran.rc == 2 and re.search(word, ran.words, re.IGNORECASE), ran.text
    assert fleet.states() == before


def test_the_installed_collection_writes_the_same(fleet: Fleet, tmp_path: Path) -> None:
    """Its templates are its own: without the repo the same scripts and units come out."""
    hosts = fleet.dir / "inventory" / "hosts.yml"
    installed = Installed(tmp_path, hosts)
    told = json.loads(hosts.read_text())
    told["all"]["children"]["instances"]["vars"]["pd_wheels"] = str(fleet.dir / "wheels")
    (installed.site / "inventory" / "hosts.yml").write_text(json.dumps(told))
    ran = Ran(0, installed.play("pdops.sglang.deploy", "--check", "--diff"))
    assert [ran.recap_of(name)["changed"] for name in fleet.machines] == [0, 0], ran.text

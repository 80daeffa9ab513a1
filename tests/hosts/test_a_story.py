# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The field's story over ssh; molecule has restored the knob already, once and again. Tests run in this order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .conftest import KNOB, ROOT, UNITS, Machine

BACKUP = ".pretgt_revert_2025.bak"
FAULTS = "/opt/pdops-simulation/faults.json"
#: The guard waits for a step's time and a slack on top; the usual ones are a minute and more.
QUICK = ("-e", "change_step_budget_s=12", "-e", "change_lease_slack_s=2", "-e", "pd_load_timeout_s=40")


@contextlib.contextmanager
def faults(gpu1: Machine, **on: object) -> Iterator[None]:
    """Switches of the simulated decode engine."""
    gpu1.write(FAULTS, json.dumps({"decode": on}))
    try:
        yield
    finally:
        gpu1.sh(f"rm -f {FAULTS}")


def test_the_knob_is_back_and_in_effect(gpu1: Machine) -> None:
    assert gpu1.script() == gpu1.script(BACKUP)
    assert gpu1.running_knob() == "512"
    assert gpu1.serves()
    assert gpu1.sh("stat -c '%a %U' /var/lib/pdops") == "700 root"
    assert gpu1.sh("stat -c '%a %U' /root/serve_dsv4_decode.sh") == "755 root"
    assert gpu1.changes()[-1]["state"] == "confirmed"
    assert gpu1.sh("systemctl list-units --state=active,activating,failed --no-legend 'pdops-guard*'") == ""
    assert gpu1.sh("ls /tmp /var/tmp /root/.ansible/tmp | grep -ci ansible- || :") == "0"


def test_again_changes_and_restarts_nothing(gpu1: Machine) -> None:
    before = gpu1.pids()
    ran = gpu1.play("restore_knob.yml")
    assert ran.rc == 0 and ran.recap["changed"] == 0, ran.text
    assert gpu1.pids() == before


def test_verify(gpu1: Machine) -> None:
    ran = gpu1.play("verify.yml")
    assert ran.rc == 0 and ran.recap["changed"] == 0, ran.text
    assert f"{KNOB}" in ran.words or "knobs in effect" in ran.words


def test_an_engine_that_refuses_to_start_is_rolled_back(gpu1: Machine) -> None:
    before = gpu1.script()
    with faults(gpu1, refuse_start_with={KNOB: "1024"}):
        ran = gpu1.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=1024", "-e", "instance=dsv4-decode")
    assert ran.rc == 2, ran.text
    assert f"the engine does not start with {KNOB}=1024" in ran.words
    assert "exit code 3" in ran.words
    assert gpu1.script() == before and gpu1.running_knob() == "512"
    assert gpu1.changes()[-1]["state"] == "rolled-back"
    assert gpu1.serves()


def set_and_kill(gpu1: Machine, value: str) -> tuple[str, str]:
    """Begin a change, and kill the whole controller between apply and restart; the change's id and its guard's unit."""
    before, known = gpu1.script(), len(gpu1.changes())
    process = gpu1.start(
        "ansible-playbook",
        "set_knob.yml",
        "-e",
        f"knob={KNOB}",
        "-e",
        f"value={value}",
        "-e",
        "instance=dsv4-decode",
        *QUICK,
    )
    try:
        gpu1.wait("the change of the script", lambda: gpu1.script() != before)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
    change = gpu1.changes()[-1]
    assert len(gpu1.changes()) == known + 1 and change["state"] == "open", text
    return str(change["id"]), f"pdops-guard@{change['id']}.service"


def found_and_told(gpu1: Machine, change_id: str, why: str) -> None:
    told = gpu1.play("restore_knob.yml")
    assert told.rc == 0, told.text
    for words in (f"found: change {change_id}", "was rolled-back by its guard", why):
        assert words in told.words


def test_without_any_controller_the_guard_puts_the_old_state_back(gpu1: Machine) -> None:
    before = gpu1.script()
    change_id, guard = set_and_kill(gpu1, "256")
    assert gpu1.show(guard, "ActiveState") == "active"
    # Nothing of the login holds it: it is a unit of the system.
    group = gpu1.sh(f"cat /proc/{gpu1.show(guard, 'MainPID')}/cgroup")
    assert "pdops" in group and "session" not in group

    gpu1.wait("the guard's rollback", lambda: gpu1.changes()[-1]["state"] == "rolled-back")
    assert gpu1.script() == before and gpu1.running_knob() == "512"
    gpu1.wait("the guard's end", lambda: gpu1.show(guard, "ActiveState") == "inactive")
    assert gpu1.sh("systemctl --failed --no-legend") == ""
    assert gpu1.serves()
    found_and_told(gpu1, change_id, "nobody confirmed it")


def test_decode_alone_as_another_user_who_becomes_root_without_pipelining(gpu1: Machine) -> None:
    inventory = gpu1.dir / "inventory-become"
    usual = gpu1.dir / "inventory"
    subprocess.run(["rm", "-rf", inventory], check=True)
    subprocess.run(["cp", "-a", usual, inventory], check=True)
    group = inventory / "group_vars" / "instances.yml"
    group.write_text(group.read_text() + "ansible_user: ops\nansible_become: true\nansible_pipelining: false\n")
    before = gpu1.pids()
    ran = gpu1.play("restart.yml", "-e", "scope=decode", ANSIBLE_INVENTORY=str(inventory))
    assert ran.rc == 0, ran.text
    after = gpu1.pids()
    assert {name for name in UNITS if before[name] != after[name]} == {"decode"}
    assert gpu1.running_knob() == "512" and gpu1.serves()
    assert gpu1.sh("ls /home/ops/.ansible/tmp") == ""  # nothing is left of what was carried over


def test_a_connection_that_breaks_while_the_model_loads(gpu1: Machine, tmp_path: Path) -> None:
    """The gates go on over a new connection; the run notices no more than a pause."""
    sockets = Path(os.environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR", "/tmp")) / "cut"
    sockets.mkdir(mode=0o700, exist_ok=True)
    with faults(gpu1, slow_load=12):
        process = gpu1.start("ansible-playbook", "restart.yml", ANSIBLE_SSH_CONTROL_PATH_DIR=str(sockets))
        before = gpu1.pids()["decode"]
        gpu1.wait("the start of decode", lambda: gpu1.pids()["decode"] not in ("0", before))
        gpu1.wait(
            "its load",
            lambda: gpu1.sh("ss -Hltn sport = :30001") == "" and gpu1.changes()[-1]["steps"][-1]["step"] == "start",
        )
        time.sleep(5)  # into the gates
        cut = [
            subprocess.run(["ssh", "-S", path, "-O", "exit", "gpu1"], capture_output=True).returncode
            for path in sockets.iterdir()
        ]
        assert 0 in cut
        text, _ = process.communicate(timeout=240)
    assert process.returncode == 0, text
    assert "connection" in text.lower(), text
    assert gpu1.serves()


def reboot(gpu1: Machine) -> None:
    """The power button: systemd ends everything, and begins anew."""
    number = subprocess.run(
        ["cksum"], input=f"{gpu1.dir}\n", capture_output=True, text=True, check=True
    ).stdout.split()[0]
    environment = {**os.environ, "CONTAINERS_CONF": str(ROOT / "molecule/shared/containers.conf")}
    command = ["podman", "restart", "--time", "20", f"pdops-{number}-gpu1"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    gpu1.wait("ssh", lambda: gpu1.sh("systemctl is-system-running --wait", check=False) == "running")


def test_a_reboot_in_the_middle_of_a_change_brings_the_old_state(gpu1: Machine) -> None:
    before = gpu1.script()
    change_id, guard = set_and_kill(gpu1, "128")
    assert gpu1.script() != before
    reboot(gpu1)
    gpu1.wait("the guard's rollback", lambda: gpu1.changes()[-1]["state"] == "rolled-back")
    assert gpu1.script() == before
    # The files came before the serve units: decode never ran with the value that nobody had confirmed.
    assert gpu1.running_knob() == "512"
    gpu1.wait("the guard's end", lambda: gpu1.show(guard, "ActiveState") == "inactive")
    assert gpu1.sh(f"ls -d /etc/systemd/system/*/{guard} /etc/systemd/system/{guard}.d", check=False) == ""
    found_and_told(gpu1, change_id, "rebooted after step 'apply', before anybody confirmed it")


def test_the_new_state_is_back_after_a_reboot(gpu1: Machine) -> None:
    reboot(gpu1)
    ran = gpu1.play("verify.yml")
    assert ran.rc == 0, ran.text
    assert gpu1.running_knob() == "512" and gpu1.serves()

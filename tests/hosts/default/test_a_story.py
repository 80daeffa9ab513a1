# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The field's story over ssh; molecule has restored the knob already, once and again. Tests run in this order."""

from __future__ import annotations

import subprocess

import pytest

from tests.lab.runbook import try_page

from ..field import KNOB, ROOT, Machine, setting

BACKUP = ".pretgt_revert_2025.bak"


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


@pytest.mark.parametrize(("page", "after"), [("revert.md", None), ("restore-a-knob.md", "512")])
def test_a_runbook_does_and_prints_on_a_real_host_what_it_does_in_the_lab(
    gpu1: Machine, page: str, after: str | None
) -> None:
    """The knob that molecule restored is undone, and then restored, by what the pages say alone."""
    if (
        page == "restore-a-knob.md"
    ):  # as it is before a first change: nothing is stored, and the backup alone has the knob
        gpu1.sh("rm -rf /var/lib/pdops")
    try_page(ROOT / "docs" / "runbooks" / page, ROOT, gpu1.environment)
    assert gpu1.running_knob() == after and gpu1.serves()
    assert (f"export {KNOB}=512" in gpu1.sh("cat /root/serve_dsv4_decode.sh")) == (after == "512")


def test_an_engine_that_refuses_to_start_is_rolled_back(gpu1: Machine) -> None:
    before = gpu1.script()
    with gpu1.faults(refuse_start_with={KNOB: "1024"}):
        ran = gpu1.play("set_knob.yml", *setting("1024"))
    assert ran.rc == 2, ran.text
    assert f"the engine does not start with {KNOB}=1024" in ran.words
    assert "exit code 3" in ran.words
    assert gpu1.script() == before and gpu1.running_knob() == "512"
    assert gpu1.changes()[-1]["state"] == "rolled-back"
    assert gpu1.serves()


def test_a_knob_of_decode_alone_by_another_user_who_becomes_root_without_pipelining(gpu1: Machine) -> None:
    inventory = gpu1.dir / "inventory-become"
    usual = gpu1.dir / "inventory"
    subprocess.run(["rm", "-rf", inventory], check=True)
    subprocess.run(["cp", "-a", usual, inventory], check=True)
    group = inventory / "group_vars" / "instances.yml"
    group.write_text(group.read_text() + "ansible_user: ops\nansible_become: true\nansible_pipelining: false\n")
    before, script = gpu1.pids(), gpu1.script()
    ran = gpu1.play("set_knob.yml", *setting("384"), "-e", "scope=decode", ANSIBLE_INVENTORY=str(inventory))
    assert ran.rc == 0, ran.text
    after = gpu1.pids()
    assert {name for name in gpu1.units if before[name] != after[name]} == {"decode"}
    assert gpu1.running_knob() == "384" and gpu1.serves()
    assert gpu1.sh("stat -c '%a %U' /root/serve_dsv4_decode.sh /var/lib/pdops") == "755 root\n700 root"
    assert gpu1.sh("ls /home/ops/.ansible/tmp") == ""  # nothing is left of what was carried over
    back = gpu1.play("rollback.yml")
    assert back.rc == 0, back.text
    assert gpu1.script() == script and gpu1.running_knob() == "512"


def test_the_new_state_is_back_after_a_reboot(gpu1: Machine) -> None:
    gpu1.reboot()
    ran = gpu1.play("verify.yml")
    assert ran.rc == 0, ran.text
    assert gpu1.running_knob() == "512" and gpu1.serves()

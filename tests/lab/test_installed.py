# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The installed collection leads the lab, from a folder that holds nothing but an inventory."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from ..installed import Installed
from .conftest import KNOB, ROOT, Lab, Ran

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def installed(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    module_lab.story()
    hosts = ROOT / "inventory" / "lab" / "hosts.yml"
    return Installed(tmp_path_factory.mktemp("installed"), hosts, PDOPS_LAB_DIR=str(module_lab.dir))


def test_it_holds_plain_files_and_nothing_of_the_workshop(installed: Installed) -> None:
    assert [path for path in installed.root.rglob("*") if path.is_symlink()] == []
    rooms = {path.name for path in installed.root.iterdir()}
    assert {"plugins", "roles", "playbooks", "templates", "docs", "meta", "README.md", "LICENSE"} <= rooms
    assert rooms.isdisjoint({"lab", "bench", "molecule", "tools", "collections", "Makefile", ".git", ".venv"})
    examples = {path.name for path in (installed.root / "inventory").iterdir()}
    assert examples == {"example", "example-deploy", "example-xpyd"}  # messages and documents say to copy them
    assert not (installed.root / "tests" / "unit").exists()


def test_a_knob_is_restored_by_the_name_of_the_collections_playbook(installed: Installed, module_lab: Lab) -> None:
    lab = module_lab
    ran = installed.play("pdops.sglang.restore_knob", "--diff")
    assert "differs in 1 line" in ran and f"restored {KNOB}=512 on decode" in ran
    assert lab.script.read_bytes() == lab.backup.read_bytes() and lab.running_knob() == "512" and lab.serves()
    proved = installed.play("pdops.sglang.verify")
    assert Ran(0, proved).recap["changed"] == 0
    # What to type next is told by the name that was typed.
    assert "ansible-playbook pdops.sglang.revert_knob -l lab -e knob=" in ran
    assert (
        re.findall(
            r"(?<![/\w])(?:revert_knob|restore_knob|set_knob|verify|recover|restart|history|rollback)\.yml",
            ran + proved,
        )
        == []
    )
    # The engine's interpreter stands in the lab's scripts, wherever it is.
    assert str(ROOT) not in (ran + proved).replace(str(Path(sys.executable).parent), "")
    assert sorted(path.name for path in installed.site.iterdir()) == ["inventory"]


def test_a_module_and_an_action_by_themselves(installed: Installed, module_lab: Lab) -> None:
    def ask(module: str, **given: object) -> str:
        words = ("lab-decode", "-m", f"pdops.sglang.{module}", "-a", json.dumps(given))
        return installed.run("ansible", "-i", "inventory", *words)

    script = str(module_lab.script)
    assert "pretgt_revert_2025" in ask("serve_version", path=script, state_dir=module_lab.told["state_dir"])
    proved = ask(
        "pd_gate",
        name="lab-decode",
        role="decode",
        unit="{{ pd_unit }}",
        manager="supervisor",
        supervisor_config="{{ pd_supervisor_config }}",
        url="{{ pd_url }}",
        serve_script=script,
        gates=["unit", "health"],
        timeout_s=120,
    )
    assert '"result": "passed"' in proved


def test_all_is_documented_and_every_playbook_is_whole(installed: Installed) -> None:
    modules = installed.names("plugins/modules")
    assert len(modules) >= 14
    told = json.loads(installed.run("ansible-doc", "--json", "-t", "module", *modules))
    for name in modules:
        assert told[name]["doc"]["short_description"] and told[name]["examples"], name
    roles = installed.names("roles")
    told = json.loads(installed.run("ansible-doc", "--json", "-t", "role", *roles))
    assert sorted(told) == roles and all(role["entry_points"]["main"]["short_description"] for role in told.values())
    playbooks = installed.names("playbooks")
    playbooks.remove("pdops.sglang.tasks")
    installed.play("--syntax-check", *playbooks)

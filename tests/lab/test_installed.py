# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The collection as others get it: built, installed offline, and used from a folder that holds nothing but an inventory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import KNOB, ROOT, Lab, Ran

pytestmark = pytest.mark.lab


class Installed:
    """An operator's empty folder, with the collection installed elsewhere."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        self.lab = lab
        self.site = folder / "site"
        self.collections = folder / "collections"
        self.root = self.collections / "ansible_collections" / "pdops" / "sglang"
        for made in (self.site / "inventory", folder / "home"):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "inventory" / "lab" / "hosts.yml", self.site / "inventory")
        known = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment = {
            **known,
            "PDOPS_LAB_DIR": str(lab.dir),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        staged = self.run(str(ROOT / "tools" / "stage"), str(folder / "staged")).text.split()[-1]
        self.run("ansible-galaxy", "collection", "build", staged, "--output-path", str(folder))
        (tarball,) = folder.glob("pdops-sglang-*.tar.gz")
        self.run("ansible-galaxy", "collection", "install", "--offline", str(tarball), "-p", str(self.collections))
        shutil.rmtree(folder / "staged")  # what is used below must not be found there

    def run(self, *command: str, rc: int = 0) -> Ran:
        done = subprocess.run(
            command,
            cwd=self.site,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == rc, f"{command}: {done.stdout}{done.stderr}"
        return Ran(done.returncode, done.stdout)

    def play(self, *words: str, rc: int = 0) -> Ran:
        return self.run("ansible-playbook", "-i", "inventory", *words, rc=rc)

    def names(self, room: str) -> list[str]:
        return sorted(
            f"pdops.sglang.{path.stem}"
            for path in (self.root / room).glob("[!_]*")
            if path.is_dir() or path.suffix in (".py", ".yml")
        )


@pytest.fixture(scope="module")
def installed(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    module_lab.story()
    return Installed(tmp_path_factory.mktemp("installed"), module_lab)


def test_it_holds_plain_files_and_nothing_of_the_workshop(installed: Installed) -> None:
    assert [path for path in installed.root.rglob("*") if path.is_symlink()] == []
    rooms = {path.name for path in installed.root.iterdir()}
    assert {"plugins", "roles", "playbooks", "templates", "docs", "meta", "README.md", "LICENSE"} <= rooms
    assert rooms.isdisjoint(
        {"lab", "bench", "molecule", "tools", "inventory", "collections", "Makefile", ".git", ".venv"}
    )
    assert not (installed.root / "tests" / "unit").exists()


def test_a_knob_is_restored_by_the_name_of_the_collections_playbook(installed: Installed) -> None:
    lab = installed.lab
    planned = installed.play("pdops.sglang.restore_knob", "--check", "--diff")
    assert "differs in 1 line" in planned.words and lab.running_knob() is None

    ran = installed.play("pdops.sglang.restore_knob")
    assert f"restored {KNOB}=512 on decode" in ran.words
    assert lab.script.read_bytes() == lab.backup.read_bytes() and lab.running_knob() == "512" and lab.serves()
    proved = installed.play("pdops.sglang.verify")
    assert proved.recap["changed"] == 0
    # Everything that was typed to the operator must work where they stand: no file of the repo is named as a playbook.
    for text in (planned.text, ran.text, proved.text):
        assert str(ROOT) not in text
    assert sorted(path.name for path in installed.site.iterdir()) == ["inventory"]


def test_a_module_and_actions_by_themselves(installed: Installed) -> None:
    script = str(installed.lab.script)
    state = installed.lab.told["state_dir"]
    listed = installed.run(
        "ansible",
        "-i",
        "inventory",
        "lab-decode",
        "-m",
        "pdops.sglang.serve_version",
        "-a",
        json.dumps({"path": script, "state_dir": state}),
    )
    assert "pretgt_revert_2025" in listed.text
    gate = {
        "name": "lab-decode",
        "role": "decode",
        "unit": "{{ pd_unit }}",
        "manager": "supervisor",
        "supervisor_config": "{{ pd_supervisor_config }}",
        "url": "{{ pd_url }}",
        "serve_script": script,
        "gates": ["unit", "health"],
        "timeout_s": 20,
    }
    proved = installed.run(
        "ansible", "-i", "inventory", "lab-decode", "-m", "pdops.sglang.pd_gate", "-a", json.dumps(gate)
    )
    assert '"result": "passed"' in proved.text


def test_all_is_documented_and_every_playbook_is_whole(installed: Installed) -> None:
    modules = installed.names("plugins/modules")
    assert len(modules) >= 14
    told = json.loads(installed.run("ansible-doc", "--json", "-t", "module", *modules).text)
    for name in modules:
        assert told[name]["doc"]["short_description"] and told[name]["examples"], name
    roles = installed.names("roles")
    told = json.loads(installed.run("ansible-doc", "--json", "-t", "role", *roles).text)
    assert sorted(told) == roles and all(role["entry_points"]["main"]["short_description"] for role in told.values())
    playbooks = installed.names("playbooks")
    playbooks.remove("pdops.sglang.tasks")
    installed.play("--syntax-check", *playbooks)

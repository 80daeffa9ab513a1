# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""pd_report as a playbook uses it: out of the repo, out of an installed collection, with a folder that cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible_collections.pdops.sglang.plugins.action import pd_report

ROOT = Path(__file__).resolve().parents[3]
STORY = json.loads((ROOT / "tests/unit/report/stories/confirmed.json").read_text())
NAME = "20261129T200854Z-restore-20261129T200855-restore-575036.html"


@pytest.fixture
def installed(tmp_path):
    """The collection as it is installed: plain files, no links. The metadata are what Ansible itself asks for."""
    target = tmp_path / "installed" / "ansible_collections" / "pdops" / "sglang"
    for room, name in (("library", "modules"), ("action_plugins", "action"), ("module_utils", "module_utils")):
        shutil.copytree(ROOT / room, target / "plugins" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("templates", "meta"):
        shutil.copytree(ROOT / room, target / room)
    return tmp_path / "installed"


def play(tmp_path, tasks, collections, *arguments):
    """The playbook, and what its tasks returned, by their names."""
    out = tmp_path / "results.json"
    for task in tasks:
        task.update(register=task["name"], ignore_errors=True)
    kept = "{{ {" + ", ".join(f"'{task['name']}': {task['name']}" for task in tasks) + "} | to_json }}"
    keep = {"content": kept, "dest": str(out), "mode": "0600"}
    tasks = [*tasks, {"name": "keep", "ansible.builtin.copy": keep, "check_mode": False}]
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    interpreter = f"ansible_python_interpreter={sys.executable}"
    program = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [program, "-i", "one,", "-c", "local", "-e", interpreter, *arguments, str(book)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    return text, json.loads(out.read_text())


def report(name, **options):
    return {"name": name, "pdops.sglang.pd_report": {"story": STORY, **options}}


def test_out_of_the_repo_with_folders_that_can_and_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    tasks = [report("usual"), report("quiet", quiet=True, folder="here"), report("hindered", folder="file/reports")]
    text, results = play(tmp_path, tasks, ROOT / "collections")

    # Relative to where the operator stands.
    written = tmp_path / "reports" / "lab" / NAME
    assert results["usual"]["path"] == str(written)
    assert f"report: {written}" in text
    assert written.read_bytes() == (tmp_path / "reports/lab/latest.html").read_bytes()
    assert "restored SGLANG_SM120_MMA_TARGET_CTAS=512 on decode" in written.read_text()
    assert text.count("[lab] confirmed: restored") == 2  # one of three was quiet
    assert not any(result["changed"] or result["failed"] for result in results.values())

    # A report that cannot be written fails nothing, and is no secret.
    assert results["hindered"]["path"] == "" and "could not be made" in results["hindered"]["warning"]
    assert "no report was written" in text


def test_out_of_an_installed_collection_in_check_mode(tmp_path, installed):
    text, results = play(tmp_path, [report("usual", folder="{{ inventory_hostname }}/x")], installed, "--check")
    assert results["usual"]["warning"] == "", text
    assert Path(results["usual"]["path"]).read_text().startswith("<!DOCTYPE html>")
    assert not results["usual"]["changed"]


def test_what_templates_became_is_kept_and_a_folder_that_takes_nothing_hinders_no_report(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setattr(pd_report.bytecode, "home", lambda: str(home))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    compiled = []
    compile_template = jinja2.Environment.compile
    monkeypatch.setattr(
        jinja2.Environment,
        "compile",
        lambda *given, **named: compiled.append(given[2]) or compile_template(*given, **named),
    )
    for _time in range(2):
        pd_report.environment.__wrapped__().get_template("page.html.j2")
    assert compiled == ["page.html.j2"]
    shutil.rmtree(home / ".cache/pdops/bytecode")
    monkeypatch.setattr(pd_report.bytecode, "folder_of", lambda _home: str(home / "gone"))
    pd_report.environment.__wrapped__().get_template("page.html.j2")
    assert compiled == ["page.html.j2"] * 2

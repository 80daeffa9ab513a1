# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""pd_record as a playbook uses it: out of the repo, out of an installed collection, typed by people, and where nothing can be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
DONE = {
    "verb": "set",
    "outcome": "confirmed",
    "change_id": "20261129T200613-set-1f2e3d",
    "said": f"set {KNOB}=512 on decode",
    "edits": [{"instance": "dsv4-decode", "knob": KNOB, "before": None, "after": "512"}],
}
MACHINE = {"change_machine": "m", "fingerprint": {"decode engine": "0.5.23"}, "changes": []}


@pytest.fixture
def installed(tmp_path):
    """The collection as it is installed: plain files, no links."""
    target = tmp_path / "installed" / "ansible_collections" / "pdops" / "sglang"
    for room, name in (("library", "modules"), ("action_plugins", "action"), ("module_utils", "module_utils")):
        shutil.copytree(ROOT / room, target / "plugins" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("templates", "meta"):
        shutil.copytree(ROOT / room, target / room)
    return tmp_path / "installed"


def play(tmp_path, tasks, collections, *arguments):
    """The output, and what the tasks returned, by their names."""
    out = tmp_path / "results.json"
    for name, task in tasks.items():
        task.update(name=name, register=name, ignore_errors=True)
    kept = "{{ {" + ", ".join(f"'{name}': {name}" for name in tasks) + "} | to_json }}"
    keep = {
        "name": "keep",
        "ansible.builtin.copy": {"content": kept, "dest": str(out), "mode": "0600"},
        "check_mode": False,
    }
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [*tasks.values(), keep]}]))
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    program = Path(sys.executable).parent / "ansible-playbook"
    python = f"ansible_python_interpreter={sys.executable}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    done = subprocess.run(
        [program, "-i", "one,", "-c", "local", "-e", python, *arguments, str(book)],
        cwd=elsewhere,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr, json.loads(out.read_text())


def task(**options):
    return {"pdops.sglang.pd_record": {"deployment": "dsv4", **options}}


def test_a_record_from_the_first_change_to_a_check_that_finds_what_is_wrong(tmp_path, installed):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/plan.md").write_text(f"Set `{KNOB}`.\n\n<!-- pdops:begin knobs -->\n<!-- pdops:end -->\n")
    entry = {"kind": "measure", "knob": KNOB, "load": "C64", "effect": 12.8, "interval": [10.9, 14.7]}
    text, results = play(
        tmp_path,
        {
            "empty": task(),
            "change": task(verb="change", done=DONE, machines=[MACHINE], page_dir=str(tmp_path / "reports")),
            "hindered": task(verb="change", done=DONE, evidence_dir=str(tmp_path / "file")),
            "measure": task(verb="add", entry=entry, machines=[MACHINE]),
            "wrong": task(verb="add", entry={"kind": "measure", "knob": KNOB}),
            "folded": task(page_dir=str(tmp_path / "reports")),
            "listed": task(verb="list", knob=KNOB),
            "none_listed": task(verb="list", knob=KNOB[:-1]),
            "no_debt": task(verb="debt", knob=KNOB, say_none=True),
            "no_such_debt": task(verb="debt", knob=KNOB.lower(), say_none=True),
            "silent": task(verb="debt"),
            "held": task(verb="check", machines=[MACHINE]),
            "docs": task(verb="docs", docs=[str(tmp_path / "docs")]),
            "rendered": task(verb="docs", docs=[str(tmp_path / "docs")], render=True),
            "journal": task(verb="check", machines=[{**MACHINE, "changes": [
                {"id": "c-2", "verb": "set", "state": "confirmed", "who": "bob on ops2", "ended": "2099", "files": [
                    {"instance": "dsv4-decode", "knobs": {KNOB: ["512", "768"]}}]}]}]),
        },
        installed,
    )  # fmt: skip
    folder = tmp_path / "evidence" / "dsv4"  # of the project, wherever the command was typed
    names = sorted(path.name for path in folder.iterdir())
    assert [name.split("-")[1] for name in names] == ["apply", "measure"]
    assert results["empty"]["knobs"] == [] and not results["empty"]["changed"]
    assert not results["change"]["changed"] and results["change"]["entries"][0]["file"] == names[0]
    assert results["measure"]["changed"]
    unknown = f"the record knows nothing of {{}}; did you mean {KNOB}?"
    assert results["none_listed"]["lines"] == [unknown.format(KNOB[:-1])]
    assert results["no_debt"]["lines"] == [f"no debt of {KNOB}"] and results["silent"]["lines"] == []
    assert results["no_such_debt"]["lines"] == [unknown.format(KNOB.lower())]
    assert "No debt" in Path(results["change"]["page"]).read_text()
    assert "the record was not written: " in results["hindered"]["warning"] and not results["hindered"]["failed"]
    assert f"[WARNING]: {results['hindered']['warning'][:40]}" in text
    assert results["measure"]["entries"][0]["refs"] == [results["change"]["entries"][0]["id"]]
    assert results["measure"]["entries"][0]["fingerprint"] == {"decode engine": "0.5.23"}
    assert "simulation" not in results["measure"]["entries"][0]
    assert results["wrong"]["msg"].startswith("kind=measure needs load=")
    (knob,) = results["folded"]["knobs"]
    assert (knob["verdict"], knob["deployed"]) == ("adopted", {"dsv4-decode": "512"})
    assert f"[dsv4] {KNOB}: 512 on dsv4-decode; verdict adopted (=512)" in text
    assert f"[dsv4] page: {results['folded']['page']}" in text and results["folded"]["page"].endswith("record.html")
    assert len(results["listed"]["lines"]) == 2
    assert "the record holds: 2 entries" in results["held"]["lines"][0]
    assert results["docs"]["msg"].startswith("1 line to reword and 1 document to render") and results["docs"]["failed"]
    assert not results["rendered"]["failed"] and results["rendered"]["changed"]
    assert [item["line"] for item in results["rendered"]["reword"]] == [1]
    assert f"| `{KNOB}` | 512 on dsv4-decode |" in (tmp_path / "docs/plan.md").read_text()
    assert "change c-2 by bob on ops2" in results["journal"]["msg"] and results["journal"]["failed"]


def test_check_mode_writes_nothing_and_what_is_wrong_with_files_is_found(tmp_path):
    (tmp_path / "docs.md").write_text("<!-- pdops:begin knobs -->\n<!-- pdops:end -->\n")
    collections = ROOT / "collections"
    tasks = {
        "change": task(verb="change", done=DONE),
        "rendered": task(verb="docs", docs=[str(tmp_path / "docs.md")], render=True),
    }
    _text, results = play(tmp_path, tasks, collections, "--check")
    assert len(results["change"]["entries"]) == 1 and not results["change"]["changed"]
    assert not (tmp_path / "evidence").exists() and (tmp_path / "docs.md").read_text().count("\n") == 2

    secret = "hf_AbCdEfGhIjKlMnOpQrStUv"
    typed = ["-e", "kind=note", "-e", json.dumps({"why": f"token HF_TOKEN={secret}"})]
    _text, results = play(
        tmp_path, {"note": task(verb="add", typed=True), "again": task(verb="add", typed=True)}, collections, *typed
    )
    assert results["note"]["entries"][0]["said"] == "token HF_TOKEN=********"
    folder = tmp_path / "evidence" / "dsv4"
    first = folder / results["note"]["entries"][0]["file"]
    content = first.read_text().replace("********", secret)
    first.write_text(content)
    text, results = play(tmp_path, {"held": task(verb="check"), "debt": task(verb="debt")}, collections)
    assert results["held"]["failed"] and f"{first} was edited: " in results["held"]["msg"]
    assert not results["debt"].get("failed")
    # One whose hash was made to fit shows its secret all the same.
    sys.path.insert(0, str(ROOT / "collections"))
    from ansible_collections.pdops.sglang.plugins.module_utils.record.folder import id_of

    first.rename(folder / f"{first.name[:23]}-note-{id_of(content.encode())}.json")
    text, results = play(tmp_path, {"held": task(verb="check")}, collections)
    assert "shows a secret: change that secret now" in results["held"]["msg"] and secret not in text


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("kind=note", "why=a b"), "a value with a blank was cut by -e"),
        (("show=all",), "show=all is unknown; it must be one of fold, list, debt, check"),
        (("kind=note", "why=x", "scope=co"), "record takes no scope="),
    ],
)
def test_what_an_operator_may_type_wrong_is_refused_before_a_machine_is_asked(tmp_path, typed, words):
    arguments = [word for pair in typed for word in ("-e", pair)]
    _text, results = play(
        tmp_path, {"asked": task(verb="debt", typed=True, quiet=True)}, ROOT / "collections", *arguments
    )
    assert results["asked"]["failed"] and words in results["asked"]["msg"], results["asked"]
    assert not (tmp_path / "evidence").exists()

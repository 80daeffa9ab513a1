# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The role's way out when a second operator comes between the plan and the first call of a change, and after the confirmation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change import who
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book, now_utc
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

ROOT = Path(__file__).resolve().parents[3]
INSTANCE = {
    "name": "d",
    "role": "decode",
    "unit": "sglang-d",
    "serve_script": "/no/d.sh",
    "url": "http://127.0.0.1:1",
    "machine": "m",
    "manager": "supervisor",
    "load_timeout_s": 1.0,
    "drain_s": 1.0,
}


def lead(tmp_path: Path, state: Path, steps: str = "run.yml", **more: object) -> tuple[int, str]:
    """Run the steps of a change that a plan has decided; exit code and output."""
    plan = {"change_id": "two-2", "summary": "what bob wants", "edits": [], "restart": [], "scope": "co", "expect": {}}
    given = {
        "change_deployment": "lab",
        "change_verb": "restart",
        "change_instances": [{**INSTANCE, "state_dir": str(state)}],
        "change_plan": {"plan": plan, "began": time.time()},
        "pd_report_dir": str(tmp_path / "reports"),
        "pd_evidence_dir": str(tmp_path / "evidence"),
        "ansible_python_interpreter": sys.executable,
        **more,
    }
    role = {"name": "pdops.sglang.change", "tasks_from": steps}
    book = tmp_path / "book.yml"
    tasks = [{"ansible.builtin.include_role": role}]
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": given, "tasks": tasks}]))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "m,", "-c", "local", str(book)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_second_operator_is_refused_in_one_sentence_and_the_report_says_refused(tmp_path):
    book = Book(Store(str(tmp_path / "state")))
    record = rules.new_record(
        "one-1", "lab", "restore", "what alice does", who.this_process("alice"), [], [INSTANCE], 60, now_utc()
    )
    book.begin(record, None)
    code, said = lead(tmp_path, tmp_path / "state")
    assert code == 2
    last = said[said.rindex("TASK [") :]
    assert "is held by change one-1 (what alice does)" in last, said
    for lie in ("its steps:", "rolled back", "nothing had begun", "two-2.json"):
        assert lie not in last, said
    page = (tmp_path / "reports" / "lab" / "latest.html").read_text()
    assert "Why it was refused" in page and "Rolled back" not in page
    assert [item["state"] for item in book.all()] == ["open"]


def test_what_fails_after_the_confirmation_puts_nothing_back_and_says_that_the_change_serves(tmp_path):
    # No host has the name of the instance, so that its pd_pair_knobs cannot be looked up.
    both = [
        {**INSTANCE, "name": name, "role": name, "state_dir": str(tmp_path / "state")} for name in ("decode", "router")
    ]
    given = {"change_verb": "deploy", "change_seen": {"results": []}, "change_instances": both}
    code, said = lead(tmp_path, tmp_path / "state", **given)
    assert code == 2
    last = said[said.rindex("TASK [") :]
    assert "two-2 is confirmed and serves (what bob wants), and nothing was put back" in last, said
    assert "not written down is the values that are intended now" in last
    assert "Put the old state back" not in said and "ROLLBACK" not in said
    assert [item["state"] for item in Book(Store(str(tmp_path / "state"))).all()] == ["confirmed"]
    kept = [json.loads(path.read_text()) for path in (tmp_path / "evidence" / "lab").glob("*.json")]
    assert kept and all(entry["kind"] != "rollback" for entry in kept), kept
    page = (tmp_path / "reports" / "lab" / "latest.html").read_text()
    assert "Confirmed" in page and "ollback failed" not in page


def test_a_confirmation_whose_answer_was_lost_is_a_confirmation(tmp_path):
    book = Book(Store(str(tmp_path / "state")))
    book.begin(
        rules.new_record("two-2", "lab", "set", "it", who.this_process("bob"), [], [INSTANCE], 60, now_utc()), None
    )
    book.confirm("two-2", "it")
    lost = {"change_id": "two-2", "ansible_failed_result": {"msg": "m became unreachable"}}
    code, said = lead(tmp_path, tmp_path / "state", "rollback.yml", **lost)
    assert code == 0, said
    assert (
        "The change two-2 is confirmed on all machines, so nothing was put back; what failed is: m became"
        in " ".join(said.split())
    )
    assert [item["state"] for item in book.all()] == ["confirmed"]
    assert not (tmp_path / "evidence").exists() and not (tmp_path / "reports").exists()

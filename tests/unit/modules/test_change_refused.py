# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The role's way out when a second operator comes between the plan and the first call of a change."""

from __future__ import annotations

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


def lead(tmp_path: Path, state: Path) -> tuple[int, str]:
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
    }
    role = {"name": "pdops.sglang.change", "tasks_from": "run.yml"}
    book = tmp_path / "book.yml"
    tasks = [{"ansible.builtin.include_role": role}]
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "vars": given, "tasks": tasks}]))
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", "m,", "-c", "local", str(book)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
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

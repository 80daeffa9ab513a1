# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The same verb several times at once, as after a cut connection: the machine ends its first one while the next arrives."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils import knob_edit
from ansible_collections.pdops.sglang.plugins.module_utils.change import verbs, who
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store

AT_ONCE = 4
OLD = b"#!/bin/bash\nexport A=1\nexec true\n"


class Changing:
    def __init__(self, folder: Path) -> None:
        self.script = folder / "decode.sh"
        self.script.write_bytes(OLD)
        self.store = Store(str(folder / "state"))
        self.book = Book(self.store)
        path = str(self.script)
        plan = knob_edit.plan_edit(knob_edit.EditRequest(path, {"A": "2"}), self.store)
        edit: dict[str, Any] = {"instance": "d", "path": path, "knob": "A", "before": "1", "after": "2"}
        edit["request"] = {"path": path, "knobs": {"A": "2"}, "state": "present"}
        edit.update(sha256_before=plan.sha256_before, sha256_after=plan.sha256_after)
        self.new = plan.after
        instance = {"name": "d", "role": "decode", "unit": "d", "serve_script": path, "url": "http://127.0.0.1:1"}
        self.given: dict[str, Any] = {
            "state_dir": self.store.state_dir,
            "change_id": "one-1",
            "deployment": "lab",
            "intent": "set",
            "summary": "set A=2",
            "edits": [edit],
            "instances": [{**instance, "machine": "m", "manager": "supervisor"}],
            "leader": who.this_process("alice"),
            "take_over": None,
            "budget_s": 60.0,
            "slack_s": 15.0,
            "said": "done",
            "step": "renew",
            "ids": ["one-1"],
        }

    def at_once(self, verb: str) -> None:
        """Every one of them must succeed: the connection that is cut may be the one whose answer counts."""
        ready, go = os.pipe()
        children = []
        for _ in range(AT_ONCE):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    os.close(go)
                    os.read(ready, 1)
                    verbs.run({**self.given, "verb": verb}, check_mode=False)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(pid)
        os.close(ready)
        os.close(go)  # all of them read the end of the pipe, and begin
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert codes == [0] * AT_ONCE, f"{verb} did not succeed each time"

    def noted(self) -> Counter[str]:
        return Counter(str(row["verb"]) for row in self.store.journal())

    def guards(self) -> list[int]:
        found = subprocess.run(
            ["pgrep", "-f", f"guard --state-dir {self.store.state_dir} "], capture_output=True, text=True
        )
        return [int(pid) for pid in found.stdout.split()]

    def ended(self, state: str) -> None:
        deadline = time.monotonic() + 60
        while self.book.load("one-1")["state"] != state or self.guards():
            assert time.monotonic() < deadline, self.book.load("one-1")
            time.sleep(0.1)


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Changing]:
    made = Changing(tmp_path)
    yield made
    for pid in made.guards():
        os.kill(pid, 9)


def test_each_verb_at_once_has_one_effect(changing: Changing) -> None:
    changing.at_once("begin")
    assert len(changing.book.all()) == 1 and changing.noted()["begin"] == 1
    deadline = time.monotonic() + 60
    while len(changing.guards()) != 1:  # those that found the place taken end
        assert time.monotonic() < deadline, changing.guards()
        time.sleep(0.05)
    changing.at_once("apply")
    changing.at_once("renew")
    assert changing.script.read_bytes() == changing.new
    assert len(changing.store.versions(str(changing.script))) == 2
    assert changing.noted()["serve_knob"] == 1
    changing.at_once("confirm")
    changing.at_once("report")
    assert changing.noted()["confirm"] == 1
    changing.ended("confirmed")
    assert changing.script.read_bytes() == changing.new


def test_a_rollback_at_once_is_one_way_back(changing: Changing) -> None:
    changing.at_once("begin")
    changing.at_once("apply")
    changing.at_once("rollback")
    changing.ended("rolled-back")
    changing.at_once("rollback")
    assert changing.script.read_bytes() == OLD
    assert changing.noted()["rolling-back"] == 1 and changing.noted()["rolled-back"] == 1
    assert len(changing.store.versions(str(changing.script))) == 3

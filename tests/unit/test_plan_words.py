# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a plan says to a person: in an order that can be read, in the words that were typed, and with commands that can be copied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import PLAYBOOKS
from ansible_collections.pdops.sglang.plugins.module_utils.asked import limit_of, read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import decide

from tests.unit.offered import edit
from tests.unit.test_planning import OPEN, info, instances, plan

ROOT = Path(__file__).resolve().parents[2]


def sentences() -> Iterator[tuple[str, str]]:
    """All texts of the code but docstrings, those with values in them as one; and the lines of tasks."""
    for room in ("module_utils", "action_plugins", "filter_plugins", "library"):
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text())
            documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    parts = [str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values]
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(parts)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    for path in sorted([*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").rglob("*.yml")]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield f"{path.relative_to(ROOT)}:{number}", line


def test_a_playbook_that_is_told_with_its_variables_is_a_whole_command() -> None:
    named = re.compile(rf"(ansible-playbook )?\b({'|'.join(PLAYBOOKS)})\.yml -e ")
    found = [(where, match[1]) for where, text in sentences() for match in named.finditer(text)]
    assert len(found) > 20
    assert [where for where, whole in found if not whole] == []


def test_notes_come_behind_all_that_belongs_to_the_restart() -> None:
    warned = edit()
    warned["warnings"] = ["it is read at the first request only"]
    lines = plan_lines(plan("restore", info(decode={"edits": [warned]})), instances(), ["  expected outage: 7 s"])
    assert lines[-2:] == ["  expected outage: 7 s", "note: it is read at the first request only"]
    assert plan_lines(plan("restore", info()), instances(), ["  nothing restarts"])[-1] != "  nothing restarts"


def test_what_was_named_with_a_limit_is_told_as_that() -> None:
    for verb, given, told in (
        (
            "set",
            {"knob": "A", "value": "1", "role": "decode"},
            "role=decode and -l prefill have nothing in common; instances: ",
        ),
        ("restart", {"scope": "decode"}, "-l prefill is not in scope=decode"),
    ):
        with pytest.raises(PdopsError) as refused:
            asked = read_asked(verb, {**given, "instance": ["prefill"]}, instances(), "prefill")
            decide("lab", instances(), info(), asked)
        assert told in str(refused.value) and "instance=" not in str(refused.value)
    assert limit_of({"instance": "decode"}, {"ansible_limit": "prefill"}) == ""
    assert limit_of({}, {"ansible_limit": "prefill"}) == "prefill"


def test_an_open_change_that_no_guard_watches_is_told_as_such_with_the_command_that_ends_it() -> None:
    left = {**OPEN, "controller_gone": None, "free": True, "guard_alive": False, "lease_left_s": -500.0}
    back = "with ansible-playbook recover.yml -e finish=back"
    with pytest.raises(
        PdopsError, match=f"nobody leads it any more, .* No guard watches it, so nothing happens .* {back}"
    ):
        plan("restart", info(open_change=left))
    told = plan("verify", info(open_change=left)).found[0]
    assert "its lease is over, and NO GUARD watches it" in told and told.endswith(back)
    cut_short = {**left, "state": "rolling-back"}
    assert "cut short, and NO GUARD watches it" in plan("verify", info(open_change=cut_short)).found[0]

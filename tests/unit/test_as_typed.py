# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What to type next is told in the words by which the run itself was started."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import PLAYBOOKS, as_typed, result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.report.commands import play
from ansible_collections.pdops.sglang.plugins.module_utils.report.story import read_story

ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted([*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").rglob("*.yml")])
NAMED = re.compile(rf"\b({'|'.join(PLAYBOOKS)})\.yml\b")
#: Constants that name playbooks and are no sentences: documentation, the names themselves, and a mark in a file.
NO_SENTENCES = ("DOCUMENTATION", "EXAMPLES", "RETURN", "PLAYBOOKS", "BEGIN")
#: Variables and fields that hold a sentence of somebody else, which may name a playbook.
RELAYED = re.compile(r"\b(msg|said|lines|summary|change_failure|change_escalated|change_instances|kernels_failure)\b")
COLLECTION = ("pdops.sglang.restore_knob",)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("run ansible-playbook recover.yml -e finish=back", "run ansible-playbook pdops.sglang.recover -e finish=back"),
        ("see history.yml.", "see pdops.sglang.history."),
        ("(restart.yml, deploy_kernels.yml)", "(pdops.sglang.restart, pdops.sglang.deploy_kernels)"),
        (
            "/ops/restart.yml, my-restart.yml and restart.yml.bak",
            "/ops/restart.yml, my-restart.yml and restart.yml.bak",
        ),
        ("playbooks/verify.yml", "playbooks/verify.yml"),
    ],
)
def test_playbooks_are_named_as_the_operator_types_them(text: str, typed: str) -> None:
    assert as_typed(text, ("restore_knob.yml",)) == text
    assert as_typed(text, "lab-decode") == text  # the pattern of the command ansible
    assert as_typed(text, COLLECTION) == typed


def test_data_of_a_result_is_left_alone() -> None:
    result = {"msg": "see verify.yml", "said": "see verify.yml", "diff": "see verify.yml", "rc": 1}
    assert result_as_typed(result, COLLECTION) == {
        "msg": "see pdops.sglang.verify",
        "said": "see pdops.sglang.verify",
        "diff": "see verify.yml",
        "rc": 1,
    }


def test_the_commands_of_a_report_too() -> None:
    assert play(read_story({"deployment": "x", "collection": True}), "revert", knob="A") == (
        "ansible-playbook pdops.sglang.revert_knob -l x -e knob=A"
    )


def test_all_playbooks_are_known() -> None:
    there = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert there - {"lead"} == set(PLAYBOOKS)


def tasks_of(found: Any) -> Iterator[dict[str, Any]]:
    for each in found if isinstance(found, list) else []:
        yield each
        for name in ("tasks", "block", "rescue", "always"):
            yield from tasks_of(each.get(name))


def test_what_roles_and_playbooks_say_goes_through_the_filter() -> None:
    said = []
    for path in TASKS:
        for task in tasks_of(yaml.safe_load(path.read_text())):
            for action in ("ansible.builtin.fail", "ansible.builtin.debug"):
                text = (task.get(action) or {}).get("msg", "")
                if NAMED.search(text) or RELAYED.search(text):
                    said.append((f"{path.relative_to(ROOT)}: {task['name']}", "pdops.sglang.as_typed" in text))
    assert len(said) > 15
    assert [where for where, filtered in said if not filtered] == []


@cache
def reached(path: Path) -> frozenset[Path]:
    """A file and all of ours that its imports reach."""
    found, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                todo += imported(file, node)
    return frozenset(found)


def imported(file: Path, node: ast.ImportFrom) -> Iterator[Path]:
    module = node.module or ""
    if node.level:
        parts = ["library"] if file.parent.name == "library" else list(file.relative_to(ROOT).parent.parts)
        base = ROOT.joinpath(*parts[: len(parts) - node.level + 1], *module.split("."))
    elif module.startswith("ansible_collections.pdops.sglang.plugins."):
        room, *rest = module.split(".")[4:]
        base = ROOT.joinpath({"action": "action_plugins", "filter": "filter_plugins"}.get(room, room), *rest)
    else:
        return
    for place in (base, *(base / alias.name for alias in node.names)):
        if place.with_suffix(".py").is_file():
            yield place.with_suffix(".py")


@cache
def names_playbooks(path: Path) -> bool:
    """Whether a text of the file, other than its documentation, names one."""
    tree = ast.parse(path.read_text())
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    told |= {
        id(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in NO_SENTENCES
    }
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and NAMED.search(node.value)
        and id(node) not in told
        for node in ast.walk(tree)
    )


def test_a_module_that_can_name_a_playbook_has_an_action_that_names_it_as_typed() -> None:
    used = {
        action.removeprefix("pdops.sglang.")
        for path in TASKS
        for task in tasks_of(yaml.safe_load(path.read_text()))
        for action in task
        if action.startswith("pdops.sglang.")
    }
    assert len(used) > 12
    can = {
        name
        for name in used
        for room in ("library", "action_plugins")
        if (ROOT / room / f"{name}.py").is_file()
        if any(names_playbooks(file) for file in reached(ROOT / room / f"{name}.py"))
    }
    assert {"pd_worker", "pd_plan", "pd_change"} <= can
    words = ROOT / "module_utils" / "as_typed.py"
    without = {
        name
        for name in can
        if not (action := ROOT / "action_plugins" / f"{name}.py").is_file() or words not in reached(action)
    }
    assert without == set()

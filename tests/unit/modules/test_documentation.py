# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What ansible-test does not compare: the options of modules whose work an action does, and names of results that Ansible takes for its own."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted((ROOT / "library").glob("*.py"))
#: A result with one of these, and not empty, is shown and counted as skipped, failed or unreachable, or is filled in by Ansible.
ANSIBLES = {
    *("skipped", "failed", "unreachable", "changed", "results", "exception", "warnings", "deprecations", "invocation"),
    *("ansible_facts", "add_host", "add_group", "rc", "msg", "module_stdout", "module_stderr"),
}


def literal(path: Path, name: str) -> Any:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return yaml.safe_load(ast.literal_eval(node.value))
    raise AssertionError(f"{path} has no {name}")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_result_has_a_name_that_ansible_takes_for_its_own(path: Path) -> None:
    assert set(literal(path, "RETURN")) & ANSIBLES == set()


def spec_of_action(name: str) -> dict[str, Any] | None:
    """The argument_spec that the action checks itself, evaluated where it stands."""
    path = ROOT / "action_plugins" / f"{name}.py"
    if not path.exists():
        return None
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "validate_argument_spec":
            (given,) = (word.value for word in node.keywords if word.arg == "argument_spec")
            module = importlib.import_module(f"ansible_collections.pdops.sglang.plugins.action.{name}")
            return eval(ast.unparse(given), vars(module))
    return None


@pytest.mark.parametrize(
    "name", [path.stem for path in MODULES if "import AnsibleModule" not in path.read_text()] or ["none was found"]
)
def test_options_that_an_action_checks_are_documented_as_they_are(name: str) -> None:
    spec = spec_of_action(name)
    assert spec, f"neither module nor action of {name} checks its options"
    told = literal(ROOT / "library" / f"{name}.py", "DOCUMENTATION").get("options", {})
    assert set(told) == set(spec)
    for option, about in spec.items():
        for word in ("type", "elements", "default", "required"):
            assert told[option].get(word) == about.get(word), (option, word)
        assert list(told[option].get("choices", [])) == list(about.get("choices", [])), option

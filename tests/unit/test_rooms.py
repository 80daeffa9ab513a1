# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_no_module_util_has_the_name_of_one_of_ansibles() -> None:
    """A folder module_utils beside a playbook is on Ansible's search path, so a file of the same name would replace Ansible's own."""
    theirs = {path.stem for path in Path(ansible.module_utils.__path__[0]).iterdir()} - {"__init__", "__pycache__"}
    ours = {path.stem for path in (ROOT / "module_utils").iterdir()} - {"__init__", "__pycache__"}
    assert not ours & theirs


def test_module_utils_know_neither_ansible_nor_anything_beyond_the_standard_library() -> None:
    allowed = set(sys.stdlib_module_names)
    for path in sorted((ROOT / "module_utils").rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.strip().split()
            if words[:1] == ["import"]:
                assert words[1].split(".")[0].rstrip(",") in allowed, f"{path}: {line}"
            elif words[:1] == ["from"] and "import" in words and not words[1].startswith("."):
                assert words[1].split(".")[0] in allowed, f"{path}: {line}"


def test_module_utils_import_on_the_oldest_python_of_managed_machines() -> None:
    found = [*sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python")), Path("/usr/bin/python3.9")]
    old = next((path for path in found if path.exists()), None)
    if old is None:
        pytest.skip("no Python 3.9 is installed here")
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "module_utils").rglob("*.py"))
        if path.name != "__init__.py"
    ]
    program = "import importlib\n" + "".join(f"importlib.import_module({name!r})\n" for name in names)
    done = subprocess.run([old, "-B", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def loops(tasks: Any) -> Iterator[str]:
    for task in tasks if isinstance(tasks, list) else []:
        yield from (str(task[name]) for name in ("loop", "with_items") if name in task)
        for name in ("block", "rescue", "always"):
            yield from loops(task.get(name))


def test_no_loop_of_a_role_goes_over_a_set_which_has_no_order() -> None:
    """Ansible's union, intersect and difference give the same machines in another order at each run, and the order is the point."""
    found = {
        path: list(loops(yaml.safe_load(path.read_text()))) for path in sorted((ROOT / "roles").glob("*/tasks/*.yml"))
    }
    assert sum(map(len, found.values())) > 20
    wrong = [
        f"{path.relative_to(ROOT)}: {loop}"
        for path, each in found.items()
        for loop in each
        if re.search(r"\b(union|intersect|difference|symmetric_difference)\(", loop)
    ]
    assert wrong == []


def test_every_verb_can_be_typed_in_the_root_and_is_linted_there() -> None:
    verbs = {path.name for path in (ROOT / "playbooks").glob("*.yml")} - {"lead.yml"}
    assert len(verbs) > 12
    shims = {path.name: yaml.safe_load(path.read_text()) for path in ROOT.glob("*.yml") if path.name != "galaxy.yml"}
    assert set(shims) == verbs
    for name, (play,) in shims.items():
        assert play["ansible.builtin.import_playbook"] == f"playbooks/{name}" and play["name"]
    (pattern,) = (
        kind["playbook"] for kind in yaml.safe_load((ROOT / ".ansible-lint").read_text())["kinds"] if "playbook" in kind
    )
    assert {f"{verb}.yml" for verb in pattern.removesuffix(".yml").strip("{}").split(",")} == verbs
    readme = (ROOT / "README.md").read_text()
    assert [name for name in sorted(verbs) if f"`ansible-playbook {name}" not in readme] == []


def test_leases_are_renewed_in_one_place() -> None:
    """What a renewal tells a guard (its step, what it touches) has to be the same for all of them."""
    renewing = [
        path.name
        for path in sorted((ROOT / "roles" / "change" / "tasks").glob("*.yml"))
        if re.search(r"^ +verb: renew$", path.read_text(), re.MULTILINE)
    ]
    assert renewing == ["lease.yml"]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A machine that is not reached ends a run with a sentence: Ansible's own end of it says nothing, and runs no rescue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "roles").glob("*/tasks/*.yml"))
#: Their action plugins wait for a lost connection, and make a failure of one that stays away.
PATIENT = {f"pdops.sglang.{name}" for name in ("pd_gate", "pd_instance", "pd_probe", "pd_worker")}
#: So does that of a change, of the verbs after which it cannot go on.
PATIENT_VERBS = {"begin", "renew", "apply", "confirm"}


def tasks_of(items: Any) -> Iterator[dict[str, Any]]:
    for item in items or []:
        yield item
        for part in ("block", "rescue", "always"):
            yield from tasks_of(item.get(part))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_a_task_on_a_machine_waits_for_the_sentence_about_it(path: Path) -> None:
    delegated = [
        task
        for task in tasks_of(yaml.safe_load(path.read_text()))
        if "delegate_to" in task
        and not PATIENT & set(task)
        and task.get("pdops.sglang.pd_change", {}).get("verb") not in PATIENT_VERBS
    ]
    assert [task["name"] for task in delegated if not task.get("ignore_unreachable")] == []


def test_what_is_given_to_a_task_is_nowhere_registered_too() -> None:
    """What was registered once wins over the variables of a later task, which would then look at an older answer."""
    given: dict[str, str] = {}
    registered: set[str] = set()
    for path in FILES:
        for task in tasks_of(yaml.safe_load(path.read_text())):
            given.update(dict.fromkeys(task.get("vars", {}), f"{path.parents[1].name}/{path.name}: {task['name']}"))
            registered |= {task["register"]} if "register" in task else set()
            registered |= set(task.get("ansible.builtin.set_fact", {}))
    assert len(registered) > 20 and len(given) > 20
    assert {name: where for name, where in given.items() if name in registered} == {}

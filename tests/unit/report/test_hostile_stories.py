# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Whatever a story holds, its report fails no task: the change that it tells of has ended already."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.action import pd_report

GOOD = json.loads((Path(__file__).parent / "stories" / "confirmed.json").read_text())


def nested(depth: int) -> Any:
    found: Any = "x"
    for _ in range(depth):
        found = {"inner": [found]}
    return found


HOSTILE: dict[str, Any] = {
    "a number of 400 digits as a moment": {**GOOD, "began": 10**400},
    "a number of 400 digits in an event": {**GOOD, "events": [{**GOOD["events"][0], "began": 10**400, "ended": 1e308}]},
    "a number of 5000 digits": {**GOOD, "ended": 10**5000},
    "an outcome that is no text": {**GOOD, "outcome": ["confirmed"]},
    "names that are no texts": {**GOOD, "deployment": {"a": 1}, "verb": [1], "change_id": {"b": []}},
    "keys that are no texts": {**GOOD, "plan": {("a", 1): 2}},
    "what cannot be JSON": {**GOOD, "plan": {"summary": {1, 2}, "edits": [object()]}},
    "an endless nesting": {**GOOD, "plan": nested(5000)},
    "a deep nesting": {**GOOD, "plan": {**GOOD["plan"], "edits": [nested(300)]}},
    "infinities": {**GOOD, "began": float("inf"), "ended": float("nan")},
    "parts that are none": {"plan": 7, "events": "x", "instances": [None, 3, [[]]], "began": [], "outcome": None},
    "lone surrogates": {**GOOD, "said": "\ud800", "deployment": "\udcff"},
    "a folder name of 5000 signs": {**GOOD, "deployment": "x" * 5000},
    "escapes": {**GOOD, "said": "\x1b[31mred\x07", "deployment": "lab\x1b[2J"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_report_fails_no_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pd_report.display, "display", lambda text, **_more: printed.append(text))
    monkeypatch.setattr(pd_report.display, "warning", lambda text, **_more: printed.append(text))
    monkeypatch.setattr(pd_report.ActionBase, "run", lambda *_a, **_k: {})
    task = SimpleNamespace(args={}, check_mode=False, async_val=0)
    plugin = pd_report.ActionModule(task, SimpleNamespace(_shell=None), None, None, None, None)
    given = {"story": HOSTILE[name], "folder": None, "quiet": False}
    monkeypatch.setattr(plugin, "validate_argument_spec", lambda **_k: (None, given))
    result = plugin.run(task_vars={})
    assert not result.get("failed") and result["changed"] is False
    # Either there is a page, or a warning says in one line why there is none.
    assert bool(result["path"]) != bool(result["warning"]), result
    if result["path"]:
        assert Path(result["path"]).read_text().startswith("<!DOCTYPE html>")
    else:
        assert result["warning"].startswith("no report was written: ") and len(result["warning"]) < 400
        assert result["warning"] in printed
    assert "\x1b" not in "".join(printed)

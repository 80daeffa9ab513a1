# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A password within the value of a knob with an ordinary name stays on its machine and out of what is printed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils import observe
from ansible_collections.pdops.sglang.plugins.module_utils.asked import read_asked
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.gates import effective
from ansible_collections.pdops.sglang.plugins.module_utils.gates.evidence import Finding
from ansible_collections.pdops.sglang.plugins.module_utils.plan_text import plan_lines
from ansible_collections.pdops.sglang.plugins.module_utils.planning import decide
from ansible_collections.pdops.sglang.plugins.module_utils.secret_masking import mask_value

KNOB = "SGLANG_REMOTE_URL"
WORD = "p4ss" + "w0rdX"
NEW, OLD = f"redis://:{WORD}@h:1", "redis://:0therW0rd@h:1"
SHOWN = "redis://:********@h:1"


@pytest.fixture
def instance(tmp_path, monkeypatch):
    script = tmp_path / "decode.sh"
    script.write_text(f"#!/bin/bash\nexport {KNOB}={NEW}\nexec python3 -m sglang.launch_server\n")
    status = SimpleNamespace(pid=7, started_ticks=1, since_s=5.0, state="active", main=None)
    monkeypatch.setattr(observe, "manager_for", lambda *_: SimpleNamespace(status=lambda _unit: status))
    seen = {"state": "set", "value": OLD, "evidence": "scheduler 8"}
    monkeypatch.setattr(observe, "observe_knobs", lambda *given: dict.fromkeys(given[4], seen))
    return Instance("decode", "decode", "u", str(script), "http://127.0.0.1:1", "m")


def looked(instance, tmp_path, verb, **given):
    asked = read_asked(verb, given, [instance])
    info = json.loads(json.dumps(observe.observe([instance], asked, str(tmp_path / "state"))))
    return asked, info


@pytest.mark.parametrize("verb", ["verify", "restart"])
def test_what_a_machine_tells_and_what_a_plan_prints_have_no_password(instance, tmp_path, verb):
    asked, info = looked(instance, tmp_path, verb)
    report = info["instances"]["decode"]
    assert report["intended"] == {KNOB: SHOWN}
    assert [row["knob"] for row in report["stale"]] == [KNOB], "compared as they are, so the other password is seen"
    plan = decide("lab", [instance], [info], asked)
    told = json.dumps([info, plan.as_dict(), plan_lines(plan, [instance])])
    assert SHOWN in told and WORD not in told and "0therW0rd" not in told


def test_an_edit_that_restores_takes_the_value_from_its_source_and_not_from_the_controller(instance, tmp_path):
    script = tmp_path / "decode.sh"
    (tmp_path / "decode.sh.bak").write_bytes(script.read_bytes())
    script.write_text("#!/bin/bash\nexec python3 -m sglang.launch_server\n")
    asked, info = looked(instance, tmp_path, "restore", knob=KNOB)
    (edit,) = info["instances"]["decode"]["edits"]
    assert edit["after"] == SHOWN and edit["request"]["knobs"] == {KNOB: None}
    assert edit["request"]["from_backup"] and not edit["refused"]
    plan = decide("lab", [instance], [info], asked)
    assert plan.expect == {"decode": {KNOB: SHOWN}}
    assert WORD not in json.dumps([info, plan.as_dict()])


@pytest.mark.parametrize(("running", "result"), [(NEW, "passed"), (OLD, "failed")])
def test_a_masked_expectation_is_what_the_script_has(tmp_path, running, result):
    script = tmp_path / "decode.sh"
    script.write_text(f"export {KNOB}={NEW}\n")
    wanted = effective._unmasked({KNOB: SHOWN}, str(script))
    verdict = effective.judge(wanted, {KNOB: Finding(KNOB, "set", running, "scheduler 8")}, True, {})
    assert verdict.result == result
    assert WORD not in str(verdict) and "0therW0rd" not in str(verdict)


def test_without_the_script_the_rest_of_a_masked_expectation_is_compared():
    for running, result in ((NEW, "passed"), ("redis://:x9x9x9@other:1", "failed")):
        verdict = effective.judge({KNOB: SHOWN}, {KNOB: Finding(KNOB, "set", running, "s")}, True, {})
        assert verdict.result == result


def test_values_without_a_secret_stay():
    for value in ("512", "http://h:1/x", "/models/a:b", None):
        assert mask_value(KNOB, value) == value
    assert mask_value("HF_TOKEN", "x") == "********"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate effective on the real pair, in the story's state: the knob is not in effect, and by what that is known.

The expectation that matters: a name that is missing in a damaged environ is never called "not set".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates.evidence import find, look_at
from ansible_collections.pdops.sglang.plugins.module_utils.processes import ProcessId, process_table, read_environ

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
ENGINES = ["lab-prefill", "lab-decode"]


@pytest.mark.parametrize("name", ENGINES)
def test_sglang_overwrites_the_environ_of_its_scheduler(lab, name):
    """The premise of this file. Should a newer SGLang not do so any more, this says it."""
    scheduler = lab.scheduler(name)
    data = Path(f"/proc/{scheduler}/environ").read_bytes()
    assert data and b"SGLANG_EXPOSE_OWN_ENV_VARS" not in data
    environ = read_environ(scheduler)
    assert (environ.whole, environ.why, environ.values) == (False, "overwritten", {})
    assert read_environ(lab.status(name).pid).values["SGLANG_EXPOSE_OWN_ENV_VARS"] == "1"


@pytest.mark.parametrize("name", ENGINES)
def test_all_gates_pass_by_evidence_that_is_not_the_scheduler(lab, name):
    gates = ("unit", "port", "health", *(("rendezvous",) if name == "lab-prefill" else ()), "effective")
    result = lab.gate(name, *gates)
    assert (result.gate, result.result) == ("effective", "passed"), result.said
    knobs = result.evidence["knobs"]
    assert knobs["SGLANG_EXPOSE_OWN_ENV_VARS"]["value"] == "1"
    assert len(knobs) > 10, "what the serve script exports"
    for found in knobs.values():
        assert found["state"] == "set"
        assert "scheduler" not in found["evidence"], "its environ is overwritten"
        assert str(lab.scheduler(name)) not in found["evidence"].split()
    assert result.evidence["processes"]["scheduler_pids"] == [lab.scheduler(name)]


def test_a_knob_that_is_not_in_effect_fails_and_says_by_what(lab):
    result = lab.gate("lab-decode", "effective", expect={KNOB: "512"})
    assert result.result == "failed", result.said
    found = result.evidence["knobs"][KNOB]
    assert found["state"] == "absent" and found["value"] is None
    assert "main process" in found["evidence"] or "helper" in found["evidence"]


def test_a_name_missing_in_a_damaged_environ_is_unknown(lab):
    """Nothing but the scheduler to look at: then nothing is known, neither of this name nor of one that is set."""
    scheduler = process_table()[lab.scheduler("lab-decode")]
    sources = look_at([scheduler.pid], ProcessId(scheduler.pid, scheduler.started_ticks), engine=False)
    for name in (KNOB, "SGLANG_EXPOSE_OWN_ENV_VARS"):
        finding = find(name, sources, None, "/server_info was not asked")
        assert (finding.state, finding.value) == ("unknown", None)
        assert "overwritten" in finding.evidence
    # Nor does /server_info prove that a name is not set: it holds what SGLang registers, and this knob is a fork's.
    assert find(KNOB, sources, [{"SGLANG_EXPOSE_OWN_ENV_VARS": "1"}], "").state == "unknown"
    assert find("SGLANG_EXPOSE_OWN_ENV_VARS", sources, [{"SGLANG_EXPOSE_OWN_ENV_VARS": "1"}], "").state == "set"


@pytest.mark.parametrize("expected", ["info", None])
def test_the_routers_knobs_cannot_be_seen(lab, expected):
    """The real router is one process, and writes over its environ as well; "not set" is not proved either."""
    result = lab.gate("lab-router", "effective", expect={"RUST_LOG": expected})
    assert read_environ(lab.status("lab-router").pid).why == "overwritten"
    assert result.gate == "effective"
    assert result.result == "not-observable", result.said
    assert result.evidence["knobs"]["RUST_LOG"]["state"] == "unknown"


def test_what_the_engine_shows_of_itself_agrees(lab):
    """env_vars of /server_info (38 KB) is read whole, and holds what SGLang registers."""
    from ansible_collections.pdops.sglang.plugins.module_utils.gates.evidence import own_env_vars

    env_vars, why = own_env_vars(lab.data["instances"]["lab-decode"]["url"], None, 10.0)
    assert env_vars is not None, why
    assert [one["SGLANG_SM120_FLASHMLA_BACKEND"] for one in env_vars] == ["triton"]
    assert all(KNOB not in one for one in env_vars)


def test_the_module_says_the_same(lab):
    one = lab.data["instances"]["lab-decode"]
    arguments = {
        "name": "lab-decode",
        "role": "decode",
        "unit": one["unit"],
        "manager": "supervisor",
        "supervisor_config": lab.data["supervisor_config"],
        "url": one["url"],
        "gates": ["unit", "effective"],
        "required": ["effective"],
        "expectations": {"SGLANG_SM120_FLASHMLA_BACKEND": "triton", KNOB: None},
        "timeout_s": 30,
    }
    command = ["ansible", "localhost", "-c", "local", "-m", "pdops.sglang.pd_gate", "-a", json.dumps(arguments)]
    done = subprocess.run(
        [
            f"{Path(sys.executable).parent}/{command[0]}",
            *command[1:],
            "-e",
            f"ansible_python_interpreter={sys.executable}",
        ],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PDOPS_LAB_DIR": lab.data["dir"], "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SGLANG_SM120_FLASHMLA_BACKEND=triton" in done.stdout
    assert f"{KNOB} is not set" in done.stdout


def test_a_name_that_the_engine_sets_itself_is_not_set_by_the_script(lab):
    """Or a knob that was taken out of the script would fail its gate: NCCL_NVLS_ENABLE is 0 without any export."""
    name = "NCCL_NVLS_ENABLE"
    assert name not in read_environ(lab.status("lab-decode").pid).values
    result = lab.gate("lab-decode", "effective", expect={name: None})
    assert result.result == "passed", result.said

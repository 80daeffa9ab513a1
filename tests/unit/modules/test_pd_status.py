# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The module pd_status in process, and what its action plugin refuses before a machine is asked."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getsource
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from ansible_collections.pdops.sglang.plugins.action.pd_status import _check
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.modules import pd_status

from .in_process import answer_of

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
SECRET = "hf_exampleexampleexample"
WITH_INVOCATION = {"_ansible_inject_invocation": True} if "_ansible_inject_invocation" in getsource(basic) else {}

Module = Callable[..., "tuple[int, dict[str, Any]]"]


@pytest.fixture
def instances(tmp_path: Path) -> list[dict[str, Any]]:
    """On a supervisord that is down: the unit is not known, its files are."""
    script = tmp_path / "serve.sh"
    script.write_text(
        f"#!/bin/bash\nexport {KNOB}=${{{KNOB}:-256}}\nexport HF_TOKEN={SECRET}\nexport SGLANG_LOG_MS=1 # {SECRET}\n"
        "exec python3 -m sglang.launch_server\n"
    )
    config = tmp_path / "supervisord.conf"
    config.write_text(
        f"[unix_http_server]\nfile={tmp_path}/s\n[supervisord]\n[program:decode]\nenvironment={KNOB}=512,A_TOKEN={SECRET}\n"
        f"command=bash /srv/other.sh --api-key {SECRET}x\n"
    )
    made = Instance(
        "d1", "decode", "decode", str(script), "http://127.0.0.1:9", "m", "supervisor", str(config)
    ).as_dict()
    return [made, {**made, "name": "p1", "role": "prefill", "unit": "prefill", "serve_script": str(tmp_path / "none")}]


@pytest.fixture
def module(instances: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Module:
    def run(**given: Any) -> tuple[int, dict[str, Any]]:
        arguments = {
            "instances": instances,
            "state_dir": str(tmp_path / "state"),
            "_ansible_check_mode": True,
            "_ansible_remote_tmp": str(tmp_path),
            **WITH_INVOCATION,
            **given,
        }
        code, answer, text = answer_of(pd_status.main, arguments, capsys)
        assert SECRET not in text
        return code, answer

    return run


def test_a_unit_that_cannot_be_asked_does_not_hide_the_script(module: Module, tmp_path: Path) -> None:
    code, answer = module()
    assert (code, answer["changed"]) == (0, False)
    report = answer["instances"]["d1"]
    assert report["unit"]["state"] == "unknown"
    assert "does not run" in report["unit"]["detail"]
    assert not report["environment"]["complete"]
    knobs = {knob["name"]: knob for knob in report["knobs"]}
    assert set(knobs) == {KNOB, "HF_TOKEN", "SGLANG_LOG_MS", "A_TOKEN"}
    assert (knobs[KNOB]["value"], knobs[KNOB]["decided"]) == ("512", "script")
    assert [(place["kind"], place["line"], place["value"]) for place in knobs[KNOB]["places"]] == [
        ("program", 5, "512"),
        ("script", 2, "512"),
    ]
    assert knobs["HF_TOKEN"]["value"] == knobs["A_TOKEN"]["value"] == "********"
    (note,) = report["environment"]["notes"]
    assert "does not run" in note and "bash /srv/other.sh --api-key ********; check pd_serve_script" in note
    assert {knob["running"]["state"] for knob in report["knobs"]} == {"unknown"}
    assert "does not exist" in answer["instances"]["p1"]["script"]["error"]
    assert any(line.startswith("p1 (prefill): the state of prefill is not known: ") for line in answer["lines"])
    assert not (tmp_path / "state").exists()


def test_one_instance_and_one_knob(module: Module) -> None:
    _code, answer = module(role="decode", knob="SGLANG_LOG_M")
    assert set(answer["instances"]) == {"d1"}
    (knob,) = answer["instances"]["d1"]["knobs"]
    remarks = {remark["code"]: remark["said"] for remark in knob["remarks"]}
    assert remarks["unknown"] == "nothing that can be read sets it or ever did; did you mean SGLANG_LOG_MS?"
    assert (knob["value"], knob["decided"]) == (None, "run")


def test_the_argument_spec_is_documented() -> None:
    documented = set(yaml.safe_load(pd_status.DOCUMENTATION)["options"])
    assert documented == {"knob", "instance", "role"}  # the others are shared; sanity compares them too
    assert {"instances", "open_change", "lines"} == set(yaml.safe_load(pd_status.RETURN))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"knob": f"{KNOB}=1"}, f"status sets nothing; type -e knob={KNOB} to see it"),
        ({"knob": "1A"}, "'1A' cannot be the name of a knob"),
        ({"value": "1"}, "status takes no value=; it takes knob=, instance= and role="),
        ({"take_over": "x"}, "status takes no take_over="),
        ({"knbo": "X"}, "did you mean knob="),
        ({"instance": "d"}, "instance=d is unknown here; it must be one of d1, p1"),
        ({"role": "decoder"}, "role=decoder is unknown"),
        ({"role": "router"}, "no instance has role=router; instances: d1 (decode), p1 (prefill)."),
    ],
)
def test_wrong_input_is_refused_with_what_to_type(
    instances: list[dict[str, Any]], given: dict[str, str], words: str
) -> None:
    args = {name: value for name, value in given.items() if name in ("knob", "instance", "role")}
    with pytest.raises(PdopsError) as caught:
        _check({**args, "instances": instances}, dict(given))
    assert words in str(caught.value)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Wrong input is one clear sentence before anything is touched.

One case for each way that input takes, since each is a playbook run; the sentences are proved in tests/unit
(test_planning.py, test_scoping.py, test_deployment.py).
"""

from __future__ import annotations

import re

import pytest

from .conftest import KNOB, Lab

pytestmark = pytest.mark.lab

SECRET = "hf_neverShownAnywhere"


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.story()
    return module_lab


@pytest.mark.parametrize(
    ("playbook", "given", "words"),
    [
        (
            "restore_knob.yml",
            ["-e", "instance=lab-decod"],
            "instance=lab-decod is unknown here; it must be one of lab-prefill, lab-decode, lab-router",
        ),
        (
            "restore_knob.yml",
            ["-e", "from=nosuch"],
            "from=nosuch is no version and no backup of a script; there are: backup",
        ),
        ("restore_knob.yml", ["-e", "pd_service_manager=systemd"], "this machine does not run systemd"),
        ("restore_knob.yml", ["-e", "take_over=nosuch-1"], "no such change is open here"),
        (
            "restore_knob.yml",
            ["-e", "pd_url=127.0.0.1:1"],
            "lab-prefill: pd_url is '127.0.0.1:1'; it must look like http://",
        ),
        ("restart.yml", ["-e", "scpoe=router"], "did you mean scope="),
        (
            "restart.yml",
            ["-l", "lab,lbb"],
            "-l lbb: the inventory has no such deployment, instance or group; its deployments are lab",
        ),
        ("set_knob.yml", ["-e", f"knob={KNOB}", "-e", "value=7 68"], "give it as JSON"),
        ("set_knob.yml", ["-e", f"knob={KNOB}", "-e", "value={{1+1}}"], "-e value= holds a template"),
        ("set_knob.yml", ["-e", f"knob={KNOB}", "-e", "value="], "-e value= has no value"),
        ("set_knob.yml", ["-e", "knob=HF_TOKEN", "-e", f"value={SECRET}"], "HF_TOKEN looks like a secret"),
        (
            "restore_knob.yml",
            ["-e", "docs=nosuch"],
            "docs=nosuch does not exist; name a Markdown file or a folder of them",
        ),
        ("verify.yml", ["-e", "role=decode"], "verify takes no role=; it proves the whole deployment"),
        ("register_worker.yml", ["-e", "role=decode"], "register_worker takes no role=; it registers all engines"),
        ("probe.yml", ["-e", "hop=routre"], "hop=routre is unknown; it must be one or more of proxy, router, pair"),
    ],
)
def test_refused(lab: Lab, playbook: str, given: list[str], words: str) -> None:
    before, pids = lab.script.read_bytes(), lab.pids()
    ran = lab.play(playbook, *given, "-vvv")
    assert ran.rc == 2, ran.text
    # Long messages are wrapped by the callback, and quotes inside of quotes are doubled.
    assert words in re.sub("''", "'", ran.words), ran.text
    assert SECRET not in ran.text
    assert lab.script.read_bytes() == before and lab.pids() == pids and not lab.changes()


def test_a_limit_that_hits_no_deployment_fails(lab: Lab) -> None:
    ran = lab.play("restore_knob.yml", "-l", "nosuch")
    assert ran.rc != 0 and "Could not match supplied host pattern, ignoring: nosuch" in ran.words  # Ansible's own words


def test_without_a_lab_the_message_says_how_to_start_one(lab: Lab) -> None:
    elsewhere = Lab(lab.dir / "nothing-here")
    ran = elsewhere.play("restore_knob.yml")
    assert ran.rc == 2
    assert "no lab is up in" in ran.words and "make demo" in ran.words


def test_a_script_that_is_gone_is_named(lab: Lab) -> None:
    text = lab.script.read_bytes()
    lab.script.unlink()
    try:
        ran = lab.play("restore_knob.yml")
        assert ran.rc == 2
        assert "lab-decode: " in ran.words and lab.script.name in ran.words
        assert "does not exist" in ran.words
    finally:
        lab.script.write_bytes(text)
        lab.script.chmod(0o755)


def test_a_state_folder_that_others_may_read_is_refused_before_any_effect(lab: Lab) -> None:
    state = lab.dir / "state"
    before, mode = lab.script.read_bytes(), state.stat().st_mode
    state.chmod(0o755)
    try:
        ran = lab.play("restore_knob.yml")
        assert ran.rc == 2
        assert "is open to others (mode 0755)" in ran.words
        assert lab.script.read_bytes() == before
    finally:
        state.chmod(mode)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What to type next is told in the words by which the run itself was started."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import PLAYBOOKS, as_typed, result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.report.commands import play
from ansible_collections.pdops.sglang.plugins.module_utils.report.story import read_story

ROOT = Path(__file__).resolve().parents[2]
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

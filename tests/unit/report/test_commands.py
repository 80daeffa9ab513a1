# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Commands that a person copies must mean what the page says: read back by a shell's rules, then by Ansible's."""

from __future__ import annotations

import json
import shlex

import pytest
from ansible.parsing.splitter import parse_kv
from ansible_collections.pdops.sglang.plugins.module_utils.report.commands import again, next_commands, play, way_back
from ansible_collections.pdops.sglang.plugins.module_utils.report.story import read_story
from ansible_collections.pdops.sglang.plugins.module_utils.report.view import console_lines, make_view
from ansible_collections.pdops.sglang.plugins.module_utils.story_events import events_of


def told(verb="set", outcome="confirmed", **edit):
    edits = [{"instance": "x-decode", "knob": "SGLANG_X", "before": "1", "after": "2", **edit}]
    return read_story({"deployment": "x", "verb": verb, "outcome": outcome, "plan": {"edits": edits}})


def read_back(command):
    words = shlex.split(command)
    assert words[0] == "ansible-playbook"
    found = {}
    for name, value in zip(words, words[1:]):
        if name == "-e":
            found.update(json.loads(value) if value.startswith("{") else parse_kv(value))
    return words[1], found


@pytest.mark.parametrize(
    "value", ["512", "a b", 'say "x"', "it's", "back\\slash", "{a}", "a=b", "ä", "$HOME `id`", "x;rm -rf", "a'b\"c"]
)
def test_a_value_survives_the_shell_and_ansible(value):
    playbook, found = read_back(again(told(after=value)))
    assert playbook == "set_knob.yml"
    assert found == {"knob": "SGLANG_X", "value": value, "instance": "x-decode"}


def test_the_way_back_is_there_only_for_what_holds():
    story = told()
    assert (
        way_back(story, story.plan["edits"][0])
        == "ansible-playbook revert_knob.yml -l x -e knob=SGLANG_X -e instance=x-decode -e reason=WHY"
    )
    plan = {"edits": story.plan["edits"]}
    for verb in ("revert", "rollback"):
        undone = read_story({"deployment": "x", "verb": verb, "outcome": "confirmed", "change_id": "c-1", "plan": plan})
        assert way_back(undone, plan["edits"][0]) == "ansible-playbook rollback.yml -l x -e change=c-1"
        assert [row["why"] for row in next_commands(undone)][1:2] == [f"Undo this {verb}"]
    story = told(outcome="rolled-back")
    assert way_back(story, story.plan["edits"][0]) is None


def test_a_secret_and_an_unset_knob():
    assert again(told(knob="HF_TOKEN", after="x")) is None
    assert read_back(again(told(after=None)))[1]["state"] == "absent"


def test_what_the_operator_typed_wins():
    assert (
        again(read_story({"verb": "restore", "command": "ansible-playbook restore_knob.yml -l x"}))
        == "ansible-playbook restore_knob.yml -l x"
    )
    assert play(read_story({}), "verify") == "ansible-playbook verify.yml"


@pytest.mark.parametrize(
    ("outcome", "playbooks"),
    [
        ("confirmed", ["verify.yml", "revert_knob.yml"]),
        ("check", ["set_knob.yml"]),
        ("rolled-back", ["verify.yml", "set_knob.yml"]),
        ("rollback-failed", ["verify.yml", "restart.yml"]),
        ("failed", ["verify.yml", "set_knob.yml"]),
        ("refused", ["verify.yml"]),
        ("nothing", ["verify.yml"]),
    ],
)
def test_what_to_type_next(outcome, playbooks):
    assert [read_back(item["command"])[0] for item in next_commands(told(outcome=outcome))] == playbooks


def test_kernels_go_back_as_a_change() -> None:
    plan = {"edits": [{"instance": "decode", "knob": "", "path": "/s"}]}
    story = read_story(
        {"verb": "kernels", "deployment": "dsv4", "outcome": "confirmed", "change_id": "x-kernels-1", "plan": plan}
    )
    assert [item["command"] for item in next_commands(story)] == [
        "ansible-playbook verify.yml -l dsv4",
        "ansible-playbook rollback.yml -l dsv4 -e change=x-kernels-1",
    ]
    assert again(story) == "ansible-playbook deploy_kernels.yml -l dsv4"


@pytest.mark.parametrize("verb", ["revert", "recover", "restore", "restart"])
def test_what_an_interrupted_run_had_written_is_undone_as_a_whole(verb) -> None:
    """Carried through, it has no edit in the plan of the run that finished it."""
    change = {"files": [{"path": "/s"}]}
    events = events_of([{"kind": "begin", "began": 1.0, "change": change}])
    given = {"verb": verb, "deployment": "x", "outcome": "confirmed", "change_id": "c-2"}
    plan = {"edits": [], "take_over": "c-1"}
    told = {**given, "plan": plan, "events": events}
    story = read_story(told)
    undo = "ansible-playbook rollback.yml -l x -e change=c-2"
    assert [item["command"] for item in next_commands(story)] == ["ansible-playbook verify.yml -l x", undo]
    assert f"  undo this, with what it took over: {undo}" in console_lines(make_view(told))
    nothing_written = read_story({**given, "plan": plan, "events": events_of([{"kind": "begin", "began": 1.0}])})
    assert len(next_commands(nothing_written)) == 1

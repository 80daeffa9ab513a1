# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The action plugin of a change on a connection that drops: each verb has one effect however often it comes, so it is said again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.pdops.sglang.plugins.action import pd_change
from ansible_collections.pdops.sglang.plugins.module_utils.story_events import events_of

DROPPED = AnsibleConnectionFailure("Data could not be sent to remote host")


def record(state, *steps):
    return {"changed": True, "change": {"id": "c", "state": state, "reason": "why"}, "steps": list(steps)}


@pytest.fixture
def run(monkeypatch):
    printed = []
    monkeypatch.setattr(pd_change.display, "display", lambda text, **_more: printed.append(text))
    monkeypatch.setattr(pd_change, "_POLL_S", 0.01)
    monkeypatch.setattr(pd_change.OneModule, "run", lambda *_a, **_k: {})

    def go(verb, *answers):
        left, asked, resets = list(answers), [], []

        def machine(module_args=None, **_more):
            asked.append(module_args["verb"])
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            return dict(found)

        task = SimpleNamespace(args={"verb": verb, "change_id": "c"}, check_mode=False, async_val=0, delegate_to="m1")
        connection = SimpleNamespace(reset=lambda: resets.append(1), _shell=SimpleNamespace(tmpdir="/tmp/gone"))
        action = pd_change.ActionModule(task, connection, None, None, None, None)
        action._execute_module = machine
        try:
            result = action.run(task_vars={})
        except AnsibleConnectionFailure as error:
            result = error
        return SimpleNamespace(result=result, asked=asked, resets=len(resets), connection=connection, lines=printed)

    return go


def test_confirm_and_rollback_are_said_again(run):
    ran = run("confirm", DROPPED, DROPPED, record("confirmed"))
    assert ran.result["change"]["state"] == "confirmed"
    assert (ran.asked, ran.resets, ran.connection._shell.tmpdir) == (["confirm"] * 3, 2, None)
    assert "[confirm] connection lost, trying again" in ran.lines[0]


def test_a_rollback_goes_on_through_drops_before_and_during_it(run):
    step = {"step": "serving", "instance": "d", "said": ""}
    ran = run(
        "rollback", DROPPED, record("rolling-back"), DROPPED, record("rolled-back", step), record("rolled-back", step)
    )
    assert ran.result["failed"] is False
    assert ran.result["said"] == "the old state is back, d serve again"
    assert ran.asked == ["rollback", "rollback", "status", "status", "report"]


@pytest.mark.parametrize("verb", ["begin", "apply", "renew", "status", "report"])
def test_the_other_verbs_are_said_again_too(run, verb):
    """That none of them has a second effect then is shown by tests/unit/change/test_reentry.py."""
    ran = run(verb, DROPPED, record("open"))
    assert ran.result["change"]["state"] == "open"
    assert ran.asked == [verb, verb]


@pytest.mark.parametrize("verb", ["begin", "apply", "renew", "confirm"])
def test_a_machine_that_stays_away_fails_the_step_in_one_sentence(run, monkeypatch, verb):
    """Ansible runs no rescue for unreachable, and the way back is in one."""
    monkeypatch.setattr(pd_change, "_RECONNECT_FOR_S", 0.05)
    ran = run(verb, *[DROPPED] * 50)
    assert ran.result["failed"] is True and ran.result["kind"] == verb and 1 < len(ran.asked) < 50
    assert ran.result["msg"] == "m1 became unreachable: Data could not be sent to remote host"
    (event,) = events_of([ran.result])
    assert event["result"] == "unreachable"


def test_a_machine_that_stays_away_when_all_are_put_back_is_unreachable(run, monkeypatch):
    monkeypatch.setattr(pd_change, "_RECONNECT_FOR_S", 0.05)
    ran = run("rollback", *[DROPPED] * 50)
    assert ran.result is DROPPED and 1 < len(ran.asked) < 50

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The action plugin of an instance on a connection that drops while it drains or starts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.pdops.sglang.plugins.action import pd_instance

DROPPED = AnsibleConnectionFailure("Data could not be sent to remote host")


def run(monkeypatch, state, *answers):
    monkeypatch.setattr(pd_instance, "POLL_S", 0.01)
    monkeypatch.setattr(pd_instance.OneModule, "run", lambda *_a, **_k: {})
    left, resets = list(answers), []

    def machine(**_more):
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return dict(found)

    task = SimpleNamespace(args={"unit": "d", "state": state}, check_mode=True, async_val=0)
    connection = SimpleNamespace(reset=lambda: resets.append(1), _shell=SimpleNamespace(tmpdir="/tmp/gone"))
    action = pd_instance.ActionModule(task, connection, None, None, None, None)
    action._execute_module = machine
    return action, left, resets


@pytest.mark.parametrize("state", ["started", "stopped", "status"])
def test_a_start_and_a_stop_are_asked_for_again(monkeypatch, state):
    action, left, resets = run(monkeypatch, state, DROPPED, DROPPED, {"changed": True})
    assert action.run(task_vars={})["changed"] is True
    assert (left, len(resets), action._connection._shell.tmpdir) == ([], 2, None)


def test_a_restart_is_not_since_it_would_restart_twice(monkeypatch):
    action, left, _resets = run(monkeypatch, "restarted", DROPPED, {"changed": True})
    result = action.run(task_vars={})
    assert (result["failed"], result["msg"]) == (True, "d became unreachable: Data could not be sent to remote host")
    assert len(left) == 1

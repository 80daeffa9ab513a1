# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""kill -9 of the whole controller: without it the machine finds its own way back, and the next run says what it found."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ..field import Machine

#: The last step that the change has written.
POINTS = {
    "between apply and restart": ("apply", ""),
    "between two restarts": ("start", "dsv4-decode"),
    "before confirm": ("start", "dsv4-router"),
}


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def guard_of(change: dict[str, Any]) -> str:
    return f"pdops-guard@{change['id']}.service"


def found_and_told(gpu1: Machine, change: dict[str, Any], why: str) -> None:
    told = gpu1.play("restore_knob.yml")
    assert told.rc == 0, told.text
    for words in (f"found: change {change['id']}", "was rolled-back by its guard", why):
        assert words in told.words


@pytest.mark.parametrize("point", POINTS)
def test_without_any_controller_the_guard_puts_the_old_state_back(gpu1: Machine, point: str) -> None:
    before = gpu1.script()
    change = gpu1.set_and_kill("256", lambda: gpu1.last_step() == POINTS[point])
    guard = guard_of(change)
    assert gpu1.script() != before and gpu1.show(guard, "ActiveState") == "active"
    # Nothing of the login holds it: it is a unit of the system.
    group = gpu1.sh(f"cat /proc/{gpu1.show(guard, 'MainPID')}/cgroup")
    assert "pdops" in group and "session" not in group

    gpu1.wait("the guard's rollback", lambda: gpu1.changes()[-1]["state"] == "rolled-back")
    assert gpu1.script() == before and gpu1.running_knob() == "512" and gpu1.serves()
    ended = gpu1.changes()[-1]
    lease_end = seconds(ended["lease"]["renewed"]) + ended["lease"]["budget_s"] + ended["slack_s"]
    took_s = seconds(ended["ended"]) - lease_end
    print(f"{point}: the old state served {took_s:.0f} s after the lease was over")
    assert -2 < took_s < 25
    gpu1.wait("the guard's end", lambda: gpu1.show(guard, "ActiveState") == "inactive")
    assert gpu1.sh("systemctl --failed --no-legend") == ""
    found_and_told(gpu1, change, "nobody confirmed it")


def test_a_reboot_in_the_middle_of_a_change_brings_the_old_state(gpu1: Machine) -> None:
    before = gpu1.script()
    change = gpu1.set_and_kill("128", lambda: gpu1.script() != before)
    gpu1.reboot()
    gpu1.wait("the guard's rollback", lambda: gpu1.changes()[-1]["state"] == "rolled-back")
    assert gpu1.script() == before
    # The files came before the serve units: decode never ran with the value that nobody had confirmed.
    assert gpu1.running_knob() == "512"
    guard = guard_of(change)
    gpu1.wait("the guard's end", lambda: gpu1.show(guard, "ActiveState") == "inactive")
    assert gpu1.sh(f"ls -d /etc/systemd/system/*/{guard} /etc/systemd/system/{guard}.d", check=False) == ""
    found_and_told(gpu1, change, "before anybody confirmed it")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One deployment on five machines, as the tests of this scenario see it: by instance."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from ...process_tree import kill_tree
from ..field import KNOB, Machine, Ran

#: Instance to host; both have the names of inventory/example-xpyd.
MACHINES = {
    "dsv4-prefill-1": "gpu1",
    "dsv4-prefill-2": "gpu2",
    "dsv4-decode-1": "gpu3",
    "dsv4-decode-2": "gpu4",
    "dsv4-router": "gw1",
}
ROUTER = "http://gw1.example.net:8000"
#: Leases of seconds, long enough for five machines on two cores.
QUICK = (
    "-e", "change_step_budget_s=40", "-e", "change_lease_slack_s=5", "-e", "pd_load_timeout_s=40", "-e", "pd_drain_s=3",
    "-e", "pd_reconnect_s=3",
)  # fmt: skip
#: A machine that falls silent is noticed after some seconds instead of a minute, as the other times here are seconds.
SOON = "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 -o ServerAliveCountMax=3"


class Fleet:
    def __init__(self, machines: Mapping[str, Machine]) -> None:
        self.machines = machines

    def __getitem__(self, instance: str) -> Machine:
        return self.machines[instance]

    def unit(self, instance: str) -> str:
        return f"sglang-dsv4-{instance.split('-')[1]}"

    # --- playbooks

    def play(self, playbook: str, *arguments: str, **environment: str) -> Ran:
        return self["dsv4-router"].run("ansible-playbook", playbook, *arguments, timeout_s=400, **environment)

    def start(self, step: str, instance: str, *command: str, **environment: str) -> subprocess.Popen[str]:
        """A playbook that has just written this step into the record of the instance's machine."""
        machine = self[instance]
        known = len(machine.changes())
        process = machine.start("ansible-playbook", *command, **environment)
        try:
            self.wait(
                f"{step} {instance}",
                lambda: (
                    process.poll() is not None
                    or (len(machine.changes()) > known and machine.last_step() == (step, instance))
                ),
                timeout_s=300,
            )
        except BaseException:
            kill_tree(process)
            raise
        assert process.poll() is None, process.communicate()[0]
        return process

    def other_knob(self) -> tuple[str, ...]:
        """What set_knob.yml is given so that both decodes get another value, and everything restarts at once."""
        value = 384 if self.knobs() == ["512", "512"] else 512
        return ("-e", f"knob={KNOB}", "-e", f"value={value}", "-e", "role=decode", "-e", "scope=co", *QUICK)

    # --- what is there

    def each(self, ask: Callable[[Machine, str], Any]) -> dict[str, Any]:
        return {instance: ask(machine, instance) for instance, machine in self.machines.items()}

    def scripts(self) -> dict[str, str]:
        return self.each(lambda machine, _instance: machine.sh("sha256sum < /root/serve_dsv4_*.sh"))

    def pids(self) -> dict[str, str]:
        return self.each(lambda machine, instance: machine.show(self.unit(instance), "MainPID"))

    def changed(self, pids: Mapping[str, str]) -> set[str]:
        """Instances that have another process now."""
        return {instance for instance, pid in self.pids().items() if pids[instance] != pid}

    def knobs(self) -> list[str | None]:
        return [self[f"dsv4-decode-{number}"].running_knob() for number in (1, 2)]

    def newest(self) -> dict[str, dict[str, Any]]:
        """The newest change of each machine."""
        return self.each(lambda machine, _instance: machine.changes()[-1])

    def states(self) -> set[str]:
        return {change["state"] for change in self.newest().values()}

    def workers(self) -> dict[str, bool]:
        told = json.loads(self["dsv4-router"].sh(f"curl -s -m 5 {ROUTER}/workers", check=False))
        return {worker["url"]: worker["is_healthy"] for worker in told["workers"]}

    def serves(self) -> bool:
        return self["dsv4-router"].serves(ROUTER)

    def whole(self) -> bool:
        healthy = self.workers()
        return len(healthy) == 4 and all(healthy.values()) and self.serves()

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float = 180) -> Any:
        """As of a machine, but asked less often: each look may be five of them."""

        def slowly() -> Any:
            found = condition()
            if not found:
                time.sleep(0.15)
            return found

        return self["dsv4-router"].wait(what, slowly, timeout_s)


def ended(process: subprocess.Popen[str], timeout_s: float = 400) -> Ran:
    text, _ = process.communicate(timeout=timeout_s)
    return Ran(process.returncode, text)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The lab's instances as the targets of gates that run in a test's process, as the module runs them on a machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Peer, Target
from ansible_collections.pdops.sglang.plugins.module_utils.gates.ladder import LadderState, run_ladder
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for
from ansible_collections.pdops.sglang.plugins.module_utils.services.instance import Request, bring

from .conftest import Lab


class Gated:
    """The lab's instances as targets."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        told = lab.told
        self.manager = manager_for("supervisor", told["supervisor_config"])
        workers = tuple(told["instances"][name]["url"] for name in ("lab-prefill", "lab-decode"))
        peers = [Peer(name, one["role"], one["url"], one["bootstrap_port"]) for name, one in told["instances"].items()]
        self.targets = {
            name: Target(
                name=name,
                role=one["role"],
                unit=one["unit"],
                url=one["url"],
                manager="supervisor",
                supervisor_config=told["supervisor_config"],
                bootstrap_port=one["bootstrap_port"],
                metrics_url=one.get("metrics_url"),
                serve_script=one["serve_script"],
                workers=workers if one["role"] == "router" else (),
                peers=tuple(peer for peer in peers if peer.name != name),
                request_timeout_s=4.0,
            )
            for name, one in told["instances"].items()
        }

    def climb(
        self, name: str, gates: list[str], timeout_s: float = 60.0, expect: Any = None, **more: Any
    ) -> LadderState:
        """It comes back as soon as something is decided; only what stays pending takes the whole time."""
        target = replace(self.targets[name], **more)
        return run_ladder(target, gates, expect, timeout_s, remaining_s=timeout_s, manager=self.manager)

    def stays(self, name: str, gates: list[str], **more: Any) -> LadderState:
        """The last of the gates, asked for a short time once those before it are passed."""
        before = self.climb(name, gates[:-1], **more)
        assert before.outcome == "passed", before.results
        return self.climb(name, gates[-1:], timeout_s=3.0, **more)

    def bring(self, name: str, state: str) -> dict[str, Any]:
        target = self.targets[name]
        return bring(self.manager, Request(target.unit, state, drain_s=3.0, url=target.url))

    def fault(self, *words: str, role: str | None = None) -> None:
        self.lab.fault(*words, role=role)

    def well(self) -> None:
        """No faults, and everything serves. Otherwise both engines restart: one alone may leave the pair unusable."""
        self.lab.fault(clear=True)
        order = (
            ("lab-prefill", ["health", "rendezvous"]),
            ("lab-decode", ["health"]),
            ("lab-router", ["router", "completion"]),
        )
        for name, _gates in order:
            self.bring(name, "started")
        if all(self.climb(name, gates, 15.0, longest_prompt_tokens=64).outcome == "passed" for name, gates in order):
            return
        for name, _gates in reversed(order):
            self.bring(name, "stopped")
        for name, gates in order:
            self.bring(name, "started")
            state = self.climb(name, gates)
            assert state.outcome == "passed", (state.results, state.log_tail)


@pytest.fixture(scope="module")
def gated(module_lab: Lab) -> Gated:
    module_lab.story()
    return Gated(module_lab)


@pytest.fixture
def faults(gated: Gated) -> Iterator[Gated]:
    yield gated
    gated.well()


@contextlib.contextmanager
def breakers_open_for(faults: Gated, seconds: int) -> Iterator[None]:
    """Longer than the lab's 5 s, so that also on a busy machine two engines load meanwhile."""
    script = Path(faults.targets["lab-router"].serve_script or "")
    before = script.read_text()
    flag = "--cb-timeout-duration-secs"
    assert f"{flag} 5 " in before
    try:
        script.write_text(before.replace(f"{flag} 5 ", f"{flag} {seconds} "))
        faults.bring("lab-router", "stopped")
        faults.bring("lab-router", "started")
        yield
    finally:
        script.write_text(before)
        faults.bring("lab-router", "stopped")
        faults.bring("lab-router", "started")

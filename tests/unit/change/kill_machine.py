# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A machine for the stories of the kill driver, with a played service manager, clocks and boots; and a controller.

Import it when the collections are in ``sys.path``. Real are the verbs, the book, the store, the guard's loop and the rollback.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils import knob_edit
from ansible_collections.pdops.sglang.plugins.module_utils.change import (
    agent,
    guard,
    guard_place,
    rollback,
    stepping,
    survey,
    verbs,
    who,
)
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.services.base import UnitStatus
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from kill_life import Life, life_of, nobody, step

ROLES = ("prefill", "decode", "router")
EDITED = ("prefill", "decode")
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"


class Machine:
    """Scripts, units and clocks of one machine. A unit runs with the content that its script had at its start."""

    def __init__(
        self, folder: str, names: tuple[str, ...] = ROLES, edited: tuple[str, ...] = EDITED, called: str = "m"
    ) -> None:
        """``names`` of its instances begin with their roles."""
        self.names, self.edited, self.called = names, edited, called
        os.makedirs(folder, exist_ok=True)
        self.state_dir = os.path.join(folder, "state")
        self.scripts = {role: os.path.join(folder, f"{role}.sh") for role in names}
        self.old = {role: f"#!/bin/bash\nexport ROLE={role}\nexec true\n".encode() for role in names}
        for role in names:
            self.write(role, self.old[role])
        self.running: dict[str, bytes | None] = dict(self.old)
        self.since = {role: time.time() - 60.0 for role in names}
        self.instances = [
            Instance(
                name,
                name.split("-")[0],
                name,
                self.scripts[name],
                f"http://127.0.0.1:{9 + n}",
                called,
                manager="supervisor",
            )
            for n, name in enumerate(names)
        ]
        self.specs = [item.as_dict() for item in self.instances]
        self.clock, self.boot = 1000.0, "boot-1"
        self.guards: dict[str, contextlib.ExitStack] = {}
        self.controllers: set[int] = set()
        self.broken = False  # the decode starts with no content
        self.effects: Counter[str] = Counter()
        store = Store(self.state_dir + "-none")
        self.edits = [self.edit(role, store) for role in edited]
        self.new = {role: self.old[role] for role in names}
        for edit, content in self.edits:
            self.new[edit["instance"]] = content

    def edit(self, role: str, store: Store) -> tuple[dict[str, Any], bytes]:
        path = self.scripts[role]
        plan = knob_edit.plan_edit(knob_edit.EditRequest(path, {KNOB: "512"}), store)
        asked = {"path": path, "knobs": {KNOB: "512"}, "state": "present"}
        told = {"instance": role, "path": path, "knob": KNOB, "before": None, "after": "512", "request": asked}
        return {**told, "sha256_before": plan.sha256_before, "sha256_after": plan.sha256_after}, plan.after

    def read(self, role: str) -> bytes:
        with open(self.scripts[role], "rb") as source:
            return source.read()

    def write(self, role: str, content: bytes) -> None:
        with open(self.scripts[role], "wb") as target:
            target.write(content)

    def verb(
        self, verb: str, change_id: str, edits: list[dict[str, Any]], leader: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        """What the module pd_change does here when a controller calls it."""
        given = {
            "verb": verb,
            "state_dir": self.state_dir,
            "change_id": change_id,
            "deployment": "lab",
            "intent": "set",
            "summary": f"set {KNOB}=512",
            "edits": edits,
            "instances": self.specs,
            "leader": leader,
            "take_over": None,
            "budget_s": 60.0,
            "slack_s": 15.0,
            "said": "",
            "step": "renew",
            "ids": [change_id],
        }
        return verbs.run({**given, **more}, check_mode=False)

    # -- as a service manager -------------------------------------------------------------------

    def bring(self, _manager: Any, request: Any) -> None:
        step()
        with nobody():
            self.effects[f"{request.state} {request.unit}"] += 1
            if request.state == "stopped":
                self.running[request.unit] = None
            elif self.running[request.unit] is None:
                if self.broken and request.unit == "decode":
                    raise PdopsError("decode died at once after its start", log_tail=["boom"])
                self.running[request.unit] = self.read(request.unit)
                self.since[request.unit] = time.time()
        step()

    def prove(self, instance: Instance, _gates: list[str], _timeout_s: float) -> None:
        if self.running[instance.unit] is None:
            raise PdopsError(f"{instance.name}: gate unit did not pass")

    def status(self, unit: str) -> UnitStatus:
        if self.running[unit] is None:
            return UnitStatus(unit, "inactive", None, None, None, "", None, "")
        return UnitStatus(unit, "active", 7, 1, time.time() - self.since[unit], "", None, "")

    # -- as a machine ---------------------------------------------------------------------------

    def start_guard(self, store: Store, _agent: str, change_id: str, *_more: Any) -> list[str]:
        step()
        with nobody():
            stack = contextlib.ExitStack()
            if stack.enter_context(guard_place.sole(Book(store).folder, change_id)):
                self.guards[change_id] = stack
            else:
                stack.close()
        step()
        return []

    def guard_acts(self, fatal: int | None = None) -> None:
        """Every guard looks once more at its change and does what it has to, or dies at that."""
        for change_id, place in list(self.guards.items()):
            with life_of(Life(fatal)) as life:
                assert guard.watch(Book(Store(self.state_dir)), change_id) in (0, 3)
            if not life.dead or fatal is not None:
                place.close()
                del self.guards[change_id]

    def lose_power(self) -> None:
        for place in self.guards.values():
            place.close()
        self.guards.clear()
        self.controllers.clear()
        self.boot, self.clock = self.boot + "+", 3.0
        # The units are enabled: they start with what their scripts hold now.
        self.running = {role: self.read(role) for role in self.names}
        self.since = dict.fromkeys(self.names, time.time())


class Controller:
    """An ansible-playbook that leads a change, step by step."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.id, self.number = machine, f"change-{number}", number
        self.leader = {"user": f"operator{number}", "host": "ops", "number": number}
        # As the plan would have them: what has its new content already is no edit any more.
        self.edits = [
            item for item, _ in machine.edits if machine.read(item["instance"]) != machine.new[item["instance"]]
        ]
        machine.controllers.add(number)

    def verb(self, verb: str, **more: Any) -> dict[str, Any]:
        return self.machine.verb(verb, self.id, self.edits, self.leader, **more)

    def bring(self, state: str, unit: str) -> None:
        verb = {"started": "start", "stopped": "stop"}[state]
        stepping.take_step(Store(self.machine.state_dir), self.id, verb, unit, "", 60.0)
        self.machine.bring(None, rollback._request(next(i for i in self.machine.instances if i.unit == unit), state))
        if state == "started":
            self.machine.prove(next(i for i in self.machine.instances if i.unit == unit), [], 1.0)

    def steps(self) -> list[Callable[[], Any]]:
        stops = [lambda unit=unit: self.bring("stopped", unit) for unit in reversed(ROLES)]
        starts = [lambda unit=unit: self.bring("started", unit) for unit in ROLES]
        return [
            lambda: self.verb("begin"),
            lambda: self.verb("apply"),
            *stops,
            lambda: self.verb("renew"),
            *starts,
            lambda: self.verb("confirm", said="done"),
        ]

    def run(self, fatal: int | None = None, until: int | None = None) -> Life:
        """All steps or the first ``until`` ones; a process that dies leaves a controller that is gone."""
        with life_of(Life(fatal)) as life:
            for each in self.steps()[:until]:
                each()
        if life.dead:
            self.machine.controllers.discard(self.number)
        return life


def _refuse_to_wait(seconds: float) -> None:
    assert seconds < 0.1, "a guard has nothing to do"


def patch(machine: Machine) -> None:
    who.boot_clock_s = lambda: machine.clock
    who.this_boot = lambda: machine.boot
    who.is_gone = lambda leader: leader["number"] not in machine.controllers
    agent.pack = lambda: b"the agent"
    agent.start_guard = machine.start_guard
    knob_edit.check_syntax = lambda _path, _content: None
    rollback.manager_for = lambda _name, _config: machine
    rollback.bring = machine.bring
    rollback.prove = machine.prove
    survey.manager_for = lambda _name, _config: machine
    guard.print = lambda *_told, **_how: None
    # No story lets a guard wait: its change has ended, or its lease is over.
    guard.time = SimpleNamespace(sleep=_refuse_to_wait, monotonic=time.monotonic)

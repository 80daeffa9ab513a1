# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Changes over two to five machines that die, in process: ``kill_fleet.py COLLECTIONS FOLDER FIRST LAST``, a story per seed.

In every story, wherever it dies: no script is torn; a change that holds on one machine and not on another is found by
``splits``; and the next run, or recover back or forward, ends with all old or all new on all machines, and all serving.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

sys.path.insert(0, sys.argv[1])
from ansible_collections.pdops.sglang.plugins.module_utils.change import (
    elsewhere,
    rollback,
    split,
    stepping,
    survey,
    undoing,
)
from ansible_collections.pdops.sglang.plugins.module_utils.change import record as rules
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import start_order
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from kill_life import Life, life_of, nobody
from kill_machine import Machine, patch

NAMES = ("prefill-1", "prefill-2", "decode-1", "decode-2", "router-1")


class Fleet:
    """One deployment over machines that share a clock. ``asked`` is the machine at which a verb or a guard is at work."""

    def __init__(self, folder: str, count: int, chance: random.Random) -> None:
        groups: list[list[str]] = [[] for _ in range(count)]
        for place, name in enumerate(NAMES):
            groups[place if place < count else chance.randrange(count)].append(name)
        edited = set(chance.sample(NAMES[:4], chance.randint(1, 4)))
        self.machines = []
        for number, names in enumerate(groups):
            mine = tuple(name for name in names if name in edited)
            self.machines.append(Machine(os.path.join(folder, f"m{number}"), tuple(names), mine, f"m{number}"))
        self.asked = self.machines[0]
        self.busy: set[str] = set()  # whose guard is at its work
        self.controllers: set[int] = set()
        for machine in self.machines:
            machine.controllers = self.controllers
        self.instances = start_order(item for machine in self.machines for item in machine.instances)

    def at(self, machine: Machine) -> None:
        self.asked = machine
        patch(machine)
        elsewhere.await_prefills = self.await_prefills

    def of(self, name: str) -> Machine:
        return next(machine for machine in self.machines if name in machine.names)

    def later(self) -> None:
        for machine in self.machines:
            machine.clock += 1e6

    def guards_act(self, machine: Machine, fatal: int | None = None) -> None:
        self.at(machine)
        self.busy.add(machine.called)
        machine.guard_acts(fatal)
        self.busy.discard(machine.called)

    def await_prefills(self, record: dict[str, Any], _began: float, _note: Any) -> None:
        """The guards of the prefills' machines, which a real one waits for, act before this one goes on."""
        mine = self.asked
        with nobody():
            for machine in self.machines:
                away = machine.called not in self.busy and any(name.startswith("prefill") for name in machine.names)
                if away and not record.get("led") and self.due(machine):
                    self.guards_act(machine)
        self.at(mine)

    def due(self, machine: Machine) -> bool:
        """Whether a guard there has something to do now; a real one is waited for no longer than its time."""
        self.at(machine)
        book = Book(Store(machine.state_dir))
        records = [book.load(change_id) for change_id in machine.guards if book.exists(change_id)]
        return bool(records) and all(one["state"] != "open" or rules.lease_left_s(one) <= 0 for one in records)

    def survey(self) -> list[dict[str, Any]]:
        found = []
        for machine in self.machines:
            self.at(machine)
            found.append({**survey.survey(machine.instances, machine.state_dir), "change_machine": machine.called})
        return found

    def read(self) -> dict[str, bytes]:
        return {name: machine.read(name) for machine in self.machines for name in machine.names}

    def content(self) -> str:
        """old, new or mixed; torn is none of these."""
        seen = set()
        for machine in self.machines:
            for name in machine.names:
                now = machine.read(name)
                assert now in (machine.old[name], machine.new[name]), f"{name} is torn"
                if name in machine.edited:
                    seen.add("old" if now == machine.old[name] else "new")
        return seen.pop() if len(seen) == 1 else "mixed"

    def serves(self) -> str:
        content = self.content()
        assert content != "mixed", "the scripts do not belong together"
        for machine in self.machines:
            for name in machine.names:
                assert machine.running[name] == machine.read(name), f"{name} does not serve with its script"
        return content


class Controller:
    """An ansible-playbook that leads a change over all machines."""

    def __init__(self, fleet: Fleet, number: int, edits: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.fleet, self.id, self.number = fleet, f"change-{number:02}", number
        self.leader = {"user": "operator", "host": "ops", "number": number}
        self.edits = edits if edits is not None else self.same_verb()
        fleet.controllers.add(number)

    def same_verb(self) -> dict[str, list[dict[str, Any]]]:
        return {
            machine.called: [edit for edit, new in machine.edits if machine.read(edit["instance"]) != new]
            for machine in self.fleet.machines
        }

    def verb(self, machine: Machine, verb: str, **more: Any) -> dict[str, Any]:
        self.fleet.at(machine)
        elsewhere = [
            {**item.as_dict(), "url": "http://gpu:1"} for item in self.fleet.instances if item.machine != machine.called
        ]
        edits = self.edits.get(machine.called, [])
        return machine.verb(verb, self.id, edits, self.leader, **{"elsewhere": elsewhere, **more})

    def bring(self, state: str, name: str) -> None:
        machine = self.fleet.of(name)
        self.fleet.at(machine)
        verb = {"started": "start", "stopped": "stop"}[state]
        stepping.take_step(Store(machine.state_dir), self.id, verb, name, "", 60.0)
        instance = next(item for item in machine.instances if item.name == name)
        machine.bring(None, rollback._request(instance, state))

    def renew(self, names: list[str], but: str = "") -> list[Callable[[], Any]]:
        return [
            lambda machine=machine: self.verb(
                machine, "renew", touches=[name for name in names if name not in machine.names]
            )
            for machine in self.fleet.machines
            if machine.called != but
        ]

    def steps(self) -> list[Callable[[], Any]]:
        machines, order = self.fleet.machines, [item.name for item in self.fleet.instances]
        last = [machine for machine in machines if self.edits.get(machine.called)]
        starts: list[Callable[[], Any]] = []
        for name in order:
            starts += self.renew([name], self.fleet.of(name).called)
            starts.append(lambda name=name: self.bring("started", name))
        return [
            *(lambda machine=machine: self.verb(machine, "begin") for machine in machines),
            *(lambda machine=machine: self.verb(machine, "apply") for machine in last),
            *self.renew(order),
            *(lambda name=name: self.bring("stopped", name) for name in reversed(order)),
            *starts,
            *self.renew([]),
            *(
                lambda machine=machine: self.verb(machine, "confirm", said="done")
                for machine in [*(machine for machine in machines if machine not in last), *last]
            ),
        ]

    def run(self, fatal: int | None = None, until: int | None = None) -> Life:
        with life_of(Life(fatal)) as life:
            for each in self.steps()[:until]:
                each()
        if life.dead:
            self.fleet.controllers.discard(self.number)
        return life

    def back(self, said: str, fatal: int | None = None) -> Life:
        """As rollback.yml leads it: machine by machine, the prefills' first, each guard watched to its end."""
        with life_of(Life(fatal)) as life:
            for machine in dict.fromkeys(self.fleet.of(item.name) for item in self.fleet.instances):
                try:
                    self.verb(machine, "rollback", said=said, alone=True)
                except PdopsError as error:
                    assert self.id in str(error), error  # it was confirmed here already
                with nobody():
                    self.fleet.guards_act(machine)
        return life


# -- the stories ---------------------------------------------------------------------------------


def recover_back(fleet: Fleet, number: int) -> None:
    for machine in dict.fromkeys(fleet.of(item.name) for item in fleet.instances):
        fleet.at(machine)
        found = survey.to_finish(survey.survey(machine.instances, machine.state_dir), None)
        if found is not None:
            helper = Controller(fleet, number, {})
            helper.id = found["id"]
            helper.verb(machine, "rollback", said="recover", alone=True)
            fleet.guards_act(machine)
    for told in split.splits(fleet.survey()):
        settle(fleet, number, told["id"], "confirmed", _edit_back)


def recover_forward(fleet: Fleet, number: int) -> None:
    for told in split.splits(fleet.survey()):
        settle(fleet, number, told["id"], "rolled-back", _edit_forward)


def _edit_back(store: Store, record: dict[str, Any], name: str, path: str) -> dict[str, Any] | None:
    return undoing.edit_back(store, record, name, path, True)


def _edit_forward(store: Store, record: dict[str, Any], name: str, _path: str) -> dict[str, Any] | None:
    return undoing.edit_forward(store, record, name)


def settle(fleet: Fleet, number: int, change_id: str, state: str, edit_of: Callable[..., Any]) -> None:
    """A new change over all machines that gives the scripts of those in ``state`` the other content."""
    edits: dict[str, list[dict[str, Any]]] = {}
    for machine in fleet.machines:
        store = Store(machine.state_dir)
        if not Book(store).exists(change_id):
            continue
        record = Book(store).load(change_id)
        if record["state"] == state:
            made = [edit_of(store, record, name, machine.scripts[name]) for name in machine.names]
            edits[machine.called] = [edit for edit in made if edit]
            assert not any(edit["refused"] for edit in edits[machine.called])
    if any(edits.values()):
        Controller(fleet, number, edits).run()
        for machine in fleet.machines:
            fleet.guards_act(machine)


def end_clean(fleet: Fleet, chance: random.Random, seen: Counter[str]) -> None:
    found = split.splits(fleet.survey())
    is_open = any(one["changes"] for one in fleet.survey())
    if fleet.content() == "mixed" and not is_open:
        assert found, "the scripts do not belong together, and nobody says so"
        seen["split"] += 1
    way = chance.choice(("back", "forward", "again") if found and not is_open else ("back", "again"))
    if way == "back":
        recover_back(fleet, 50)
    elif way == "forward":
        recover_forward(fleet, 50)
    else:
        Controller(fleet, 50).run()
    for machine in fleet.machines:
        fleet.guards_act(machine)
    seen[f"{way}: {fleet.serves()}"] += 1
    for one in fleet.survey():
        assert one["changes"] == [] and one["unreadable"] == [], one["changes"]
    assert split.splits(fleet.survey()) == []
    assert not any(machine.guards for machine in fleet.machines)


def all_guards(fleet: Fleet, chance: random.Random, fatal: bool) -> bool:
    """In any order; whether all came to their end."""
    order = list(fleet.machines)
    chance.shuffle(order)
    whole = True
    for machine in order:
        dies = chance.randint(1, 400) if fatal and chance.random() < 0.3 else None
        whole = whole and (dies is None or not machine.guards)
        fleet.guards_act(machine, dies)
        fleet.content()
    return whole


def controller_dies(fleet: Fleet, chance: random.Random, seen: Counter[str], whole: int) -> None:
    life = Controller(fleet, 1).run(chance.randint(1, whole))
    confirmed = any(
        item["state"] == "confirmed" for machine in fleet.machines for item in Book(Store(machine.state_dir)).all()
    )
    fleet.content()
    fleet.later()
    begun = [bool(machine.guards) for machine in fleet.machines]
    if all_guards(fleet, chance, chance.random() < 0.4) and all(begun) and not confirmed and life.dead:
        assert fleet.serves() == "old"
        seen["without a controller: old"] += 1
    end_clean(fleet, chance, seen)


def controller_dies_among_confirms(fleet: Fleet, chance: random.Random, seen: Counter[str], whole: int) -> None:
    Controller(fleet, 1).run(chance.randint(max(1, whole - 40 * len(fleet.machines)), whole))
    fleet.content()
    if chance.random() < 0.6:
        fleet.later()
        all_guards(fleet, chance, False)
    end_clean(fleet, chance, seen)


def one_machine_goes_back_alone(fleet: Fleet, chance: random.Random, seen: Counter[str], _whole: int) -> None:
    """The lease of one machine runs out under a living controller, whose next verb there is refused."""
    one = Controller(fleet, 1)
    total = len(one.steps())
    done = chance.randint(len(fleet.machines), total - len(fleet.machines))
    one.run(until=done)
    lost = chance.choice(fleet.machines)
    lost.clock += 1e6
    fleet.guards_act(lost)
    refused = False
    for late in one.steps()[done:]:
        try:
            late()
        except PdopsError as error:
            assert one.id in str(error), error
            refused = True
            break
    assert refused, "a machine that went back was not noticed"
    life = one.back("refused", chance.choice((None, chance.randint(1, 600))))
    if life.dead:
        fleet.controllers.discard(1)
        fleet.later()
        all_guards(fleet, chance, False)
    else:
        fleet.controllers.discard(1)
    end_clean(fleet, chance, seen)
    seen["one alone"] += 1


def gate_fails(fleet: Fleet, chance: random.Random, seen: Counter[str], _whole: int) -> None:
    one = Controller(fleet, 1)
    one.run(until=chance.randint(1, len(one.steps()) - len(fleet.machines)))
    life = one.back("a gate did not pass", chance.choice((None, chance.randint(1, 600))))
    fleet.controllers.discard(1)
    if life.dead:
        fleet.later()
        all_guards(fleet, chance, False)
    assert fleet.serves() == "old"
    seen["gate failed: old"] += 1
    end_clean(fleet, chance, seen)


STORIES = (
    controller_dies,
    controller_dies_among_confirms,
    one_machine_goes_back_alone,
    gate_fails,
)


def make(folder: str, seed: int) -> Fleet:
    os.makedirs(folder)
    return Fleet(folder, 2 + seed // len(STORIES) % 4, random.Random(seed // len(STORIES)))


def play(folder: str, first: int, last: int) -> dict[str, Any]:
    seen: Counter[str] = Counter()
    for seed in range(first, last):
        story = STORIES[seed % len(STORIES)]
        fleet = make(folder, seed)
        try:
            whole = 1000 * len(fleet.machines)
            if story in (controller_dies, controller_dies_among_confirms):
                whole = Controller(fleet, 1).run().calls
                for machine in fleet.machines:
                    fleet.guards_act(machine)
                assert fleet.serves() == "new"
                shutil.rmtree(folder)
                fleet = make(folder, seed)
            seen[story.__name__] += 1
            story(fleet, random.Random(seed), seen, whole)
        except BaseException:
            traceback.print_exc()
            states = [
                {item["id"]: item["state"] for item in Book(Store(machine.state_dir)).all()}
                for machine in fleet.machines
            ]
            print(f"seed {seed}: {story.__name__}; {states}; {fleet.content()}", file=sys.stderr)
            sys.exit(1)
        for machine in fleet.machines:
            for place in machine.guards.values():
                place.close()
        shutil.rmtree(folder)
    return dict(seen)


if __name__ == "__main__":
    begin = time.monotonic()
    told = play(os.path.join(sys.argv[2], f"fleet-{sys.argv[3]}"), int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps({**told, "seconds": round(time.monotonic() - begin, 1)}))

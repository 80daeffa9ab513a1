# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Changes that die, in process: ``kill_driver.py COLLECTIONS FOLDER FIRST LAST`` plays one story per seed.

In every story, wherever it dies: a script is old or new, never torn; what is served in the end is all old or all new; both
contents are stored; and the next run ends clean. Prints what was seen as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import Any

sys.path.insert(0, sys.argv[1])
from ansible_collections.pdops.sglang.plugins.module_utils.change import survey
from ansible_collections.pdops.sglang.plugins.module_utils.change.book import Book
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import find_leftovers, sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import verify
from kill_life import Life, life_of
from kill_machine import EDITED, ROLES, Controller, Machine, patch

# -- what must hold ------------------------------------------------------------------------------


def never_torn(machine: Machine) -> None:
    for role in ROLES:
        assert machine.read(role) in (machine.old[role], machine.new[role]), f"{role} is torn"
    store = Store(machine.state_dir)
    assert {item.kind for item in verify(store)} <= {"leftover", "unreadable", "unnamed"}, verify(store)
    for role in EDITED:
        if machine.read(role) == machine.new[role]:
            for content in (machine.old[role], machine.new[role]):
                assert store.content(sha256_of(content)) == content, "a content is lost"


def serves(machine: Machine, contents: Mapping[str, bytes]) -> None:
    assert {role: machine.read(role) for role in ROLES} == dict(contents), "the scripts are not those"
    assert machine.running == dict(contents), "not all serve with what their scripts hold"


def serves_old_or_new(machine: Machine) -> str:
    which = "old" if machine.read("decode") == machine.old["decode"] else "new"
    serves(machine, machine.old if which == "old" else machine.new)
    return which


def at_rest(machine: Machine) -> None:
    seen = survey.survey(machine.instances, machine.state_dir)
    assert seen["changes"] == [] and seen["unreadable"] == [], seen["changes"]
    assert not machine.guards


def states(machine: Machine) -> dict[str, str]:
    return {item["id"]: item["state"] for item in Book(Store(machine.state_dir)).all()}


# -- the stories ---------------------------------------------------------------------------------


def bring_back(machine: Machine, chance: random.Random) -> None:
    """recover.yml -e finish=back, as often as it needs when its guard is killed too."""
    for _attempt in range(4):
        found = survey.to_finish(survey.survey(machine.instances, machine.state_dir), None)
        if found is None:
            return
        helper = Controller(machine, 90)
        helper.id = found["id"]
        helper.verb("rollback", said="recover")
        machine.guard_acts(chance.choice((None, chance.randint(1, 250))))
        never_torn(machine)
    found = survey.to_finish(survey.survey(machine.instances, machine.state_dir), None)
    if found is not None:
        helper.verb("rollback", said="recover")
        machine.guard_acts()


def end_clean(machine: Machine, chance: random.Random, seen: Counter[str]) -> None:
    """The next run: back on demand, or the same verb again, which may die as well before one comes through."""
    if chance.random() < 0.4:
        bring_back(machine, chance)
        seen[f"back: {serves_old_or_new(machine)}"] += 1
    else:
        number = 2
        while Controller(machine, number).edits or serving(machine) is None or pending(machine):
            fatal = chance.randint(1, 900) if number < 4 else None
            died = Controller(machine, number).run(fatal).dead
            never_torn(machine)
            machine.controllers.discard(number)
            if not died:
                machine.guard_acts()
            number += 1
            assert number < 8
        machine.guard_acts()
        seen[f"again: {serving(machine)}, {number - 2} runs"] += 1
        serves(machine, machine.new)
    at_rest(machine)
    for role in ROLES:
        for path in find_leftovers(os.path.dirname(machine.scripts[role])):
            seen["leftovers"] += 1
            os.unlink(path)


def serving(machine: Machine) -> str | None:
    with contextlib.suppress(AssertionError):
        return serves_old_or_new(machine)
    return None


def pending(machine: Machine) -> bool:
    return bool(survey.survey(machine.instances, machine.state_dir)["changes"])


def controller_dies(machine: Machine, chance: random.Random, seen: Counter[str], whole: int) -> None:
    """The guard goes back within the lease without any controller, or is killed at that."""
    Controller(machine, 1).run(chance.randint(1, whole))
    never_torn(machine)
    machine.clock += 1e6
    fatal = chance.choice((None, None, chance.randint(1, 500)))
    machine.guard_acts(fatal)
    never_torn(machine)
    if fatal is None:
        seen[f"without a controller: {serves_old_or_new(machine)}"] += 1
        at_rest(machine)
    end_clean(machine, chance, seen)


def power_is_lost(machine: Machine, chance: random.Random, seen: Counter[str], whole: int) -> None:
    """Everything dies at once, and the units come up again with what their scripts hold."""
    Controller(machine, 1).run(chance.randint(1, whole))
    if chance.random() < 0.3:
        machine.clock += 1e6
        machine.guard_acts(chance.randint(1, 500))
    machine.lose_power()
    never_torn(machine)
    end_clean(machine, chance, seen)


def gate_fails(machine: Machine, chance: random.Random, seen: Counter[str], _whole: int) -> None:
    """The controller itself asks for the way back, and dies at that or sees its guard killed."""
    one = Controller(machine, 1)
    one.run(until=chance.randint(1, 9))
    with life_of(Life(chance.choice((None, chance.randint(1, 200))))) as asking:
        one.verb("rollback", said="a gate did not pass")
    if asking.dead:
        machine.controllers.discard(1)
        machine.clock += 1e6
    fatal = chance.choice((None, chance.randint(1, 500)))
    machine.guard_acts(fatal)
    never_torn(machine)
    if not asking.dead:
        one.verb("rollback", said="its guard is gone")  # as the action plugin does that watches it
        machine.guard_acts()
        serves(machine, machine.old)
        assert states(machine) == {"change-1": "rolled-back"}
        seen["gate failed: old"] += 1
    machine.controllers.discard(1)
    end_clean(machine, chance, seen)


def controller_is_cut_off(machine: Machine, chance: random.Random, seen: Counter[str], _whole: int) -> None:
    """It comes back after its lease is over: every verb of it is refused and none has an effect."""
    one = Controller(machine, 1)
    done = chance.randint(1, 9)
    one.run(until=done)
    machine.clock += 1e6
    machine.guard_acts()
    serves(machine, machine.old)
    effects = Counter(machine.effects)
    for late in one.steps()[chance.randint(0, done) :]:
        try:
            late()
        except PdopsError as error:
            assert "change-1" in str(error), error
        else:
            raise AssertionError("a late verb was not refused")
    one.verb("rollback", said="refused")
    machine.guard_acts()
    assert machine.effects == effects, "a late verb had an effect"
    serves(machine, machine.old)
    assert states(machine) == {"change-1": "rolled-back"}
    seen["cut off: old"] += 1
    machine.controllers.discard(1)
    end_clean(machine, chance, seen)


def old_script_does_not_start(machine: Machine, chance: random.Random, seen: Counter[str], whole: int) -> None:
    """A rollback that fails is kept, with both contents, and goes through when the cause is put right."""
    Controller(machine, 1).run(chance.randint(1, whole))
    machine.broken = True
    machine.clock += 1e6
    machine.guard_acts()
    never_torn(machine)
    if "rollback-failed" in states(machine).values():
        assert pending(machine)
        seen["rollback failed"] += 1
    machine.broken = False
    end_clean(machine, chance, seen)


def everything_twice(machine: Machine, chance: random.Random, seen: Counter[str], _whole: int) -> None:
    """A connection that is cut makes the same verb come again: no second effect, whichever verb it is."""
    one = Controller(machine, 1)
    before = Counter(machine.effects)
    back = chance.random() < 0.5
    for each in one.steps()[: -1 if back else None]:
        each()
        each()
    if back:
        for _again in range(2):
            one.verb("rollback", said="a gate did not pass")
        machine.guard_acts()
        one.verb("rollback", said="a gate did not pass")
    machine.guard_acts()
    serves(machine, machine.old if back else machine.new)
    assert states(machine) == {"change-1": "rolled-back" if back else "confirmed"}
    store = Store(machine.state_dir)
    for role in EDITED:
        assert len(store.versions(machine.scripts[role])) == (3 if back else 2)
    verbs_noted = Counter(entry["verb"] for entry in store.journal())
    assert verbs_noted["begin"] == 1 and verbs_noted["confirm"] <= 1 and verbs_noted["rolling-back"] <= 1
    assert verbs_noted["serve_knob"] == len(EDITED), verbs_noted
    assert machine.effects != before
    seen[f"twice: {'old' if back else 'new'}"] += 1
    machine.controllers.discard(1)
    at_rest(machine)


STORIES = (
    controller_dies,
    controller_dies,
    controller_dies,
    power_is_lost,
    power_is_lost,
    gate_fails,
    controller_is_cut_off,
    old_script_does_not_start,
    everything_twice,
)


def play(folder: str, first: int, last: int) -> dict[str, Any]:
    seen: Counter[str] = Counter()
    whole = 0
    for seed in range(first, last):
        os.makedirs(folder)
        machine = Machine(folder)
        patch(machine)
        try:
            if not whole:
                whole = Controller(machine, 1).run().calls
                machine.guard_acts()
                serves(machine, machine.new)
                shutil.rmtree(folder)
                os.makedirs(folder)
                machine = Machine(folder)
                patch(machine)
            story = STORIES[seed % len(STORIES)]
            seen[story.__name__] += 1
            story(machine, random.Random(seed), seen, whole)
        except BaseException:
            traceback.print_exc()
            print(f"seed {seed}: {STORIES[seed % len(STORIES)].__name__}; {states(machine)}", file=sys.stderr)
            sys.exit(1)
        for place in machine.guards.values():
            place.close()
        shutil.rmtree(folder)
    return {"calls of a whole change": whole, **seen}


if __name__ == "__main__":
    begin = time.monotonic()
    told = play(os.path.join(sys.argv[2], f"machine-{sys.argv[3]}"), int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps({**told, "seconds": round(time.monotonic() - begin, 1)}))

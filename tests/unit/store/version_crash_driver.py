# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Prunes and imports that die, as ``crash_driver`` does it to edits; called like that one.

``prunes`` and ``imports``: a child dies at its n-th call into the system, for every n that there is.
``kills``: children that edit and prune the same script in a loop are killed at any moment, again and again.
``both``: one child edits and one prunes at once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from functools import partial
from typing import Any, Callable

import crash_driver as driver
from ansible_collections.pdops.sglang.plugins.module_utils import knob_edit
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import find_leftovers, sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.importing import import_backups, plan_import
from ansible_collections.pdops.sglang.plugins.module_utils.store.objects import stored_objects
from ansible_collections.pdops.sglang.plugins.module_utils.store.pruning import PruneRequest, prune
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import verify

OTHER = os.path.join(driver.FOLDER, "prefill.sh")
CONTENTS = [driver.NEW.replace(b"512", str(number).encode()) for number in range(6)]
#: The script holds the second, an open change needs the third, another script has the first as well.
NEEDED = {sha256_of(CONTENTS[2]): "change x is open"}
KEPT = [5, 2, 1]


def dies_at(fatal: int, work: Callable[[], Any]) -> None:
    count = [0]
    for name in driver.CALLS:
        setattr(os, name, driver.dying(count, fatal, getattr(os, name)))
    work()


def filled(name: str) -> Store:
    store = Store(os.path.join(driver.FOLDER, name))
    driver.write(CONTENTS[1])
    for number, content in enumerate(CONTENTS):
        store.add_version(driver.SCRIPT, content, str(number), "driver", None)
    store.add_version(OTHER, CONTENTS[0], "other", "driver", None)
    return store


def pruned(store: Store) -> Any:
    return prune(PruneRequest(driver.SCRIPT, keep=1), store, lambda: NEEDED)


def labels(store: Store) -> list[int]:
    for version in store.versions(driver.SCRIPT):
        store.content(version.sha256)
    return [int(version.label) for version in store.versions(driver.SCRIPT)]


def prunes() -> dict[str, Any]:
    seen: Counter[str] = Counter()
    fatal, code = 0, 9
    expected = {sha256_of(CONTENTS[number]) for number in (0, *KEPT)}
    while code == 9:
        fatal += 1
        store = filled(f"state-{fatal}")
        code = driver.ended(driver.child(partial(dies_at, fatal, partial(pruned, Store(store.state_dir)))))
        assert code in (0, 9), code
        # The index is the old or the new one, and everything that it names is there.
        before = labels(store)
        assert before in ([5, 4, 3, 2, 1, 0], KEPT), before
        seen["new" if before == KEPT else "old"] += 1
        problems = verify(store)
        assert {item.kind for item in problems} <= {"leftover"}, problems
        assert store.content(store.versions(OTHER)[0].sha256) == CONTENTS[0]
        assert stored_objects(store) >= expected
        seen["unnamed"] += sum("left by a prune" in item.sentence for item in problems)
        # The next one finishes it.
        again = pruned(Store(store.state_dir))
        assert again.changed == (stored_objects(store) != expected or before != KEPT or bool(again.leftovers))
        assert labels(store) == KEPT
        assert stored_objects(store) == expected
        assert not pruned(Store(store.state_dir)).changed
        left = verify(store)  # a file that was being written at the time of death
        assert len(left) <= 1 and {item.kind for item in left} <= {"leftover"}, left
        seen["temporary"] += len(left)
        shutil.rmtree(store.state_dir)
    return {"steps": fatal, **seen}


def imports() -> dict[str, Any]:
    seen: Counter[str] = Counter()
    for number in range(2):
        path = f"{driver.SCRIPT}.label{number}.bak"
        with open(path, "wb") as target:
            target.write(CONTENTS[number])
        os.utime(path, (1.7e9 + number, 1.7e9 + number))

    def work(store: Store) -> None:
        import_backups(store, plan_import(store, driver.SCRIPT, []), "driver")

    fatal, code = 0, 9
    while code == 9:
        fatal += 1
        store = Store(os.path.join(driver.FOLDER, f"state-{fatal}"))
        code = driver.ended(driver.child(partial(dies_at, fatal, partial(work, Store(store.state_dir)))))
        assert code in (0, 9), code
        there = store.versions(driver.SCRIPT)
        assert [item.label for item in there[::-1]] == ["label0", "label1"][: len(there)]
        seen[str(len(there))] += 1
        driver.explained(store, driver.read())
        work(Store(store.state_dir))
        there = store.versions(driver.SCRIPT)
        assert [item.label for item in there] == ["label1", "label0"]
        assert [store.content(item.sha256) for item in there] == CONTENTS[1::-1]
        assert not plan_import(store, driver.SCRIPT, []).changed
    return {"steps": fatal, **seen}


def editing(store: Store, rounds: int, offset: int = 0) -> None:
    for number in range(rounds):
        request = knob_edit.EditRequest(driver.SCRIPT, {driver.KNOB: str(number + offset)}, actor="driver")
        knob_edit.edit(request, Store(store.state_dir), check_mode=False)


def pruning(store: Store, rounds: int) -> None:
    for _ in range(rounds):
        prune(PruneRequest(driver.SCRIPT, keep=2), Store(store.state_dir), dict)


def whole(store: Store) -> None:
    kinds = {item.kind for item in verify(store)}
    assert kinds <= {"leftover", "unreadable", "unnamed"}, verify(store)
    versions = store.versions(driver.SCRIPT)
    for version in versions:
        store.content(version.sha256)
    assert sha256_of(driver.read()) in [version.sha256 for version in versions]


def kills() -> dict[str, Any]:
    chance = random.Random(11)
    store = Store(os.path.join(driver.FOLDER, "state"))
    driver.write(driver.OLD)
    editing(store, 3)
    seen: Counter[str] = Counter()

    def forever() -> None:
        while True:
            editing(store, 2, chance.randrange(10**6))
            pruning(store, 1)

    least, number = int(sys.argv[4]), 0
    # On a busy machine a child gets less far in the same time, so later ones live longer.
    while number < least or (seen["prunes"] < 4 and number < 10 * least):
        number += 1
        chance.seed(number)
        pid = driver.child(forever)
        time.sleep(chance.uniform(0.005, 0.06 * max(1, number / least)))
        os.kill(pid, signal.SIGKILL)
        assert driver.ended(pid) == -signal.SIGKILL
        whole(store)
        seen["more"] += len(store.versions(driver.SCRIPT)) > 2
        seen["prunes"] = sum(entry["verb"] == "prune" and entry["step"] == "done" for entry in store.journal())
        for path in find_leftovers(driver.FOLDER):
            os.unlink(path)
    return dict(seen)


def both() -> dict[str, Any]:
    store = Store(os.path.join(driver.FOLDER, "state"))
    driver.write(driver.OLD)
    workers = [partial(editing, store, 25), partial(pruning, store, 25), partial(editing, store, 25, 100)]
    codes = [driver.ended(pid) for pid in [driver.child(work) for work in workers]]
    whole(store)
    assert verify(store) == []
    pruning(store, 1)
    return {"codes": codes, "versions": len(store.versions(driver.SCRIPT)), "objects": len(stored_objects(store))}


if __name__ == "__main__":
    driver.write(driver.OLD)
    print(json.dumps({"prunes": prunes, "imports": imports, "kills": kills, "both": both}[sys.argv[2]]()))

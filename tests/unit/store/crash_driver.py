# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Edits that die: run as a program of one thread, so that it may fork.

``steps``: a child dies at its n-th call into the system, for every n that there is.
``kills``: a child that edits in a loop is killed at any moment, again and again.
``both``: two children edit the same script at once.

After each death the script is the old or the new content, the store explains it, and the edit can be done again.
Prints what was seen as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from functools import partial
from typing import Any, Callable

sys.path.insert(0, sys.argv[1])
from ansible_collections.pdops.sglang.plugins.module_utils import knob_edit
from ansible_collections.pdops.sglang.plugins.module_utils.store.atomic import find_leftovers, sha256_of
from ansible_collections.pdops.sglang.plugins.module_utils.store.store import Store
from ansible_collections.pdops.sglang.plugins.module_utils.store.verify import verify

CALLS = (
    "chmod",
    "chown",
    "close",
    "fsync",
    "fstat",
    "ftruncate",
    "getxattr",
    "listxattr",
    "listdir",
    "lseek",
    "lstat",
    "makedirs",
    "mkdir",
    "open",
    "pread",
    "removexattr",
    "replace",
    "setxattr",
    "stat",
    "statvfs",
    "unlink",
    "write",
)
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
FOLDER = sys.argv[3]
SCRIPT = os.path.join(FOLDER, "decode.sh")
OLD = b"#!/bin/bash\nexport SGLANG_LOG_MS=1\nexec python3 -m sglang.launch_server\n"
NEW = b"#!/bin/bash\nexport SGLANG_LOG_MS=1\nexport SGLANG_SM120_MMA_TARGET_CTAS=512\nexec python3 -m sglang.launch_server\n"


def child(work: Callable[[], Any]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read() -> bytes:
    with open(SCRIPT, "rb") as source:
        return source.read()


def write(content: bytes) -> None:
    with open(SCRIPT, "wb") as target:
        target.write(content)


def request(value: str, knob: str = KNOB) -> knob_edit.EditRequest:
    return knob_edit.EditRequest(SCRIPT, {knob: value}, actor="driver")


def explained(store: Store, first: bytes) -> None:
    """The store is whole, and has what the script holds now unless nothing was ever changed."""
    kinds = {item.kind for item in verify(store)}
    # A content is stored before its version is noted, so a death in between leaves it without a name.
    assert kinds <= {"leftover", "unreadable", "unnamed"}, verify(store)
    versions = store.versions(SCRIPT)
    for version in versions:
        store.content(version.sha256)
    now = read()
    if now != first:
        assert sha256_of(now) in [version.sha256 for version in versions], "the present content is not in the store"


def dying(count: list[int], fatal: int, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == fatal:
            os._exit(9)
        return real(*args, **kwargs)

    return call


def dies_at(fatal: int, plan: knob_edit.EditPlan, store: Store) -> None:
    count = [0]
    for name in CALLS:
        setattr(os, name, dying(count, fatal, getattr(os, name)))
    knob_edit.apply_edit(plan, store)


def steps() -> dict[str, Any]:
    seen: Counter[str] = Counter()
    fatal, code = 0, 9
    plan = knob_edit.plan_edit(request("512"), Store(os.path.join(FOLDER, "none")))
    while code == 9:
        fatal += 1
        # Half of them on a machine that never saw pdops, half on one with a history.
        for fresh in (True, False):
            store = Store(os.path.join(FOLDER, f"state-{fatal}-{fresh}"))
            write(OLD)
            if not fresh:
                store.add_version(SCRIPT, b"older", "older", "driver", None)
            code = ended(child(partial(dies_at, fatal, plan, Store(store.state_dir))))
            assert code in (0, 9), code
            now = read()
            assert now in (OLD, NEW)
            seen["new" if now == NEW else "old"] += 1
            assert os.stat(SCRIPT).st_mode & 0o777 == 0o750
            explained(store, OLD)
            if now == NEW:
                assert store.content(store.versions(SCRIPT)[1].sha256) == OLD
            left = find_leftovers(FOLDER)
            seen["leftovers"] += len(left)
            assert len(left) <= 1
            for path in left:
                os.unlink(path)
            if now == OLD:
                knob_edit.apply_edit(plan, Store(store.state_dir))
            else:
                assert not knob_edit.plan_edit(request("512"), store).changed
            assert read() == NEW
            newest = store.versions(SCRIPT)
            assert [store.content(item.sha256) for item in newest[:2]] == [NEW, OLD]
    return {"steps": fatal, **seen}


def kills() -> dict[str, Any]:
    seen: Counter[str] = Counter()
    chance = random.Random(7)
    store = Store(os.path.join(FOLDER, "state"))
    write(OLD)

    def forever() -> None:
        while True:
            for value in ("512", "768"):
                knob_edit.edit(request(value), Store(store.state_dir), check_mode=False)

    contents = {OLD, NEW, NEW.replace(b"512", b"768")}
    wanted = int(sys.argv[4])
    tries = 0
    # On a busy machine a child may not come far in a fixed time, so the times grow until enough was seen.
    while tries < wanted or (tries < 6 * wanted and (seen["False"] <= 5 or len(store.versions(SCRIPT)) <= 5)):
        pid = child(forever)
        time.sleep(chance.uniform(0.0, 0.08 * (1 + tries / wanted)))
        tries += 1
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        assert read() in contents
        seen[str(read() == OLD)] += 1
        explained(store, OLD)
        left = find_leftovers(FOLDER)
        seen["leftovers"] += len(left)
        for path in left:
            os.unlink(path)
    knob_edit.edit(request("512"), store, check_mode=False)
    assert read() == NEW
    seen["versions"] = len(store.versions(SCRIPT))
    return dict(seen)


def both() -> dict[str, Any]:
    store = Store(os.path.join(FOLDER, "state"))
    write(OLD)

    def mine(knob: str) -> None:
        for number in range(20):
            knob_edit.edit(request(str(number), knob), Store(store.state_dir), check_mode=False)

    codes = [ended(pid) for pid in [child(partial(mine, name)) for name in ("SGLANG_ONE", "SGLANG_TWO")]]
    reading = knob_edit.read_script(read())
    explained(store, OLD)
    return {
        "codes": codes,
        "values": [reading.value("SGLANG_ONE"), reading.value("SGLANG_TWO")],
        "versions": len(store.versions(SCRIPT)),
        "journal": len(store.journal()),
    }


if __name__ == "__main__":
    write(OLD)
    os.chmod(SCRIPT, 0o750)
    print(json.dumps({"steps": steps, "kills": kills, "both": both}[sys.argv[2]]()))

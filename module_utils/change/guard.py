# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The guard of a change: a process on the machine that rolls back unless the change is confirmed in time."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time

# Gates and managers are imported only when used, but the agent must carry all of them.
from ..gates import completion, effective, http_gates, rendezvous, router, transfer  # noqa: F401
from ..pdops_error import PdopsError
from ..services import supervisor, supervisor_rpc, systemd  # noqa: F401
from ..store.store import Store
from . import agent, rollback, who
from . import record as rules
from .book import Book
from .guard_place import is_alive, sole

POLL_S = 0.5
#: A fresh interpreter and the imports; the machine may be busy loading a model.
_START_S = 20.0


def ensure(store: Store, packed: str, change_id: str, under_systemd: bool) -> None:
    """Start the guard unless one is there, and wait until it has taken its place.

    Raises :class:`PdopsError` when it does not: a change without a guard must not go on.
    """
    if is_alive(Book(store).folder, change_id):
        return
    agent.start_guard(store, packed, change_id, under_systemd)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if is_alive(Book(store).folder, change_id) or Book(store).load(change_id)["state"] in rules.ENDED:
            return
        time.sleep(0.05)
    raise PdopsError(
        f"the guard of change {change_id} did not come up within {_START_S:.0f} s; see {store.state_dir}/agent/guard.log. No script was changed."
    )


def watch(book: Book, change_id: str) -> int:
    """Sleep until the change is confirmed, or roll it back; return an exit status.

    The lease is read again every half second, so a renewal is seen in time whatever the clocks do.
    """
    while True:
        record = book.load(change_id)
        if record["state"] in rules.ENDED:
            return 0 if record["state"] != "rollback-failed" else 1
        if record["state"] == "open" and rules.lease_left_s(record) <= 0:
            book_reason = (
                f"nobody confirmed it: the lease of step '{record['lease']['step']}' ran out, "
                f"the controller of {who.told(record['leader'])} is gone or cut off"
            )
            with contextlib.suppress(PdopsError):  # a confirm may have come in between: then it holds
                book.set_state(change_id, "rolling-back", book_reason, ("open",))
            continue
        if record["state"] == "rolling-back":
            ended = rollback.roll_back(book, change_id)
            with contextlib.suppress(OSError):  # the log may lie on a full disk
                print(f"change {change_id}: {ended['state']}: {ended['reason']}", flush=True)
            continue
        time.sleep(POLL_S)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="pdops-agent")
    parser.add_argument("verb", choices=["guard"])
    parser.add_argument("--state-dir", required=True)
    parser.add_argument("--change", required=True)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    store = Store(given.state_dir)
    try:
        book = Book(store)
        with sole(book.folder, given.change) as alone:
            return watch(book, given.change) if alone else 0
    except PdopsError as error:
        print(f"guard of change {given.change}: {error}", file=sys.stderr, flush=True)
        return 1

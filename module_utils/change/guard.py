# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The guard of a change: a process on the machine that rolls back unless the change is confirmed in time."""

from __future__ import annotations

import contextlib
import os
import time

# Gates and managers are imported only when used, but the agent must carry all of them.
from ..gates import completion, effective, http_gates, kernels, rendezvous, router, transfer  # noqa: F401
from ..pdops_error import PdopsError
from ..services import supervisor, supervisor_rpc, systemd  # noqa: F401
from ..store.store import Store
from . import agent, guard_place, guard_unit, rollback, who
from . import record as rules
from .book import Book
from .guard_place import is_alive

POLL_S = 0.5
_BEGIN_POLL_S = 0.05
#: A fresh interpreter and the imports; the machine may be busy loading a model.
_START_S = 20.0


def ensure(store: Store, packed: str, record: rules.Record, under_systemd: bool) -> list[str]:
    """Start the guard unless one is there, and wait until it has taken its place; return what is to be told of it.

    Raises :class:`PdopsError` when it does not: a change without a guard must not go on.

    :param record: of the change, which need not be written yet (:func:`.guard_place.beginning`)
    """
    book, change_id = Book(store), record["id"]
    if is_alive(book.folder, change_id):
        return []
    units = [str(item["unit"]) for item in record["instances"]]
    told = agent.start_guard(store, packed, change_id, under_systemd, units)
    deadline = time.monotonic() + _START_S
    while True:
        # Asked first: this process may be the one that stood still for so long, and then the guard is there.
        late = time.monotonic() >= deadline
        if is_alive(book.folder, change_id):
            return told
        if book.exists(change_id) and book.load(change_id)["state"] in rules.ENDED:
            return told
        if late:
            break
        time.sleep(0.01)
    raise PdopsError(
        f"the guard of change {change_id} did not come up within {_START_S:.0f} s; see {store.state_dir}/agent/guard.log. No script was changed."
    )


def watch(book: Book, change_id: str) -> int:
    """Sleep until the change is confirmed, or roll it back; return an exit status.

    The lease is read again every half second, so a renewal is seen in time whatever the clocks do. Nothing but the end of the
    change, or of its record, ends the guard: a lock that somebody holds or a full disk may be over at any time.
    """
    if not _begins(book, change_id):
        return guard_unit.EXIT_ENDED
    told = ""
    while True:
        try:
            code = _act(book, change_id)
        except (PdopsError, OSError) as error:
            if not book.exists(change_id):
                raise
            if str(error) != told:
                told = str(error)
                _say(f"change {change_id}: {told}")
            code = None
            time.sleep(POLL_S)
        if code is not None:
            return code


def _begins(book: Book, change_id: str) -> bool:
    """Wait until the record is written; False when who was to write it was refused or died, so that there is nothing to watch."""
    while not book.exists(change_id):
        # Nor may the same change begin again, after a cut connection, between the look and the leaving: it would count on this guard.
        with guard_place.none_begins(book.folder) as none:
            if none and not book.exists(change_id):
                if not os.path.isdir(book.folder) or book.has_begun(change_id):
                    return True  # it was there and is gone
                guard_place.leave(book.folder, change_id)
                return False
        time.sleep(_BEGIN_POLL_S)
    return True


def _act(book: Book, change_id: str) -> int | None:
    """What there is to do now; an exit status when nothing is left to do."""
    record = book.load(change_id)
    if record["state"] in rules.ENDED:
        failed = record["state"] == "rollback-failed"
        return guard_unit.EXIT_ROLLBACK_FAILED if failed else guard_unit.EXIT_ENDED
    reason = record["reason"]
    if record["state"] == "open":
        if rules.lease_left_s(record) > 0:
            time.sleep(POLL_S)
            return None
        reason = _due(record)
        try:
            book.set_state(change_id, "rolling-back", reason, ("open",))
            return None
        except (PdopsError, OSError):
            if book.load(change_id)["state"] != "open":
                return None  # a confirm came in between: then it holds
            if _can_write(book):
                raise  # somebody holds the lock
            # The old scripts come back all the same: when the lease is over, nobody can go on with this change.
            _say(f"change {change_id}: goes back, though the state folder cannot be written")
    ended = rollback.roll_back(book, change_id, reason)
    _say(f"change {change_id}: {ended['state']}: {ended['reason']}")
    return None


def _can_write(book: Book) -> bool:
    try:
        Store(book.store.state_dir).prepare()
    except (PdopsError, OSError):
        return False
    return True


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the log may lie on a full disk
        print(line, flush=True)


def _due(record: rules.Record) -> str:
    """Why the guard acts now."""
    step = record["lease"]["step"]
    if not rules.of_this_boot(record):
        return f"the machine was rebooted after step '{step}', before anybody confirmed it"
    return (
        f"nobody confirmed it: the lease of step '{step}' ran out, "
        f"the controller of {who.told(record['leader'])} is gone or cut off"
    )


def files_first(book: Book, change_id: str) -> int:
    """After a boot, before the serve units start: the old files are put back; units are left to :func:`watch`.

    Does nothing to a change whose lease is of this boot: then its guard only starts again.
    """
    if not book.exists(change_id):
        return 0  # it begins just now, and the guard itself waits for that
    record = book.load(change_id)
    if rules.of_this_boot(record) or record["state"] not in rules.OPEN:
        return 0
    if record["state"] == "open":
        record = book.set_state(change_id, "rolling-back", _due(record), ("open",))
    said, trouble = rollback.restore_files(book, record)
    for sentence in (*said, *trouble):
        print(f"change {change_id}: {sentence}", flush=True)
    return 0


def serve(verb: str, state_dir: str, change_id: str) -> int:
    """What the holder of the guard's place does: ``guard`` watches, ``files`` puts old files back after a boot."""
    book = Book(Store(state_dir))
    if verb == "files":
        return files_first(book, change_id)
    code = watch(book, change_id)
    guard_unit.remove(change_id)
    return code

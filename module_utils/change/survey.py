# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Says what is where on one machine after any crash: changes that nobody ended, their files, guards and units. Read-only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..deployment import Instance
from ..pdops_error import PdopsError
from ..services.choosing import manager_for
from ..services.instance import status_dict
from ..store.atomic import ABSENT, leftovers_of, read_regular, sha256_of
from ..store.backups import MOST_BYTES
from ..store.store import Store
from . import record as rules
from . import who
from .book import Book
from .split import NEWEST

FINISHES = ("back", "forward")


def file_now(item: Mapping[str, Any]) -> str:
    """What one file of a change is now: ``old``, ``new``, ``between`` (of a change that this one took over), ``gone``,
    ``foreign`` (somebody else's content) or ``unreadable``."""
    path = str(item["path"])
    if not os.path.lexists(path):
        return "old" if item["sha256_before"] == ABSENT else "gone"
    try:
        now = sha256_of(read_regular(path, MOST_BYTES))
    except PdopsError:
        return "unreadable"
    if now == item["sha256_before"]:
        return "old"
    if now == item["sha256_after"]:
        return "new"
    return "between" if now in item.get("ours", []) else "foreign"


def controller_of(record: rules.Record) -> str:
    """``gone`` when it is known to be dead or its lease is of an earlier boot or over, ``living``, or ``unknown``."""
    dead = who.is_gone(record["leader"])
    if dead or not rules.of_this_boot(record) or rules.lease_left_s(record) <= 0:
        return "gone"
    return "living" if dead is False else "unknown"


def change_seen(book: Book, record: rules.Record, take_over: str | None) -> dict[str, Any]:
    """A change that nobody ended, with what became of it: more than :func:`record.summary_of`."""
    files = [{**told, "now": file_now(item)} for told, item in zip(rules.summary_of(record)["files"], record["files"])]
    return {
        **book.summary(record, take_over),
        "files": files,
        "boot": "this" if rules.of_this_boot(record) else "earlier",
        "controller": controller_of(record),
        "renewed": record["lease"].get("renewed", record["opened"]),
        "record": os.path.join(book.folder, f"{record['id']}.json"),
    }


def ended_seen(record: rules.Record) -> dict[str, Any]:
    """A change that ended, with what its files have now."""
    told = rules.summary_of(record)
    return {**told, "files": [{**one, "now": file_now(item)} for one, item in zip(told["files"], record["files"])]}


def _unit(instance: Instance) -> dict[str, Any]:
    try:
        status = manager_for(instance.manager, instance.supervisor_config).status(instance.unit)
    except PdopsError as error:
        return {"role": instance.role, "error": str(error)}
    return {"role": instance.role, **status_dict(status)}


def survey(instances: Iterable[Instance], state_dir: str, take_over: str | None = None) -> dict[str, Any]:
    """``changes`` (nobody ended them, newest first), ``newest`` (the last one that ended), ``ended`` (some of these, newest first),
    ``units``, ``leftovers``.

    A record that cannot be read is a sentence in ``unreadable`` and does not hide the others: this is what one asks
    when something is broken.
    """
    here = list(instances)
    specs = [instance.as_dict() for instance in here]
    book = Book(Store(state_dir))
    records, unreadable = book.readable()
    ours = [record for record in records if rules.overlaps(record, specs)]
    pending = rules.unsettled(ours)
    names = {record["id"] for record in pending}
    ended = [record for record in ours if record["id"] not in names]
    return {
        "changes": [change_seen(book, record, take_over) for record in pending],
        "newest": rules.summary_of(ended[-1]) if ended else None,
        "ended": [ended_seen(record) for record in ended[: -NEWEST - 1 : -1]],
        "unreadable": unreadable,
        "units": {instance.name: _unit(instance) for instance in here},
        "leftovers": sorted({path for instance in here for path in leftovers_of(instance.serve_script)}),
    }


def to_finish(seen: Mapping[str, Any], take_over: str | None) -> dict[str, Any] | None:
    """The change that ``finish`` brings to an end on this machine: the newest; None when there is none.

    Raises :class:`PdopsError` when a controller may still lead it, and the operator did not say to take it over; and
    when a record cannot be read, which may be the one of the newest change.
    """
    if seen["unreadable"]:
        raise PdopsError(f"{seen['unreadable'][0]} Nothing was done, because it may be the newest change.")
    if not seen["changes"]:
        return None
    newest = dict(seen["changes"][0])
    if newest["state"] == "open" and not newest["free"] and take_over != newest["id"]:
        left = max(0.0, newest["lease_left_s"])
        alive = (
            "its controller is alive"
            if newest["controller"] == "living"
            else "nobody here sees whether its controller is"
        )
        raise PdopsError(
            f"change {newest['id']} ({newest['summary']}) of {newest['who']} is open since {newest['opened']}, now at "
            f"'{newest['last_step']}', and {alive}; its lease runs {left:.0f} s more. Wait for it to end, or take it over "
            f"with -e take_over={newest['id']}."
        )
    return newest

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Takes the next step of a change: written down before its effect, and never without a living guard. What no change leads, beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..pdops_error import PdopsError
from ..store.store import Store
from . import record as rules
from .book import Book
from .guard_place import is_alive

_START_S = 10.0
_POLL_S = 0.05


def take_step(
    store: Store, change_id: str, step: str, instance: str, said: str, budget_s: float
) -> tuple[rules.Record, list[str]]:
    """Note the step and renew the lease by ``budget_s`` seconds; returns the record and sentences to warn with.

    A guard that was killed in the meantime is started again first, since a step without one would not be
    undone if its controller died too. Raises :class:`PdopsError` when it does not come, or the change has ended.
    """
    book = Book(store)
    warnings = guard_again(book, change_id, step, instance)
    return book.note_step(change_id, step, instance, said, budget_s), warnings


def guard_again(book: Book, change_id: str, step: str, instance: str = "") -> list[str]:
    """Start the guard again where it was killed; a sentence to warn with when it was. Raises as :func:`take_step`."""
    if is_alive(book.folder, change_id):
        return []
    _start_again(book, rules.require_open(book.load(change_id), step))
    before = f"{step} {instance}".rstrip()
    return [f"the guard of change {change_id} was gone before {before}, and was started again"]


def act_alone(
    store: Store, row: Mapping[str, Any], act: Callable[[bool], dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Do what no change leads, with its lines in the journal when it changes something; returns its result and sentences to warn with.

    It may be what mends a deployment, so it does not wait for a journal that cannot be written.

    :param row: what the lines say, see :func:`..store.doing.journaled`
    :param act: with True it only looks, and its result says in ``changed`` whether there is something to do
    """
    if not act(True)["changed"]:
        return act(False), []
    # Here and not above: a step of a change is a short call of which imports are the larger part.
    from ..store.doing import journaled

    with journaled(store, row, must=False) as doing:
        result = act(False)
    return result, doing.trouble


def _newest_agent(store: Store) -> str:
    folder = os.path.join(store.state_dir, "agent")
    try:
        found = [entry for entry in os.scandir(folder) if entry.name.endswith(".pyz") and entry.is_file()]
    except OSError:
        found = []
    if not found:
        raise PdopsError(
            f"the guard is gone, and so is its program below {folder}; nothing more was done, run ansible-playbook verify.yml"
        )
    return max(found, key=lambda entry: entry.stat().st_mtime).path


def _start_again(book: Book, record: rules.Record) -> None:
    # Seldom needed, and a start or a stop is a short call of which imports are the larger part.
    from . import agent

    under_systemd = any(item["manager"] == "systemd" for item in record["instances"])
    units = [str(item["unit"]) for item in record["instances"]]
    agent.start_guard(book.store, _newest_agent(book.store), record["id"], under_systemd, units)
    deadline = time.monotonic() + _START_S
    while not is_alive(book.folder, record["id"]):
        if time.monotonic() >= deadline:
            raise PdopsError(
                f"the guard of change {record['id']} is gone and did not come up again within {_START_S:.0f} s; "
                f"see {book.store.state_dir}/agent/guard.log"
            )
        time.sleep(_POLL_S)

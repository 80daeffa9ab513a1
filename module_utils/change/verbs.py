# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The verbs of a change on one machine, as the module ``pd_change`` calls them."""

from __future__ import annotations

from typing import Any

from ..store.store import Store
from . import guard_place
from . import record as rules
from .book import Book, Params, now_utc, told_of


def run(params: Params, check_mode: bool) -> dict[str, Any]:
    """Carry out ``params['verb']``; see the module's documentation for the parameters."""
    book = Book(Store(params["state_dir"]))
    verb = params["verb"]
    if verb == "status":
        record = book.load(params["change_id"])
        alive = guard_place.is_alive(book.folder, record["id"])
        return {**told_of(record, changed=False), "guard_alive": alive}
    if check_mode:
        return {
            "changed": verb in ("begin", "apply", "rollback"),
            "skipped_effect": f"{verb} is not done in check mode",
        }
    # What begins a change or puts it back brings the whole guard, and what writes scripts their parser; the others come more
    # often, are short, and imports are most of what a call costs.
    if verb in ("begin", "rollback"):
        from . import guarding

        return guarding.begin(book, params) if verb == "begin" else guarding.rollback(book, params)
    if verb == "apply":
        from .applying import apply

        return apply(book, params)
    return {"renew": _renew, "confirm": _confirm, "report": _report}[verb](book, params)


def _renew(book: Book, params: Params) -> dict[str, Any]:
    def step(record: rules.Record) -> rules.Record:
        record = rules.with_touched(record, params.get("touches") or [])
        return rules.with_lease(record, params["step"], float(params["budget_s"]), now_utc())

    # As before a step, which another machine takes now: this one's scripts may be changed already.
    warnings = []
    if not guard_place.is_alive(book.folder, params["change_id"]):
        from .stepping import guard_again  # seldom needed

        warnings = guard_again(book, params["change_id"], params["step"])
    return {**told_of(book.update(params["change_id"], "renew", step), changed=False), "warnings": warnings}


def _confirm(book: Book, params: Params) -> dict[str, Any]:
    return told_of(book.confirm(params["change_id"], params["said"], params.get("outage_s")), changed=False)


def _report(book: Book, params: Params) -> dict[str, Any]:
    for change_id in params["ids"]:
        book.mark_reported(change_id)
    return {"changed": False, "reported": params["ids"]}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Verbs of a change that start its guard: what opens it, and what puts it back."""

from __future__ import annotations

import os
from typing import Any

from ..left_by_dead import clear_state
from ..pdops_error import PdopsError
from ..secret_masking import mask_text
from . import agent, guard, guard_place, inheriting
from . import record as rules
from .book import Book, Params, now_utc, told_of
from .contents import check_as_planned, file_of

#: What the book imports only when a change begins: with it here the agent, which packs what is imported, carries all that its code names.
_PACKED = (inheriting,)


def _under_systemd(record: rules.Record) -> bool:
    return any(item["manager"] == "systemd" for item in record["instances"])


def begin(book: Book, params: Params) -> dict[str, Any]:
    store = book.store
    store.check_usable()
    files = [file_of(edit) for edit in params["edits"]]
    for item in files:
        if item.get("kind"):
            store.content(item["sha256_after"])  # staged, or nothing may begin
    record = rules.new_record(
        params["change_id"],
        params["deployment"],
        params["intent"],
        params["summary"],
        dict(params["leader"]),
        files,
        params["instances"],
        float(params["budget_s"]),
        now_utc(),
        float(params["slack_s"]),
        params.get("elsewhere") or [],
        params.get("scope") or "co",
        params.get("restart") or [],
        {name: mask_text(item) if isinstance(item, str) else item for name, item in (params.get("why") or {}).items()},
        params.get("finishes") or {},
    )
    take_over = params["take_over"] or None
    clear_state(store.state_dir)
    packed = agent.install(store)
    # The guard first: a change that is open holds the machine, and from a former one it takes over scripts that are changed already.
    with guard_place.beginning(book.folder):
        book.admit(record, take_over)
        told = guard.ensure(store, packed, record, _under_systemd(record))
        with store.lock(f"begin {record['id']}"):
            if not book.exists(record["id"]):
                book.admit(record, take_over)
                check_as_planned(params["edits"], store)
            opened = book.begin(record, take_over)
    return {**told_of(opened, changed=True), "guard": told}


def _said_without_record(book: Book, params: Params) -> str:
    """What a rollback says that finds no record: nothing had begun, or it was deleted in the middle of the change.

    Raises :class:`PdopsError` when it had begun: then nobody can put the old state back, and a person must look.
    """
    change_id = params["change_id"]
    scripts = ", ".join(str(item["serve_script"]) for item in params["instances"])
    look = (
        f"compare {scripts} with their versions and backups (history.yml), put right what differs, then run restart.yml"
    )
    # A guard that is there without a record waits for one that is never written, and leaves.
    waits = guard_place.is_alive(book.folder, change_id)
    if book.has_begun(change_id) or (not waits and guard_place.was_taken(book.folder, change_id)):
        raise PdopsError(
            f"the record of change {change_id} is gone from {book.folder} in the middle of the change, so nothing was put back: {look}."
        )
    if not os.path.exists(book.store.journal_path):
        return (
            f"{book.store.state_dir} has no record of this change: nothing had begun here, or that folder was deleted "
            f"in the middle of the change; in that case {look}"
        )
    return "nothing had begun here"


def rollback(book: Book, params: Params) -> dict[str, Any]:
    """Hand the rollback to the guard: one way back, whether a controller still lives or not."""
    if not book.exists(params["change_id"]):
        return {"changed": False, "said": _said_without_record(book, params)}
    # Under one lock: the guard may begin at this very moment, and a verb may come twice after a cut connection.
    with book.store.lock(f"rollback {params['change_id']}", try_write=False):
        record = book.load(params["change_id"])
        if record["state"] == "rollback-failed":
            later = [item for item in book.all() if item["opened"] >= record["opened"] and item["id"] != record["id"]]
            if rules.settled(record, later):
                raise PdopsError(
                    f"change {record['id']}: its rollback failed, but a later change ended well, which trying again would undo; "
                    "see recover.yml."
                )
        if params.get("alone") and record["state"] in ("open", "rollback-failed", "rolling-back"):
            book.note_led(record["id"])
        if record["state"] in ("open", "rollback-failed"):
            record = book.set_state(
                record["id"], "rolling-back", params["said"] or "asked for", ("open", "rollback-failed")
            )
        elif record["state"] == "confirmed":
            raise PdopsError(
                f"change {record['id']} is confirmed ({record['reason']}), which its guard does not put back; "
                "see whether it holds everywhere with ansible-playbook recover.yml.",
                change=rules.summary_of(record),
            )
        elif record["state"] == "superseded":
            rules.require_open(record, "rollback")
    if record["state"] == "rolling-back":
        guard.ensure(book.store, agent.install(book.store), record, _under_systemd(record))
    return told_of(book.load(record["id"]), changed=True)

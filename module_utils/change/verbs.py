# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The verbs of a change on one machine, as the module ``pd_change`` calls them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..knob_edit import EditRequest, apply_edit, masked_diff, plan_edit
from ..pdops_error import PdopsError
from ..secret_masking import mask_text
from ..store.store import Store
from . import agent, guard, guard_place, who
from . import record as rules
from .book import Book, now_utc
from .contents import KINDS, content_now, file_of, make_units_known, write_content
from .stepping import take_step

Params = Mapping[str, Any]


def run(params: Params, check_mode: bool) -> dict[str, Any]:
    """Carry out ``params['verb']``; see the module's documentation for the parameters."""
    book = Book(Store(params["state_dir"]))
    verb = params["verb"]
    if verb == "status":
        record = book.load(params["change_id"])
        alive = guard_place.is_alive(book.folder, record["id"])
        return {**_told(record, changed=False), "guard_alive": alive}
    if check_mode:
        return {
            "changed": verb in ("begin", "apply", "rollback"),
            "skipped_effect": f"{verb} is not done in check mode",
        }
    return {
        "begin": _begin,
        "renew": _renew,
        "apply": _apply,
        "confirm": _confirm,
        "rollback": _rollback,
        "report": _report,
    }[verb](book, params)


def _told(record: rules.Record, changed: bool) -> dict[str, Any]:
    return {"changed": changed, "change": rules.summary_of(record), "steps": record["steps"]}


def _under_systemd(record: rules.Record) -> bool:
    return any(item["manager"] == "systemd" for item in record["instances"])


def _begin(book: Book, params: Params) -> dict[str, Any]:
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
    packed = agent.install(store)
    opened = book.begin(record, params["take_over"] or None)
    try:
        told = guard.ensure(store, packed, opened["id"], _under_systemd(opened))
    except PdopsError as error:
        book.set_state(opened["id"], "rolling-back", str(error), ("open",))
        book.set_state(opened["id"], "rolled-back", str(error), ("rolling-back",))
        book.mark_reported(opened["id"])
        raise
    return {**_told(opened, changed=True), "guard": told}


def _renew(book: Book, params: Params) -> dict[str, Any]:
    def step(record: rules.Record) -> rules.Record:
        record = rules.with_touched(record, params.get("touches") or [])
        return rules.with_lease(record, params["step"], float(params["budget_s"]), now_utc())

    return _told(book.update(params["change_id"], "renew", step), changed=False)


def request_of(edit: Mapping[str, Any], record: rules.Record) -> EditRequest:
    """The edit as the plan worked it out; the script must still be what the plan saw."""
    asked = edit["request"]
    return EditRequest(
        path=asked["path"],
        knobs={name: None if value is None else str(value) for name, value in asked["knobs"].items()},
        state=asked["state"],
        from_version=asked.get("from_version"),
        from_backup=asked.get("from_backup"),
        expect_only=bool(asked.get("expect_only", True)),
        lines_only=bool(asked.get("lines_only", False)),
        expect_sha256=edit["sha256_before"],
        label=edit.get("label") or f"{record['verb']} {edit['knob']}",
        actor=who.told(record["leader"]),
        change_id=record["id"],
    )


def _still_held(book: Book, record: rules.Record, path: str) -> None:
    """Once more, right before the effect: a guard whose lease ran out in between has the word."""
    live = rules.require_open(book.load(record["id"]), "apply")
    if rules.lease_left_s(live) <= 0:
        raise PdopsError(f"change {record['id']}: its lease ran out before {path} was written; nothing was.")


def _apply(book: Book, params: Params) -> dict[str, Any]:
    what = "file" if any(edit.get("kind") in ("unit", "key") for edit in params["edits"]) else "script"
    scripts = f"{len(params['edits'])} {what}{'s' if len(params['edits']) != 1 else ''}"
    record, warnings = take_step(book.store, params["change_id"], "apply", "", scripts, float(params["budget_s"]))
    applied = []
    diffs = []
    for edit in params["edits"]:
        # Under one lock from the look to the effect: the same verb may run twice at once, when a connection was cut.
        with book.store.lock(f"apply {record['id']}"):
            if content_now(edit["path"]) == edit["sha256_after"]:
                continue  # re-entered after a cut connection: this one is done
            if edit.get("kind") in KINDS:
                _still_held(book, record, edit["path"])
                write_content(edit, record, book.store)
                applied.append(
                    {
                        "instance": edit["instance"],
                        "path": edit["path"],
                        "before": edit["sha256_before"],
                        "after": edit["sha256_after"],
                    }
                )
                diffs.append(edit["diff"])
                continue
            plan = plan_edit(request_of(edit, record), book.store)
            if plan.sha256_after != edit["sha256_after"]:
                raise PdopsError(
                    f"{edit['path']}: the edit would not give what the plan showed; nothing of it was written, run again."
                )
            _still_held(book, record, edit["path"])
            apply_edit(plan, book.store)
        applied.append(
            {
                "instance": edit["instance"],
                "path": edit["path"],
                "before": plan.sha256_before,
                "after": plan.sha256_after,
            }
        )
        diffs.append(masked_diff(plan))
    make_units_known(params["edits"])
    return {
        **_told(book.load(record["id"]), changed=bool(applied)),
        "applied": applied,
        "diff": diffs,
        "warnings": warnings,
    }


def _confirm(book: Book, params: Params) -> dict[str, Any]:
    return _told(book.confirm(params["change_id"], params["said"], params.get("outage_s")), changed=False)


def _said_without_record(book: Book, params: Params) -> str:
    """What a rollback says that finds no record: nothing had begun, or it was deleted in the middle of the change.

    Raises :class:`PdopsError` when it had begun: then nobody can put the old state back, and a person must look.
    """
    change_id = params["change_id"]
    scripts = ", ".join(str(item["serve_script"]) for item in params["instances"])
    look = (
        f"compare {scripts} with their versions and backups (history.yml), put right what differs, then run restart.yml"
    )
    noted = any(entry.get("verb") == "begin" and entry.get("change_id") == change_id for entry in book.store.journal())
    if noted or guard_place.was_taken(book.folder, change_id):
        raise PdopsError(
            f"the record of change {change_id} is gone from {book.folder} in the middle of the change, so nothing was put back: {look}."
        )
    if not os.path.exists(book.store.journal_path):
        return (
            f"{book.store.state_dir} has no record of this change: nothing had begun here, or that folder was deleted "
            f"in the middle of the change; in that case {look}"
        )
    return "nothing had begun here"


def _rollback(book: Book, params: Params) -> dict[str, Any]:
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
        elif record["state"] in ("confirmed", "superseded"):
            rules.require_open(record, "rollback")
    if record["state"] == "rolling-back":
        guard.ensure(book.store, agent.install(book.store), record["id"], _under_systemd(record))
    return _told(book.load(record["id"]), changed=True)


def _report(book: Book, params: Params) -> dict[str, Any]:
    for change_id in params["ids"]:
        book.mark_reported(change_id)
    return {"changed": False, "reported": params["ids"]}

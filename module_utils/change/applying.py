# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The verb of a change that writes its scripts, units and files of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..knob_edit import EditRequest, apply_edit, masked_diff, plan_edit
from ..pdops_error import PdopsError
from . import record as rules
from . import who
from .book import Book, Params, told_of
from .contents import KINDS, content_now, make_units_known, write_content
from .stepping import take_step


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


def apply(book: Book, params: Params) -> dict[str, Any]:
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
        **told_of(book.load(record["id"]), changed=bool(applied)),
        "applied": applied,
        "diff": diffs,
        "warnings": warnings,
    }

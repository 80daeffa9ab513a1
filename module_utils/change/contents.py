# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Edits that write a whole content, as ``deploy`` makes them: scripts, units and files of keys, also such as were not there before.

The content lies in the store before the change begins; an edit names it by its sha256. "Not there" is the sha256 ``absent``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ..drift import drifted
from ..knob_edit import EditPlan, EditRequest, apply_edit
from ..managed.new_file import check_creatable, create_file
from ..pdops_error import PdopsError
from ..services import unit_files
from ..store.atomic import (
    ABSENT,
    leftovers_of,
    read_regular,
    remove_leftovers,
    replace_file,
    sha256_of,
    sync_folder,
    why,
)
from ..store.backups import MOST_BYTES
from ..store.obstacles import check_replaceable
from ..store.store import Store
from . import who

#: Edits that carry their content; the others are worked out anew on the machine.
KINDS = ("script", "unit", "key")


def content_now(path: str) -> str:
    """The sha256 of what is there, or ``absent``; :class:`PdopsError` when it is no regular file or cannot be read."""
    return sha256_of(read_regular(path, MOST_BYTES)) if os.path.lexists(path) else ABSENT


def file_of(edit: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of a change keeps of an edit, so that its guard can put it back."""
    changed = edit.get("knobs") or {}
    row: dict[str, Any] = {
        "instance": edit["instance"],
        "path": edit["path"],
        "sha256_before": edit["sha256_before"],
        "sha256_after": edit["sha256_after"],
        "knobs": {name: [both["before"], both["after"]] for name, both in changed.items()},
    }
    if edit.get("knob"):
        row["knobs"] = {edit["knob"]: [edit["before"], edit["after"]]}
    if edit.get("kind") in KINDS:
        row.update(kind=edit["kind"], existed=bool(edit["existed"]), mode=edit["mode"])
    if edit.get("kind") == "unit":
        row.update(unit=edit["unit"], enabled_before=bool(edit["enabled_before"]))
    if edit.get("kind") == "key":
        row.update(owner=list(edit["owner"]), users=list(edit["users"]))
    return row


def users_of(row: Mapping[str, Any]) -> list[str]:
    """Names of the instances that read a file of a change, or of an edit: its own, and all that name a file of keys."""
    return [str(name) for name in row.get("users") or [row["instance"]]]


def check_as_planned(edits: Iterable[Mapping[str, Any]], store: Store) -> None:
    """Refuse what an edit would be refused for later, when taking back what never was written would fail as well.

    :raises PdopsError: a file is not what the plan saw
    """
    seen: dict[str, str] = {}
    for edit in edits:
        path, expected = str(edit["path"]), str(edit["sha256_before"])
        # Of several edits of one file a later one follows on the former.
        now = seen.get(path) or content_now(path)
        seen[path] = str(edit["sha256_after"])
        if now == expected:
            continue
        if edit.get("kind") in KINDS or now == ABSENT:
            raise PdopsError(
                f"{path} is not what the plan saw: somebody wrote or removed it in the meantime; nothing was touched, look at it, then run again."
            )
        raise drifted(path, store, expected, None, read_regular(path, MOST_BYTES))


def write_content(edit: Mapping[str, Any], record: Mapping[str, Any], store: Store) -> None:
    """Write one such edit; the caller holds the store's lock. Whole and durable, or not at all.

    :raises PdopsError: the file is not what the plan saw, or cannot be written; it is then untouched
    """
    path, label = str(edit["path"]), str(edit.get("label") or record["verb"])
    actor, change_id = who.told(record["leader"]), str(record["id"])
    after = store.content(str(edit["sha256_after"]))
    if edit["sha256_before"] != ABSENT:
        if edit["sha256_before"] == edit["sha256_after"]:
            return  # only enabled
        before = read_regular(path, MOST_BYTES)
        if sha256_of(before) != edit["sha256_before"]:
            raise PdopsError(f"{path} is not what the plan saw (sha256 {sha256_of(before)[:12]}); run again.")
        if edit.get("kind") == "key":
            _replace_key(path, before, after, label, actor, change_id, store)
            return
        request = EditRequest(path, {}, "rendered", label=label, actor=actor, change_id=change_id, verb="deploy")
        apply_edit(EditPlan(request, before, after, knobs=dict(edit.get("knobs") or {})), store)
        return
    check_creatable(path)
    remove_leftovers(leftovers_of(path))
    version = store.add_version(path, after, label, actor, change_id)
    try:
        create_file(path, after, int(edit["mode"]), edit.get("owner"))
    except PdopsError as error:
        if not error.details.get("replaced"):
            store.forget_newest(version)
            raise
    _journal(store, path, None, str(edit["sha256_after"]), label, actor, change_id, edit.get("knobs") or {})


def _replace_key(path: str, before: bytes, after: bytes, label: str, actor: str, change_id: str, store: Store) -> None:
    """As :func:`apply_edit`, without ever showing a line: what keys hold is in no message."""
    check_replaceable(path)
    remove_leftovers(leftovers_of(path))
    store.add_version(path, before, f"before {label}"[:120], actor, change_id)
    version = store.add_version(path, after, label, actor, change_id)
    try:
        replace_file(path, after, sha256_of(before))
    except PdopsError as error:
        if not error.details.get("replaced"):
            store.forget_newest(version)
            raise
    _journal(store, path, sha256_of(before), sha256_of(after), label, actor, change_id, {})


def _journal(
    store: Store,
    path: str,
    before: Optional[str],
    after: str,
    label: str,
    actor: str,
    change_id: str,
    knobs: Mapping[str, Any],
) -> None:
    store.write_journal(
        {
            "verb": "deploy",
            "path": path,
            "state": "rendered",
            "knobs": knobs,
            "sha256_before": before,
            "sha256_after": after,
            "label": label,
            "actor": actor,
            "change_id": change_id,
        }
    )


def make_units_known(rows: Iterable[Mapping[str, Any]]) -> None:
    """After units were written: systemd reads them, and they start at boot. May come twice."""
    units = [str(row["unit"]) for row in rows if row.get("kind") == "unit"]
    if units:
        unit_files.reload_units()
        for name in units:
            unit_files.enable(name)


def take_away(path: str) -> None:
    """Remove a file that the change made; its content is a stored version."""
    try:
        os.unlink(path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise PdopsError(f"{path} was made by the change and could not be removed: {why(error)}.") from None


def disable_units(rows: Iterable[Mapping[str, Any]]) -> None:
    """Before units are put back: those that did not start at boot before do not do so again."""
    unit_files.disable(
        [str(row["unit"]) for row in rows if row.get("kind") == "unit" and not row.get("enabled_before")]
    )


def units_put_back(rows: Iterable[Mapping[str, Any]]) -> None:
    """After units were put back, systemd reads them."""
    units = [row for row in rows if row.get("kind") == "unit"]
    if units:
        unit_files.reload_units()
        # A unit that failed is kept in memory, though its file is gone.
        unit_files.forget([str(row["unit"]) for row in units if row["sha256_before"] == ABSENT])


def newly_made(record: Mapping[str, Any]) -> set[str]:
    """Names of instances that were not there before the change: a rollback stops them and has nothing to start."""
    return {str(row["instance"]) for row in record["files"] if row.get("existed") is False}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which confirmed change ``rollback.yml`` puts back, and the edit that gives one of its scripts its former content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import knobs
from ..knob_edit import EditRequest, masked_diff, plan_edit
from ..pdops_error import PdopsError
from ..script_differences import key_difference, masked_difference, shown_lines
from ..scripts.deciding import has_knob, same_knob
from ..scripts.diffing import changed_lines
from ..scripts.reading import read_script
from ..store.atomic import ABSENT, read_regular, sha256_of
from ..store.backups import MOST_BYTES
from ..store.store import Store
from . import record as rules
from .book import Book


def undo_of(book: Book, instances: Iterable[Mapping[str, Any]], wanted: str | None) -> rules.Record | None:
    """The confirmed change of these instances: ``wanted``, or the newest that was no mere restart.

    Raises :class:`PdopsError` for a change that was not confirmed. None when this machine has no such change.
    """
    specs = list(instances)
    if wanted is not None:
        rules.check_id(wanted)
        if not book.exists(wanted):
            return None
        record = book.load(wanted)
        if not rules.overlaps(record, specs):
            return None
        if record["state"] == "rolled-back" and record.get("elsewhere"):
            return None  # it may hold on another machine, and here it went back
        if record["state"] != "confirmed":
            raise PdopsError(
                f"change {wanted} is {record['state']}, and only a confirmed one can be rolled back; see recover.yml."
            )
        return record
    ours = [item for item in book.all() if item["state"] == "confirmed" and rules.overlaps(item, specs)]
    # A restart that took an interrupted change over confirmed its scripts with it.
    return next((item for item in reversed(ours) if item.get("verb") != "restart" or item["files"]), None)


def reverted_by(book: Book, path: str, knob: str, now: bytes) -> rules.Record | None:
    """The revert that made of ``knob`` in a script what it is now; None when its newest change was something else.

    To revert a knob a second time would bring back what was reverted, and the second time may be nothing but the same
    command after an interrupted run. So one that is still open counts, and one that went back or that another run took over does not.
    A content that is lost or damaged tells nothing, and what it may have changed is passed over.
    """
    for record in reversed(book.all()):
        item = next((item for item in _scripts(record) if item["path"] == path), None)
        if item is None or record["state"] not in ("open", "confirmed") or item["sha256_before"] == ABSENT:
            continue
        try:
            before, after = (book.store.content(item[name]) for name in ("sha256_before", "sha256_after"))
        except PdopsError:
            continue
        if not same_knob(before, after, knob):
            verb = (record.get("finishes") or {}).get("verb") or record.get("verb")
            return record if verb == "revert" and same_knob(after, now, knob) else None
    return None


def began_with(book: Book, path: str, verb: str, now: bytes) -> bytes:
    """What a script was before an interrupted change of ``verb`` that wrote what it holds now; ``now`` when there is none.

    Of that the same command, typed again, has to reckon what ``previous`` means, or it would take back what it began.
    """
    for record in reversed(book.all()):
        item = next((item for item in _scripts(record) if item["path"] == path), None)
        if item and record["state"] == "open" and record.get("verb") == verb and item["sha256_after"] == sha256_of(now):
            return now if item["sha256_before"] == ABSENT else book.store.content(item["sha256_before"])
    return now


def redo_of(book: Book, instances: Iterable[Mapping[str, Any]], wanted: str | None) -> rules.Record | None:
    """The change ``wanted`` where it went back on this machine; None where it did not, or nothing was asked for."""
    if wanted is None or not book.exists(rules.check_id(wanted)):
        return None
    record = book.load(wanted)
    went_back = record["state"] == "rolled-back" and rules.overlaps(record, instances)
    return record if went_back else None


def edit_forward(store: Store, record: rules.Record, instance: str) -> dict[str, Any] | None:
    """The edit that gives a script the whole content that ``record`` had written before it went back; None when it has that.

    Refused when the script is not what the way back left.
    """
    item = next((item for item in _scripts(record) if item["instance"] == instance), None)
    if item is None or sha256_of(read_regular(item["path"], MOST_BYTES)) == item["sha256_after"]:
        return None
    forth = {
        **record,
        "files": [{**item, "sha256_before": item["sha256_after"], "sha256_after": item["sha256_before"]}],
    }
    edit = edit_back(store, forth, instance, item["path"], True)
    if edit is not None:
        edit["label"] = f"carried through: {record['id']}"
        edit["source"] = {**edit["source"], "told": f"what change {record['id']} wrote ({item['sha256_after'][:12]})"}
    return edit


def _values(content: bytes) -> dict[str, str]:
    active = read_script(content).active()
    return {
        name: export.value for name, export in active.items() if export.value is not None and not knobs.is_secret(name)
    }


def _expected(before: bytes, after: bytes) -> dict[str, str | None]:
    """Knobs that the engine must have differently afterwards; what only a run tells is left out."""
    old, new = _values(before), _values(after)
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return {name: new.get(name) for name in names if name in new or not has_knob(after, name)}


def edit_back(store: Store, record: rules.Record, instance: str, path: str, expect_only: bool) -> dict[str, Any] | None:
    """The edit that gives ``path`` the whole content that it had before ``record``; None when it has that already.

    ``expect`` is what the engine has then, knob to value. Without ``expect_only=no`` it is refused, with the lines, when
    the script is not what the change left: those lines would be lost.
    """
    item = next((item for item in _scripts(record) if item["instance"] == instance or item["path"] == path), None)
    if item is None:
        return None
    if item["sha256_before"] == ABSENT:
        return _made_by(record, instance, path)
    now = read_regular(path, MOST_BYTES)
    if sha256_of(now) == item["sha256_before"]:
        return None
    request = EditRequest(path=path, knobs={}, state="restored", from_version=item["sha256_before"], expect_only=False)
    answer: dict[str, Any] = {
        "instance": instance,
        "path": path,
        "knob": "",
        "before": None,
        "after": None,
        "line_after": None,
        "label": f"rollback of {record['id']}",
        "source": {
            "kind": "version",
            "name": item["sha256_before"],
            "told": f"what it was before change {record['id']} ({item['sha256_before'][:12]})",
        },
        "request": {
            "path": path,
            "knobs": {},
            "state": "restored",
            "from_version": item["sha256_before"],
            "from_backup": None,
            "expect_only": False,
            "lines_only": False,
        },
        "expect": {},
        "refused": None,
    }
    try:
        if sha256_of(now) not in (item["sha256_after"], *item.get("ours", [])) and expect_only:
            raise _drifted(store, item, path, now, record["id"])
        plan = plan_edit(request, store)
    except PdopsError as error:
        return {**answer, "refused": str(error), **error.details}
    expect = _expected(plan.before, plan.after)
    if len(expect) == 1:
        name = next(iter(expect))
        answer.update(knob=name, before=_values(plan.before).get(name), after=expect[name])
    return {
        **answer,
        "expect": expect,
        "sha256_before": plan.sha256_before,
        "sha256_after": plan.sha256_after,
        "changed": True,
        "changed_lines": shown_lines(plan.before, plan.after, changed_lines(plan.before, plan.after)),
        "diff": masked_diff(plan),
        "warnings": list(plan.warnings),
        "other_lines": [],
    }


def _scripts(record: rules.Record) -> list[dict[str, Any]]:
    return [item for item in record["files"] if item.get("kind") not in ("unit", "key")]


def unit_edits_back(store: Store, record: rules.Record, instance: str, expect_only: bool) -> list[dict[str, Any]]:
    """The edits that give the unit files and files of keys of ``instance`` the content that they had before ``record``.

    A file of keys that the change added stays: no script of before names it.
    """
    edits = []
    for item in record["files"]:
        path = str(item["path"])
        kind = item.get("kind")
        if kind not in ("unit", "key") or item["instance"] != instance:
            continue
        if item["sha256_before"] == ABSENT:
            if kind == "key":
                continue
            edits.append(_made_by(record, instance, path))
            continue
        now = read_regular(path, MOST_BYTES)
        if sha256_of(now) == item["sha256_before"]:
            continue
        answer = {**_made_by(record, instance, path), "kind": kind, "refused": None}
        try:
            if sha256_of(now) not in (item["sha256_after"], *item.get("ours", [])) and expect_only:
                raise _drifted(store, item, path, now, record["id"])
            then = store.content(item["sha256_before"])
        except PdopsError as error:
            edits.append({**answer, "refused": str(error), **error.details})
            continue
        answer.update(
            existed=True,
            mode=item["mode"],
            sha256_before=sha256_of(now),
            sha256_after=item["sha256_before"],
            changed=True,
            changed_lines=[],
        )
        if kind == "key":
            answer.update(owner=item["owner"], users=item["users"], diff=key_difference(path))
        else:
            answer.update(
                unit=item["unit"],
                enabled_before=True,
                changed_lines=shown_lines(now, then, changed_lines(now, then)),
                diff=masked_difference(path, now, then),
            )
        edits.append(answer)
    return edits


def _made_by(record: rules.Record, instance: str, path: str) -> dict[str, Any]:
    """The fields of an edit of a whole content, refused because there is nothing before what the change made."""
    return {
        "instance": instance,
        "path": path,
        "kind": "unit",
        "knob": "",
        "knobs": {},
        "before": None,
        "after": None,
        "line_after": None,
        "label": f"rollback of {record['id']}",
        "source": {
            "kind": "version",
            "name": record["id"],
            "told": f"what it was before change {record['id']}",
        },
        "request": None,
        "expect": {},
        "warnings": [],
        "other_lines": [],
        "refused": f"change {record['id']} made {path}, so there is nothing before it to go back to: to change what is deployed, change the "
        "inventory and run deploy.yml; to take it away, stop and disable its unit and remove both files.",
    }


def _drifted(store: Store, item: Mapping[str, Any], path: str, now: bytes, change_id: str) -> PdopsError:
    lines: list[dict[str, Any]] = []
    shown = ""
    try:
        left = now if item.get("kind") == "key" else store.content(item["sha256_after"])
    except PdopsError as error:
        shown = f" (how, cannot be shown: {error})"
    else:
        lines = shown_lines(left, now, changed_lines(left, now))
        shown = "".join(f"\n  {line['sign']}{line['line']}: {line['text']}" for line in lines[:20])
        if len(lines) > 20:
            shown += f"\n  ... and {len(lines) - 20} more lines"
    return PdopsError(
        f"{path} was changed since change {change_id}, and that would be lost; put back only what you mean with revert_knob.yml, "
        f"or all of it with -e expect_only=no (the present content stays a stored version).{shown}",
        other_lines=lines,
    )

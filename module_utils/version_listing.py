# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""All that is known of a script's past as one list: versions with what each one changed, and backups beside it."""

from __future__ import annotations

import os
from typing import Any, Optional

from . import knobs
from .pdops_error import PdopsError
from .scripts.reading import read_script
from .source_values import names_in
from .store.atomic import read_regular, sha256_of
from .store.backups import MOST_BYTES, look_for_backups
from .store.store import Store, Version
from .store.versions import rows_of
from .version_diff import Values, knob_differences, knob_values


def list_versions(path: str, store: Store, knob: Optional[str] = None) -> dict[str, Any]:
    """Versions newest first, backups newest first, and the script as it is now; reads only.

    Each version has ``knobs`` (what differs to the next older one, masked), ``other_lines`` (how many lines differ besides), ``now``
    (whether the script holds that content) and ``problem`` (a sentence when the content is lost or damaged). The oldest
    one (``first``) has all its knobs as new ones, since nothing older is known. With ``knob`` only versions remain in which it changed, and
    backups that have it; ``meant`` is then the knob with nearly that name, when none of the contents has the one that was given.
    """
    if not os.path.isabs(path):
        raise PdopsError(f"path {path!r} is not absolute; give the script's full path.")
    if knob is not None:
        knobs.check_name(knob)
    now, trouble = _now(path)
    present = sha256_of(now) if now is not None else None
    versions = store.versions(path)
    contents = [_content(version, store) for version in versions]
    listed = []
    for number, version in enumerate(versions):
        values, others = _to_next_older(contents, number)
        row = _row(version, contents[number], present, values, others)
        listed.append({**row, "first": number + 1 == len(versions)})
    newest = next((content for content, _ in contents if content is not None), None)
    answer: dict[str, Any] = {
        "path": path,
        "script": _script(now, trouble, present, versions, newest),
        "versions": [row for row in listed if knob is None or knob in (row["knobs"] or {})],
        "versions_total": len(versions),
    }
    look = look_for_backups(path)
    backups, skipped = [], list(look.skipped)
    names = {name for content in (now, *(one for one, _ in contents)) if content for name in names_in(content)}
    known = {(version.sha256, version.label) for version in versions}
    for backup in look.found:
        try:
            content = read_regular(backup.path, MOST_BYTES)
        except PdopsError as error:
            skipped.append(str(error))
            continue
        names |= names_in(content)
        values, others = knob_differences(content, now) if now is not None else ({}, 0)
        if knob is not None and knob not in values and knob not in read_script(content).active():
            continue
        backups.append(
            {
                "path": backup.path,
                "label": backup.label,
                "time": backup.time,
                "sha256": sha256_of(content),
                "size": len(content),
                "now": sha256_of(content) == present,
                "imported": (sha256_of(content), backup.label) in known,
                "knobs": values,
                "other_lines": others,
            }
        )
    torn = [
        f"line {number} of {store.index_path(path)} is no whole entry and was passed over; serve_version verb=verify tells more."
        for number, row in rows_of(store.index_path(path))
        if row is None
    ]
    near = knobs.near_name(knob, names) if knob is not None and knob not in names else None
    return {**answer, "backups": backups, "passed_over": [*torn, *skipped], "meant": near}


def _now(path: str) -> tuple[Optional[bytes], Optional[str]]:
    """The script as it is; or why it cannot be had: its past can be listed all the same."""
    try:
        return read_regular(path, MOST_BYTES), None
    except PdopsError as error:
        return None, str(error)


def _content(version: Version, store: Store) -> tuple[Optional[bytes], Optional[str]]:
    try:
        return store.content(version.sha256), None
    except PdopsError as error:
        return None, str(error)


def _to_next_older(
    contents: list[tuple[Optional[bytes], Optional[str]]], number: int
) -> tuple[Optional[Values], Optional[int]]:
    """What a version changed; None when its content or the next older one is lost."""
    mine = contents[number][0]
    if mine is None:
        return None, None
    if number + 1 == len(contents):
        return {name: {"before": None, "after": value} for name, value in knob_values(mine).items()}, 0
    older = contents[number + 1][0]
    return (None, None) if older is None else knob_differences(older, mine)


def _row(
    version: Version,
    content: tuple[Optional[bytes], Optional[str]],
    present: Optional[str],
    values: Optional[Values],
    others: Optional[int],
) -> dict[str, Any]:
    return {
        "sha256": version.sha256,
        "label": version.label,
        "time": version.time,
        "actor": version.actor,
        "change_id": version.change_id,
        "size": version.size,
        "now": version.sha256 == present,
        "knobs": values,
        "other_lines": others,
        "problem": content[1],
    }


def _script(
    now: Optional[bytes],
    trouble: Optional[str],
    present: Optional[str],
    versions: list[Version],
    newest: Optional[bytes],
) -> dict[str, Any]:
    """The script as it is now; ``knobs`` is what differs to the newest version, as after an edit by hand."""
    values, others = knob_differences(newest, now) if now is not None and newest is not None else ({}, 0)
    if now is not None and not now.strip():
        trouble = "it is empty, so it starts nothing; restore one of its versions or backups."
    return {
        "sha256": present,
        "size": None if now is None else len(now),
        "stored": present in [version.sha256 for version in versions],
        "knobs": values,
        "other_lines": others,
        "problem": trouble,
    }

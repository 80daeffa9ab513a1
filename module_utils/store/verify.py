# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Looks through a whole store for what is damaged, lost or foreign; changes nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ..pdops_error import PdopsError
from . import state_folder
from .atomic import find_leftovers, read_own, sha256_of
from .objects import begun_to_go, named_contents, stored_objects
from .store import Store
from .versions import rows_of, version_of

_OWN = {*state_folder.FOLDERS, "journal.jsonl", "lock"}


@dataclass(frozen=True)
class Problem:
    """One finding. ``kind`` is ``damaged``, ``lost``, ``unnamed`` (a content that no version names), ``unreadable``,
    ``foreign``, ``leftover`` or ``open`` (to others)."""

    kind: str
    path: str
    sentence: str


def verify(store: Store) -> list[Problem]:
    """All problems of a store, by path; none for an absent one."""
    if not os.path.lexists(store.state_dir):
        return []
    try:
        state_folder.check(store.state_dir)
        problems: list[Problem] = []
    except PdopsError as error:
        problems = [Problem("open", store.state_dir, str(error))]
    if os.path.isdir(store.state_dir):
        # What one look cannot read must not hide what the others find.
        for look in (_modes, _top, _objects, _unnamed, _indexes, _journal, _agents):
            try:
                problems += look(store)
            except OSError as error:
                sentence = f"{error.filename} cannot be read ({error.strerror})."
                problems.append(Problem("unreadable", str(error.filename), sentence))
            except PdopsError as error:
                problems.append(Problem("unreadable", store.state_dir, str(error)))
    return sorted(dict.fromkeys(problems), key=lambda item: (item.path, item.sentence))


def _modes(store: Store) -> Iterator[Problem]:
    me = os.geteuid()
    for folder, folders, files in os.walk(store.state_dir):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode) or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                yield Problem("foreign", path, f"{path} is neither a file nor a folder; move it away.")
            elif status.st_uid != me:
                yield Problem("open", path, f"{path} belongs to uid {status.st_uid}; give it to uid {me}.")
            elif stat.S_IMODE(status.st_mode) & 0o077:
                yield Problem(
                    "open",
                    path,
                    f"{path} is open to others (mode {stat.S_IMODE(status.st_mode):04o}); chmod go= {path}.",
                )
        for path in find_leftovers(folder):
            yield Problem("leftover", path, f"{path} was left by a write that a crash cut short; remove it.")


def _top(store: Store) -> Iterator[Problem]:
    for name in os.listdir(store.state_dir):
        path = os.path.join(store.state_dir, name)
        if re.fullmatch(r"\.probe-\d+", name):
            yield Problem("leftover", path, f"{path} was left by a check that a crash cut short; remove it.")
        elif name in ("lock", "journal.jsonl") and os.path.isdir(path):
            yield Problem("foreign", path, f"{path} is a folder where a file of pdops belongs; move it away.")
        elif name not in _OWN and path not in find_leftovers(store.state_dir):
            yield _foreign(path)


def _objects(store: Store) -> Iterator[Problem]:
    folder = os.path.join(store.state_dir, "objects")
    leftovers = find_leftovers(folder)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if path in leftovers:
            continue
        if not re.fullmatch("[0-9a-f]{64}", name) or not os.path.isfile(path):
            yield _foreign(path)
            continue
        if sha256_of(read_own(path)) != name:
            yield Problem(
                "damaged",
                path,
                f"{path} is not the content that its name says; the next edit to that content heals it.",
            )


def _unnamed(store: Store) -> Iterator[Problem]:
    """Contents without a version: what is left when an index is lost, and when a write or a prune was cut short."""
    there = stored_objects(store)
    there -= named_contents(store)
    if not there:
        return
    begun, told = begun_to_go(store), _told_by_journal(store)
    for sha256 in there:
        path = store.object_path(sha256)
        if sha256 in begun:
            yield Problem(
                "leftover", path, f"{path} was left by a prune that a crash cut short; the next one removes it."
            )
            continue
        whose = f" (by the journal it is of {told[sha256]})" if sha256 in told else ""
        yield Problem(
            "unnamed",
            path,
            f"{path} is named by no version of any file{whose}: an index was lost or a write was cut short; "
            "import it as a version by this path, or remove it.",
        )


def _told_by_journal(store: Store) -> dict[str, str]:
    told: dict[str, str] = {}
    for entry in store.journal():
        for key in ("sha256_before", "sha256_after"):
            if isinstance(entry.get(key), str) and isinstance(entry.get("path"), str):
                told[entry[key]] = f"{entry['path']}, {entry.get('at')}"
    return told


def _indexes(store: Store) -> Iterator[Problem]:
    folder = os.path.join(store.state_dir, "files")
    leftovers = find_leftovers(folder)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        index = os.path.join(folder, name)
        if index in leftovers:
            continue
        if not name.endswith(".jsonl") or not os.path.isfile(index):
            yield _foreign(index)
            continue
        yield from _lines(index)
        for number, row in rows_of(index):
            version = version_of(row) if row is not None else None
            if version is None:
                if row is not None:
                    yield Problem("foreign", index, f"line {number} of {index} is no version of a file; look at it.")
            # The path is the real one of then; it may have become a symlink since.
            elif os.path.realpath(version.path) == version.path and store.index_path(version.path) != index:
                yield Problem(
                    "foreign", index, f"line {number} of {index} is a version of {version.path}, another file."
                )
            elif not os.path.exists(store.object_path(version.sha256)):
                yield Problem(
                    "lost",
                    index,
                    f"the content of version {version.told} of {version.path} is lost ({index} line {number}).",
                )


def _journal(store: Store) -> Iterator[Problem]:
    if not os.path.isdir(store.journal_path):
        yield from _lines(store.journal_path)


def _agents(store: Store) -> Iterator[Problem]:
    """The programs of guards, named by their content, and what guards wrote."""
    folder = os.path.join(store.state_dir, "agent")
    leftovers = find_leftovers(folder)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        program = re.fullmatch(r"([0-9a-f]{64})\.pyz", name)
        if path in leftovers:
            continue
        if not os.path.isfile(path) or not (program or name == "guard.log"):
            yield _foreign(path)
        elif program and sha256_of(read_own(path)) != program[1]:
            yield Problem("damaged", path, f"{path} is not the program that its name says; remove it.")


def _lines(path: str) -> Iterator[Problem]:
    for number, row in rows_of(path):
        if row is None:
            yield Problem(
                "unreadable",
                path,
                f"line {number} of {path} is no whole entry: a crash cut it short; nothing else is lost.",
            )


def _foreign(path: str) -> Problem:
    return Problem("foreign", path, f"{path} is not of pdops; move it away.")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which folders of kernel packages nobody refers to any more. Whatever can still be started, or runs, keeps its folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..change.book import Book
from ..pdops_error import PdopsError
from ..processes import process_table
from ..store.atomic import read_regular
from ..store.backups import MOST_BYTES, find_backups
from ..store.objects import stored_objects
from ..store.store import Store
from .folders import Installed, installed_in


@dataclass(frozen=True)
class Pruning:
    """``gone`` are folders that nobody refers to; ``kept`` are the others, each with the reason."""

    gone: tuple[Installed, ...]
    kept: tuple[tuple[Installed, str], ...]


def plan_pruning(root: str, keep: int, store: Store, scripts: Iterable[str]) -> Pruning:
    """Look at everything that may refer to a folder; reads only.

    A folder stays when it is one of the ``keep`` newest, when a present script, a backup beside one, or any content in the
    store names it (a stored version of any script can be restored, and those of open changes are in there), or when the environment
    or the command of a running process names it. Where an engine of another user cannot be looked into, all stay.

    :param scripts: the serve scripts of this machine
    :raises PdopsError: ``keep`` is no number of folders, or a stored content cannot be read
    """
    if keep < 0:
        raise PdopsError(f"keep={keep} is no number of kernel packages; it must be 0 or more.")
    folders = installed_in(root)
    texts = _contents(store, scripts)
    running, hidden = _running()
    gone, kept = [], []
    for number, folder in enumerate(folders):
        needle = os.fsencode(folder.path)
        reason = "one of the newest" if number < keep else ""
        reason = reason or next((said for said, text in texts if _names(needle, text)), "")
        reason = reason or next((f"process {pid} refers to it" for pid, text in running if _names(needle, text)), "")
        if not reason and hidden:
            reason = f"process {hidden[0]} of another user may refer to it, and cannot be looked into"
        if reason:
            kept.append((folder, reason))
        else:
            gone.append(folder)
    return Pruning(tuple(gone), tuple(kept))


def _names(needle: bytes, text: bytes) -> bool:
    """Whether the path stands in a text, and not as the beginning of a longer name."""
    at = text.find(needle)
    while at >= 0:
        after = text[at + len(needle) : at + len(needle) + 1]
        if not (after.isalnum() or after in (b"-", b"_", b".", b"+")):
            return True
        at = text.find(needle, at + 1)
    return False


def _contents(store: Store, scripts: Iterable[str]) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for path in scripts:
        for beside in (path, *_backups(path)):
            try:
                found.append((f"{beside} refers to it", read_regular(beside, MOST_BYTES)))
            except PdopsError:
                continue
    for sha256 in sorted(stored_objects(store)):
        # Unlike a script that is gone, a stored content that cannot be read may be the one that names it.
        found.append(
            (f"the stored version {sha256[:12]} refers to it", read_regular(store.object_path(sha256), MOST_BYTES))
        )
    for record in Book(store).all():
        if record["state"] in ("open", "rolling-back", "rollback-failed"):
            found.append((f"the change {record['id']} refers to it", repr(record).encode("utf-8", "replace")))
    return found


def _backups(path: str) -> Sequence[str]:
    try:
        return [backup.path for backup in find_backups(path)]
    except PdopsError:
        return []


def _running() -> tuple[list[tuple[int, bytes]], list[int]]:
    """Environment and command of each process, and the processes that could not be looked into.

    What setproctitle has overwritten says nothing; the process that started it, which is one of the same unit, does.
    """
    found, hidden = [], []
    for pid, process in sorted(process_table().items()):
        if process.dead or pid == os.getpid():
            continue
        text = b""
        try:
            for name in ("environ", "cmdline"):
                with open(f"/proc/{pid}/{name}", "rb") as source:
                    text += source.read() + b"\0"
        except PermissionError:
            if _is_python(process.command):
                hidden.append(pid)
        except OSError:
            continue
        found.append((pid, text))
    return found, hidden


def _is_python(command: str) -> bool:
    return "python" in command or command.startswith("sglang")

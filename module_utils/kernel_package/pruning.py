# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which folders of kernel packages, and of kernels compiled of them, nobody refers to any more. Whatever can still be started, or runs, keeps its folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from ..change.book import Book
from ..pdops_error import PdopsError
from ..processes import process_table
from ..store.atomic import read_regular
from ..store.backups import MOST_BYTES, find_backups
from ..store.objects import stored_objects
from ..store.store import Store
from .compiled import CACHE_NAME, SELF_TEST
from .folders import Installed, installed_in


@dataclass(frozen=True)
class Pruning:
    """``gone`` are folders that nobody refers to; ``kept`` are the others, each with the reason; ``caches`` go with the former."""

    gone: tuple[Installed, ...]
    kept: tuple[tuple[Installed, str], ...]
    caches: tuple[str, ...] = ()


class References:
    """All that may refer to a folder of this machine, read once."""

    def __init__(self, store: Store, scripts: Iterable[str]) -> None:
        self._texts = _contents(store, scripts)
        self._running, self._hidden = _running()

    def to(self, path: str) -> str:
        """Half a sentence, what refers to a folder; '' for nothing."""
        needle = os.fsencode(path)
        for said, text in self._texts:
            if _names(needle, text):
                return said
        for pid, text in self._running:
            if _names(needle, text):
                return f"process {pid} refers to it"
        if self._hidden:
            return f"process {self._hidden[0]} of another user may refer to it, and cannot be looked into"
        return ""


def plan_pruning(
    root: str,
    keep: int,
    store: Store,
    scripts: Iterable[str],
    caches: Iterable[str] = (),
    only: Optional[str] = None,
) -> Pruning:
    """Look at everything that may refer to a folder; reads only.

    A folder stays when it is one of the ``keep`` newest, when a present script, a backup beside one, or any content in the
    store names it (a stored version of any script can be restored, and those of open changes are in there), or when the environment
    or the command of a running process names it. Where an engine of another user cannot be looked into, all stay. Compiled kernels
    stay with every package of their version, and by the same references.

    :param scripts: the serve scripts of this machine
    :param caches: folders with one folder of compiled kernels for each package, Triton and architecture
    :param only: the name of the one folder that may go
    :raises PdopsError: ``keep`` is no number of folders, or a stored content cannot be read
    """
    if keep < 0:
        raise PdopsError(f"keep={keep} is no number of kernel packages; it must be 0 or more.")
    references = References(store, scripts)
    gone, kept = [], []
    for number, folder in enumerate(installed_in(root)):
        reason = "one of the newest" if number < keep else references.to(folder.path)
        if not reason and only not in (None, folder.name):
            reason = "another one was asked for"
        if reason:
            kept.append((folder, reason))
        else:
            gone.append(folder)
    versions = {folder.version for folder, _ in kept}
    return Pruning(tuple(gone), tuple(kept), tuple(_caches_of_nobody(caches, versions, references)))


def _caches_of_nobody(places: Iterable[str], versions: Collection[str], references: References) -> Iterator[str]:
    for place in sorted(set(places)):
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            path, match = os.path.join(place, name), CACHE_NAME.fullmatch(name)
            if match is None or match["version"] in versions or os.path.islink(path) or not os.path.isdir(path):
                continue
            # That of a self-test is named by nobody: it goes with the one beside which it lies.
            if not references.to(path[: -len(SELF_TEST)] if name.endswith(SELF_TEST) else path):
                yield path


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

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Former contents of a script, wherever they are: stored versions, and backups that lie beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..pdops_error import PdopsError
from .atomic import read_regular
from .backups import MOST_BYTES, Backup, look_for_backups
from .store import Store
from .versions import Version


@dataclass(frozen=True)
class Source:
    """One former content. ``kind`` is ``version`` (``name`` is its sha256) or ``backup`` (``name`` is its path)."""

    kind: str
    name: str
    label: str
    time: str
    content: bytes

    @property
    def told(self) -> str:
        if self.kind == "version":
            return f"version {self.name[:12]} ({self.label}, {self.time})"
        return f"backup {os.path.basename(self.name)}"

    def as_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "label": self.label, "time": self.time, "told": self.told}


@dataclass(frozen=True)
class Sources:
    """Stored versions newest first, then backups newest first; a sentence for each one that cannot be had."""

    found: tuple[Source, ...]
    skipped: tuple[str, ...]


def sources_of(path: str, store: Store) -> Sources:
    """All former contents, the ones most worth restoring first; a damaged one costs only itself."""
    found: list[Source] = []
    skipped: list[str] = []
    for version in store.versions(path):
        try:
            found.append(from_version(version, store))
        except PdopsError as error:
            skipped.append(str(error))
    backups = look_for_backups(path)
    for backup in backups.found:
        try:
            found.append(_from(backup))
        except PdopsError as error:
            skipped.append(str(error))
    return Sources(tuple(found), tuple(dict.fromkeys((*skipped, *backups.skipped))))


def from_version(version: Version, store: Store) -> Source:
    """Raises :class:`PdopsError` when the content is lost or damaged."""
    return Source("version", version.sha256, version.label, version.time, store.content(version.sha256))


def _from(backup: Backup) -> Source:
    return Source("backup", backup.path, backup.label, backup.time, read_regular(backup.path, MOST_BYTES))


def from_backup(path: str, wanted: str) -> Source:
    """The backup that a person names: by its full path, or by the name or label of a file beside the script.

    A plain name may be that of any regular file there. Raises :class:`PdopsError`, which lists what there is.
    """
    if os.path.isabs(wanted):
        return _named(path, wanted)
    if "/" in wanted:
        raise PdopsError(
            f"from_backup {wanted!r} is neither a full path nor the name of a file beside {path}; give one."
        )
    look = look_for_backups(path)
    match = [item for item in look.found if os.path.basename(item.path) == wanted]
    match = match or [item for item in look.found if item.label == wanted]
    if len({item.sha256 for item in match}) == 1:
        return _from(match[0])
    if not match:
        for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(os.path.realpath(path)))):
            if wanted and os.path.exists(os.path.join(folder, wanted)):
                return _named(path, os.path.join(folder, wanted))
    listed = ", ".join(os.path.basename(item.path) for item in look.found) or "none"
    what = "is no backup" if not match else "means several backups"
    passed_over = f" ({' '.join(look.skipped)})" if look.skipped else ""
    raise PdopsError(f"{wanted} {what} of {path}; beside it lie: {listed}{passed_over}.")


def _named(path: str, wanted: str) -> Source:
    if os.path.realpath(wanted) == os.path.realpath(path):
        raise PdopsError(f"from_backup {wanted} is the script itself; name another file.")
    content = read_regular(wanted, MOST_BYTES)
    return Source("backup", wanted, os.path.basename(wanted), "", content)

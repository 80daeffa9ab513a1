# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Former contents of a script, wherever they are: stored versions, and backups that lie beside it."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

from ..pdops_error import PdopsError
from .atomic import read_regular
from .backups import MOST_BYTES, Backup, Backups, look_for_backups
from .store import Store
from .versions import NOW, PREVIOUS, Version


@dataclass(frozen=True)
class Source:
    """One content. ``kind`` is ``version`` (``name`` is its sha256), ``backup`` or ``now`` (``name`` is its path)."""

    kind: str
    name: str
    label: str
    time: str
    content: bytes

    @property
    def told(self) -> str:
        if self.kind == "version":
            return f"version {self.name[:12]} ({self.label}, {self.time})"
        if self.kind == "now":
            return f"{os.path.basename(self.name)} as it is now"
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
    # What an accident emptied tells nothing of any knob.
    skipped += [f"{source.told} is empty, so it was passed over." for source in found if not source.content.strip()]
    some = tuple(source for source in found if source.content.strip())
    return Sources(some, tuple(dict.fromkeys((*skipped, *backups.skipped))))


def from_version(version: Version, store: Store) -> Source:
    """Raises :class:`PdopsError` when the content is lost or damaged."""
    return Source("version", version.sha256, version.label, version.time, store.content(version.sha256))


def from_now(path: str) -> Source:
    """What the script holds now."""
    content = read_regular(path, MOST_BYTES)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(path).st_mtime))
    return Source("now", path, NOW, when, content)


def from_anywhere(path: str, wanted: str, store: Store) -> Source:
    """The content that a person names.

    :param wanted: ``now``; ``previous``; a label or 6 or more digits of a sha256, of a version or of a backup beside the
        script; the name of a file there; or the full path of any file. Labels and names go before digits, and a stored
        version before a backup with the same content.
    :raises PdopsError: nothing or several contents are meant; the sentence lists what there is
    """
    if wanted == NOW:
        return from_now(path)
    if wanted == PREVIOUS:
        return from_version(store.find_version(path, wanted), store)
    if os.path.isabs(wanted):
        return _named(path, wanted)
    versions, backups = store.versions(path), look_for_backups(path)
    stored = [item for item in versions if item.label == wanted]
    beside = [item for item in backups.found if wanted in (item.label, os.path.basename(item.path))]
    if not stored and not beside and re.fullmatch("[0-9a-f]{6,64}", wanted.lower()):
        stored = [item for item in versions if item.sha256.startswith(wanted.lower())]
        beside = [item for item in backups.found if item.sha256.startswith(wanted.lower())]
    if not stored and not beside:
        for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(os.path.realpath(path)))):
            if wanted and "/" not in wanted and os.path.exists(os.path.join(folder, wanted)):
                return _named(path, os.path.join(folder, wanted))
        raise PdopsError(f"{wanted!r} is no version and no backup of {path}; {_there_is(versions, backups)}.")
    if len({item.sha256 for item in stored} | {item.sha256 for item in beside}) > 1:
        meant = [item.told for item in stored] + [f"backup {os.path.basename(item.path)}" for item in beside]
        raise PdopsError(
            f"{wanted} means several contents of {path}: {', '.join(meant[:10])}; give the sha256 or the file name."
        )
    if stored:
        try:
            return from_version(stored[0], store)
        except PdopsError:
            if not beside:
                raise
    return _from(beside[0])


def _there_is(versions: list[Version], backups: Backups) -> str:
    told = [item.told for item in versions[:10]]
    told += [f"and {len(versions) - 10} more versions"] if len(versions) > 10 else []
    told += [f"backup {os.path.basename(item.path)}" for item in backups.found]
    passed_over = f" ({' '.join(backups.skipped)})" if backups.skipped else ""
    return f"there are: {', '.join(told) or 'none'}{passed_over}"


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

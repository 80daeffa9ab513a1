# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Finds backups that people and tools left beside a script, with the label that their name carries."""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from typing import Optional

from ..pdops_error import PdopsError
from .atomic import MARK, read_regular, sha256_of

MOST_BYTES = 4 * 1024 * 1024
_WORDS = "bak|backup|orig|old|save|saved|prev|previous|rpmsave|rpmorig"


@dataclass(frozen=True)
class Backup:
    """A former content of a script; ``time`` is the file's modification time, ISO 8601 in UTC (``mtime``: in seconds)."""

    path: str
    label: str
    time: str
    mtime: float
    sha256: str


@dataclass(frozen=True)
class Backups:
    """Backups, the newest first, and a sentence for each file that has the name of one and was passed over."""

    found: tuple[Backup, ...]
    skipped: tuple[str, ...]


def _label(name: str, script: str) -> Optional[str]:
    """The label of a backup of ``script``, or None when ``name`` is not the name of one."""
    if name == script:
        return None
    if not name.startswith(script):
        # serve.bak.sh and serve.2025.bak.sh: the extension was kept in last place
        stem, dot, extension = script.rpartition(".")
        if not dot or not name.startswith(stem + ".") or not name.endswith("." + extension):
            return None
        rest = name[len(stem) : -len(extension) - 1]
    else:
        rest = name[len(script) :]
    # ansible-core names its backups FILE.PID.YYYY-MM-DD@HH:MM:SS~ (basic.py, backup_local)
    ansible = re.fullmatch(r"\.\d+\.(\d{4}-\d\d-\d\d@\d\d:\d\d:\d\d)~", rest)
    if ansible:
        return ansible[1]
    if rest == "~":
        return "~"
    numbered = re.fullmatch(r"\.~(\d+)~", rest)
    if numbered:
        return f"~{numbered[1]}~"
    match = re.fullmatch(
        rf"[._-](?:(?P<before>.+?)[._-])?(?:{_WORDS})(?:(?:[._-]|(?=\d))(?P<after>.+))?", rest, re.IGNORECASE
    )
    if not match:
        # serve.sh.20251101 or serve.sh-2025-11-01T1200: a date alone is a backup too
        dated = re.fullmatch(r"[._-](\d{6,8}(?:[._T-]?\d{4,6})?|\d{4}-\d\d-\d\d(?:[T_.@-]?[\d:.-]+)?)", rest)
        return dated[1] if dated else None
    label = "_".join(part for part in (match["before"], match["after"]) if part)
    return label.strip("._-") or rest.strip("._-").lower()


def look_for_backups(path: str) -> Backups:
    """Backups beside the script, and beside the file that a symlink leads to.

    Regular files only: a symlink tells nothing of the past (it may lead to the script itself). What is
    unreadable or larger than :data:`MOST_BYTES` is passed over too; ``skipped`` says why.
    """
    found: dict[str, Backup] = {}
    skipped: list[str] = []
    for script in dict.fromkeys((path, os.path.realpath(path))):
        folder, name = os.path.split(script)
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            label = None if entry.startswith(MARK) else _label(entry, name)
            if label is None:
                continue
            full = os.path.join(folder, entry)
            try:
                status = os.lstat(full)
                if stat.S_ISLNK(status.st_mode):
                    raise PdopsError(f"{full} is a symlink, so it was not taken for a backup.")
                digest = sha256_of(read_regular(full, MOST_BYTES))
            except OSError:
                continue  # gone in this moment
            except PdopsError as error:
                skipped.append(str(error))
                continue
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
            found[os.path.realpath(full)] = Backup(full, label, when, status.st_mtime, digest)
    newest_first = sorted(found.values(), key=lambda item: (-item.mtime, item.path))
    return Backups(tuple(newest_first), tuple(dict.fromkeys(skipped)))


def find_backups(path: str) -> list[Backup]:
    """The backups of :func:`look_for_backups`, the newest first."""
    return list(look_for_backups(path).found)

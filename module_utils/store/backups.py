# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Finds backups that people and tools left beside a script, with the label that their name carries."""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass

from .atomic import MARK

MOST_BYTES = 4 * 1024 * 1024
_WORDS = "bak|backup|orig|old|save|saved|prev|previous"


@dataclass(frozen=True)
class Backup:
    """A former content of a script; ``time`` is the file's modification time, ISO 8601 in UTC."""

    path: str
    label: str
    time: str
    mtime: float


def _label(name: str, script: str) -> str | None:
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
    ansible = re.fullmatch(r"\.\d+\.(\d{4}-\d\d-\d\d@\d\d:\d\d:\d\d)~", rest)
    if ansible:
        return ansible[1]
    if rest == "~":
        return "~"
    numbered = re.fullmatch(r"\.~(\d+)~", rest)
    if numbered:
        return f"~{numbered[1]}~"
    match = re.fullmatch(rf"[._-](?:(?P<before>.+?)[._-])?(?:{_WORDS})(?:[._-]?(?P<after>.+))?", rest, re.IGNORECASE)
    if not match:
        # serve.sh.20251101 or serve.sh-2025-11-01T1200: a date alone is a backup too
        dated = re.fullmatch(r"[._-](\d{6,8}(?:[._T-]?\d{4,6})?|\d{4}-\d\d-\d\d(?:[T_.@-]?[\d:.-]+)?)", rest)
        return dated[1] if dated else None
    label = "_".join(part for part in (match["before"], match["after"]) if part)
    return label.strip("._-") or rest.strip("._-").lower()


def find_backups(path: str) -> list[Backup]:
    """Backups beside the script (and beside the file that a symlink leads to), the newest first.

    Regular files only; unreadable or huge ones are passed over.
    """
    found: dict[str, Backup] = {}
    for script in dict.fromkeys((path, os.path.realpath(path))):
        folder, name = os.path.split(script)
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            label = None if entry.startswith(MARK) else _label(entry, name)
            if label is None:
                continue
            full = os.path.join(folder, entry)
            try:
                status = os.stat(full)
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES or not os.access(full, os.R_OK):
                continue
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
            found[os.path.realpath(full)] = Backup(full, label, when, status.st_mtime)
    return sorted(found.values(), key=lambda item: (-item.mtime, item.path))

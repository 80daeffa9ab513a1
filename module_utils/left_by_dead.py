# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Files and folders that belong to one process and that it takes away itself: who was killed could not, so the next one does."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time

from .change.who import boot_id
from .processes import ProcessId, is_alive, read_process
from .store.atomic import find_leftovers, remove_leftovers

_OWNED = re.compile(r"(?P<prefix>pdops-[a-z-]+)-(?P<boot>[0-9a-f]{8})-(?P<pid>\d+)-(?P<ticks>\d+)-\w+")
#: Of another start of this machine, or of another machine with the same home folder: nothing of ours runs as long.
_FOREIGN_S = 7 * 86400.0


def folder_of_mine(parent: str, kind: str) -> str:
    """A private folder, whose name says which process it belongs to; ``kind`` in small letters."""
    me = read_process(os.getpid())
    ticks = me.started_ticks if me is not None else 0
    return tempfile.mkdtemp(prefix=f"pdops-{kind}-{boot_id()[:8]}-{os.getpid()}-{ticks}-", dir=parent)


def clear_folders(parent: str, kind: str) -> None:
    """Remove the folders of :func:`folder_of_mine` in ``parent`` whose process lives no more. Whatever resists is left."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        found = _OWNED.fullmatch(name)
        path = os.path.join(parent, name)
        if found and found["prefix"] == f"pdops-{kind}" and _mine(path) and not _needed(found, path):
            shutil.rmtree(path, ignore_errors=True)


def _mine(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _needed(found: re.Match[str], path: str) -> bool:
    if found["boot"] == boot_id()[:8]:
        return is_alive(ProcessId(int(found["pid"]), int(found["ticks"])))
    try:
        return time.time() - os.lstat(path).st_mtime < _FOREIGN_S
    except OSError:
        return False


def clear_state(state_dir: str) -> None:
    """Remove what writes and checks that were killed left in the state folder; of a write that goes on now it is too young."""
    for folder, folders, files in os.walk(state_dir):
        remove_leftovers(find_leftovers(folder))
        if folder == state_dir:
            folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
            for name in files:
                probe = re.fullmatch(r"\.probe-(\d+)", name)
                if probe and read_process(int(probe[1])) is None:
                    with contextlib.suppress(OSError):  # somebody else clears as well, or the folder is read-only
                        os.unlink(os.path.join(folder, name))

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Makes a machine ready to run instances: folders and virtual environments. Once per machine, and only adding.

Nothing here is part of a change: a script names its virtual environment and its cache by what is in them, so the old
script has the old ones, and they stay. What a file of keys holds is part of the change (:mod:`.edits`); here one that
is there is only made private.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Optional

from ..mistakes import Mistakes
from ..pdops_error import PdopsError
from ..store.atomic import read_regular, why, write_private
from ..store.obstacles import why_not_made
from . import venv as environments

MOST_KEY_BYTES = 1 << 20
#: Folders that anybody may look into; scripts and caches are below. Keys have modes of their own.
_MODE = 0o755


@dataclass(frozen=True)
class Task:
    """One thing to do. ``said`` is for people; ``path`` is what it makes or changes."""

    kind: str
    path: str
    said: str
    details: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": self.path, "said": self.said}


def owner_of(user: str) -> tuple[int, int]:
    """uid and gid of a user of this machine; :class:`PdopsError` when there is none."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise PdopsError(f"there is no user {user} on this machine; make it, or correct pd_user.") from None
    return entry.pw_uid, entry.pw_gid


def plan_machine(wanted: Mapping[str, Any]) -> list[Task]:
    """What is missing; reads only.

    :param wanted: ``folders`` (``path``, ``user``), ``venvs`` (``path``, ``wheels``, ``base_python``; see :mod:`.venv`),
        ``keys`` (``path``, ``user``)
    :raises PdopsError: something else is in the way, or a tool or user is missing; all of it at once, each with what to do
    """
    wrong = Mistakes("obstacles on the machine")
    tasks: list[Optional[Task]] = []
    for folder in wanted["folders"]:
        tasks.append(wrong.take(partial(_folder, str(folder["path"]), str(folder["user"])), None))
    for item in wanted["venvs"]:
        said = wrong.take(partial(environments.missing, item), "")
        tasks.append(Task("venv", str(item["path"]), said, item) if said else None)
    for key in wanted["keys"]:
        tasks.append(wrong.take(partial(_key, str(key["path"]), str(key["user"])), None))
    wrong.refuse()
    return [task for task in tasks if task is not None]


def _folder(path: str, user: str) -> Optional[Task]:
    uid, gid = owner_of(user)
    details = {"uid": uid, "gid": gid}
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise PdopsError(f"{path} is a link that leads nowhere; correct it.") from None
        against = why_not_made(path)
        if against:
            raise PdopsError(f"{path} could not be made: {against}.") from None
        return Task("folder", path, f"make folder {path}" + (f" of {user}" if user != "root" else ""), details)
    except OSError as error:
        raise PdopsError(f"{path} cannot be looked at: {why(error, reading=True)}.") from None
    if not stat.S_ISDIR(found.st_mode):
        raise PdopsError(f"{path} is to be a folder, and something else is there; move it away.")
    if user != "root" and found.st_uid != uid:
        return Task("folder", path, f"give folder {path} to {user}", details)
    return None


def _key(path: str, user: str) -> Optional[Task]:
    uid, gid = owner_of(user)
    details = {"uid": uid, "gid": gid}
    if not os.path.lexists(path):
        return None  # the change writes it
    read_regular(path, MOST_KEY_BYTES)
    found = os.stat(path)
    if stat.S_IMODE(found.st_mode) != 0o600 or found.st_uid != uid:
        return Task("key", path, f"make {path} (keys) private to {user}, mode 0600", details)
    return None


def carry_out(tasks: Sequence[Task]) -> None:
    """Do them in order; each is whole or not at all, except a virtual environment, which counts only when it is complete."""
    for task in tasks:
        try:
            if task.kind == "folder":
                _make_folder(task)
            elif task.kind == "key":
                _make_private(task)
            else:
                environments.make(task.details)
        except OSError as error:
            raise PdopsError(
                f"{task.path} could not be made as it is to be: {why(error)}; what serves was not touched, put that right and run again."
            ) from None


def _make_folder(task: Task) -> None:
    old = os.umask(0o022)
    try:
        os.makedirs(task.path, mode=_MODE, exist_ok=True)
    finally:
        os.umask(old)
    if os.geteuid() == 0:
        os.chown(task.path, task.details["uid"], task.details["gid"])


def _make_private(task: Task) -> None:
    # Written anew: who has the old file open reads no keys of later.
    write_private(os.path.realpath(task.path), read_regular(task.path, MOST_KEY_BYTES))
    if os.geteuid() == 0:
        os.chown(task.path, task.details["uid"], task.details["gid"])

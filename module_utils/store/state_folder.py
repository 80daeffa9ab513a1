# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The private folder that holds everything pdops keeps on a machine: looked at, and made."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import suppress

from ..pdops_error import PdopsError
from .atomic import sync_folder, why, write_private
from .obstacles import is_read_only, is_writable

FOLDERS = ("objects", "files", "changes", "agent")
# As much as a script and the lines about it usually need: a disk that is about to be full is found
# before anything is touched.
_PROBE_BYTES = 64 * 1024


def check(state_dir: str) -> None:
    """Refuse a state folder that others could read or change, or that could not be made or written. Writes nothing.

    Raises :class:`PdopsError` with one sentence.
    """
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < _PROBE_BYTES:
        raise PdopsError(
            f"the state folder {state_dir} cannot be written: the file size limit of this process (ulimit -f) is {limit} bytes; raise it."
        )
    try:
        link = os.lstat(state_dir)
    except FileNotFoundError:
        _check_makeable(state_dir)
        return
    except OSError as error:
        raise PdopsError(f"the state folder {state_dir} cannot be looked at: {why(error, reading=True)}.") from None
    me = os.geteuid()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, me):
        raise PdopsError(
            f"the state folder {state_dir} is a symlink of another user (uid {link.st_uid}); remove it or set pd_state_dir."
        )
    try:
        status = os.stat(state_dir)
    except OSError as error:
        raise PdopsError(f"the state folder {state_dir} is a symlink that leads nowhere ({error.strerror}).") from None
    if not stat.S_ISDIR(status.st_mode):
        raise PdopsError(f"the state folder {state_dir} is no folder; move it away or set pd_state_dir.")
    if status.st_uid != me:
        raise PdopsError(
            f"the state folder {state_dir} belongs to uid {status.st_uid}, not to this user (uid {me}); "
            "run with become as always before, or set pd_state_dir."
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise PdopsError(
            f"the state folder {state_dir} is open to others (mode {stat.S_IMODE(status.st_mode):04o}); chmod 700 {state_dir}."
        )
    for folder in (state_dir, *(os.path.join(state_dir, name) for name in FOLDERS)):
        _check_writable(state_dir, folder)


def _check_makeable(state_dir: str) -> None:
    parent = os.path.dirname(state_dir)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise PdopsError(f"the state folder {state_dir} cannot be made, since {parent} is no folder; set pd_state_dir.")
    _check_writable(state_dir, parent)


def _check_writable(state_dir: str, folder: str) -> None:
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder):
        raise PdopsError(f"{folder} in the state folder is no folder; move it away.")
    if not is_writable(folder):
        reason = "its file system is read-only" if is_read_only(folder) else f"this user may not write in {folder}"
        raise PdopsError(
            f"the state folder {state_dir} cannot be written: {reason}; put that right or set pd_state_dir."
        )
    space = os.statvfs(folder)
    if space.f_blocks > 0 and space.f_bavail * space.f_frsize < _PROBE_BYTES:
        raise PdopsError(
            f"the state folder {state_dir} cannot be written: no space is left on its file system; free some."
        )


def prepare(state_dir: str) -> None:
    """Check the state folder, make it and its folders when absent, and try a write. Raises :class:`PdopsError`."""
    check(state_dir)
    folder = state_dir
    try:
        _make(state_dir)
        for name in FOLDERS:
            folder = os.path.join(state_dir, name)
            _make(folder)
    except OSError as error:
        raise PdopsError(f"the state folder {folder} cannot be made: {why(error)}.") from None
    probe = os.path.join(state_dir, f".probe-{os.getpid()}")
    try:
        write_private(probe, b"\0" * _PROBE_BYTES)
    finally:
        with suppress(OSError):
            os.unlink(probe)


def _make(folder: str) -> None:
    """A folder for this user alone, durable with all parents that were made for it."""
    made = []
    while not os.path.isdir(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(made):
        # The parents are the system's and get its usual mode; ours is the last.
        with suppress(FileExistsError):
            os.mkdir(one, 0o700 if one == made[0] else 0o755)
        sync_folder(os.path.dirname(one))

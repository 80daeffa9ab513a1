# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The place of a change's guard: a flock that the guard holds as long as it lives, so that there is never a second one.

The guard is there before the record that it watches, so that no death of who begins leaves an open change without one. While a
change begins on this machine, the folder of records itself has a shared flock, which the kernel frees with who held it: a guard
that finds neither record nor flock has nothing to wait for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from .record import check_id

_LOOK_S = 0.005


@contextlib.contextmanager
def sole(changes_folder: str, change_id: str) -> Iterator[bool]:
    """Hold the place; yields False when another guard holds it."""
    descriptor = _taken(changes_folder, change_id)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _taken(changes_folder: str, change_id: str) -> int | None:
    path = os.path.join(changes_folder, f".{check_id(change_id)}.guard")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A former holder may have taken the file away meanwhile, and a lock on that is seen by nobody.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        # Who only looked just now holds no place, and is gone in a moment.
        if is_alive(changes_folder, change_id):
            return None
        time.sleep(_LOOK_S)


def is_alive(changes_folder: str, change_id: str) -> bool:
    """Whether a guard watches this change. Looks only: makes no file."""
    path = os.path.join(changes_folder, f".{check_id(change_id)}.guard")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def beginning(changes_folder: str) -> Iterator[None]:
    """Tell guards that wait for their records that one is about to be written, or refused. Several changes may begin at once."""
    os.makedirs(changes_folder, mode=0o700, exist_ok=True)
    descriptor = os.open(changes_folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def none_begins(changes_folder: str) -> Iterator[bool]:
    """Whether no change begins on this machine now; if so, none does until this is left."""
    try:
        descriptor = os.open(changes_folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def leave(changes_folder: str, change_id: str) -> None:
    """Take the place's file away: nothing of that id ever began here. For its holder only."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(changes_folder, f".{check_id(change_id)}.guard"))


def was_taken(changes_folder: str, change_id: str) -> bool:
    """Whether a guard ever watched this change here."""
    return os.path.exists(os.path.join(changes_folder, f".{check_id(change_id)}.guard"))

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
from collections.abc import Iterator

from .record import check_id


@contextlib.contextmanager
def sole(changes_folder: str, change_id: str) -> Iterator[bool]:
    """Hold the place; yields False when another guard holds it."""
    path = os.path.join(changes_folder, f".{check_id(change_id)}.guard")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


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


def is_beginning(changes_folder: str) -> bool:
    """Whether some change begins on this machine now."""
    try:
        descriptor = os.open(changes_folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def leave(changes_folder: str, change_id: str) -> None:
    """Take the place's file away: nothing of that id ever began here. For its holder only."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(changes_folder, f".{check_id(change_id)}.guard"))


def was_taken(changes_folder: str, change_id: str) -> bool:
    """Whether a guard ever watched this change here."""
    return os.path.exists(os.path.join(changes_folder, f".{check_id(change_id)}.guard"))

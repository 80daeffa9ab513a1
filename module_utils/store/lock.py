# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The lock of the store: held for the short time of one verb, never while waiting for anything."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .. import foreign_json
from ..pdops_error import PdopsError
from .atomic import why, write_all


@contextmanager
def locked(path: str, purpose: str, wait_s: float) -> Iterator[None]:
    """Hold the flock of ``path``; wait at most ``wait_s`` seconds for it.

    The kernel frees it when the holder dies. A refusal says who holds it, for what and since when.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            # It can be locked all the same, by a way back whose scripts lie elsewhere.
            descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise PdopsError(f"the lock {path} cannot be opened: {why(error)}.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise PdopsError(f"the lock {path} is no regular file; move it away, then run again.")
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise PdopsError(f"the lock {path} cannot be taken: {why(error)}.") from None
                if time.monotonic() >= deadline:
                    raise PdopsError(
                        f"{_holder(descriptor)} holds the lock {path}, and still did after {wait_s:g} s; wait for it, then run again."
                    ) from None
                time.sleep(0.05)
        note = json.dumps(
            {"pid": os.getpid(), "purpose": purpose, "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        )
        try:
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            write_all(descriptor, note.encode() + b"\n")
        except OSError:
            pass  # no space for the note; the lock is held all the same, and a rollback needs no more
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Who wrote the note in the lock file; a note of a process that is gone was left by a former holder."""
    try:
        note = foreign_json.loads(os.pread(descriptor, 4096, 0))
        told = f"process {note['pid']} ({note['purpose']}, since {note['since']})"
        os.kill(int(note["pid"]), 0)
    except PermissionError:
        return told
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "another process"
    return told

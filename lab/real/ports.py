# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A block of free ports on 127.0.0.1, locked so that two labs that start at once never take the same.

A block is claimed by a file that names the process that holds it (pid and start tick). It is free again when
that process is gone, so nothing has to be cleaned up after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import tempfile
from collections.abc import Iterator

from .processes import Identity, alive

# Below the ports that the kernel gives away by itself (32768 and up), and above those where Mooncake's
# handshake listens (15000 to 17000).
FIRST, LAST, SIZE = 24000, 32000, 10


class NoPorts(Exception):
    pass


def folder() -> str:
    """Shared by all checkouts of this user on the machine."""
    path = os.path.join(tempfile.gettempdir(), f"pdops-ports-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if os.stat(path).st_uid != os.getuid():
        raise NoPorts(f"{path} belongs to somebody else: remove it, or set TMPDIR to a folder of your own")
    return path


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    with open(os.path.join(folder(), "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _holder(path: str) -> Identity | None:
    try:
        with open(path) as file:
            return Identity(*json.load(file)["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(first: int, holder: Identity) -> None:
    path = os.path.join(folder(), str(first))
    with open(path + ".new", "w") as file:
        json.dump({"holder": list(holder)}, file)
    os.replace(path + ".new", path)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As a server does, so that connections of the last one that still time out are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def claim(holder: Identity) -> int:
    """The first port of a block of SIZE free ones, held as long as `holder` lives."""
    with _locked():
        for first in range(FIRST, LAST, SIZE):
            other = _holder(os.path.join(folder(), str(first)))
            if other is not None and alive(other):
                continue
            if all(_free(port) for port in range(first, first + SIZE)):
                _write(first, holder)
                return first
    raise NoPorts(
        f"no block of {SIZE} free ports between {FIRST} and {LAST} on 127.0.0.1: end a lab that is not needed"
    )


def hand_over(first: int, holder: Identity) -> None:
    """The block belongs to another process from now on (supervisord, once it runs)."""
    with _locked():
        _write(first, holder)


def release(first: int) -> None:
    with _locked(), contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder(), str(first)))

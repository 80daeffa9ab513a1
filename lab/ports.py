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
from typing import Any

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


def _read(first: int) -> dict[str, Any]:
    try:
        with open(os.path.join(folder(), str(first)), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError, TypeError):
        return {}


def _holder(first: int) -> Identity | None:
    """The living process that holds a block."""
    try:
        found = Identity(*_read(first)["holder"])
    except (KeyError, TypeError):
        return None
    return found if alive(found) else None


def _write(first: int, holder: Identity | None, home: str | None) -> None:
    path = os.path.join(folder(), str(first))
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"holder": holder, "home": home}, file)
    os.replace(path + ".new", path)


def _kept(first: int, home: str | None) -> bool:
    """A lab that is down, in another folder, would like to find this block free when it comes up again."""
    other = _read(first).get("home")
    return other is not None and other != home and os.path.exists(os.path.join(str(other), "serve"))


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As a server does, so that connections of the last one that still time out are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def claim(holder: Identity, home: str | None = None) -> int:
    """The first port of a block of SIZE free ones, held as long as `holder` lives.

    Blocks that labs in other folders than `home` keep for their scripts come last.
    """
    with _locked():
        for first in sorted(range(FIRST, LAST, SIZE), key=lambda first: _kept(first, home)):
            if _holder(first) is None and all(_free(port) for port in range(first, first + SIZE)):
                _write(first, holder, home)
                return first
    raise NoPorts(
        f"no block of {SIZE} free ports between {FIRST} and {LAST} on 127.0.0.1: end a lab that is not needed"
    )


def claim_again(first: int, holder: Identity, home: str) -> None:
    """The block that this lab had. NoPorts when somebody else has it now."""
    with _locked():
        other = _holder(first)
        taken = [port for port in range(first, first + SIZE) if not _free(port)]
        if other is not None:
            raise NoPorts(f"ports {first} to {first + SIZE - 1} belong to process {other.pid} now")
        if taken:
            raise NoPorts(f"port {taken[0]} of {first} to {first + SIZE - 1} is taken")
        _write(first, holder, home)


def hand_over(first: int, holder: Identity, home: str | None = None) -> None:
    """The block belongs to another process from now on (supervisord, once it runs)."""
    with _locked():
        _write(first, holder, home)


def keep(first: int, home: str) -> None:
    """Nobody holds the block, and other labs take it last: the scripts in `home` name its ports."""
    with _locked():
        if _holder(first) is None:
            _write(first, None, home)


def release(first: int) -> None:
    with _locked(), contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder(), str(first)))

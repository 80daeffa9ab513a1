# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A process of pdops that dies at its n-th call into the system: from then on no call of it has any effect."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

CALLS = (
    "chmod",
    "chown",
    "close",
    "fsync",
    "fstat",
    "ftruncate",
    "getxattr",
    "link",
    "listdir",
    "listxattr",
    "lseek",
    "lstat",
    "makedirs",
    "mkdir",
    "open",
    "pread",
    "removexattr",
    "rename",
    "replace",
    "rmdir",
    "scandir",
    "setxattr",
    "stat",
    "statvfs",
    "unlink",
    "write",
)


class Died(BaseException):
    """Not an Exception: nothing in pdops may catch it."""


class Life:
    """One process of pdops: counts its calls into the system, and dies at the given one."""

    def __init__(self, fatal: int | None = None) -> None:
        self.fatal, self.calls, self.dead = fatal, 0, False
        self.opened: dict[int, tuple[int, int]] = {}

    def step(self) -> None:
        self.calls += 1
        if self.dead or self.calls == self.fatal:
            self.dead = True
            raise Died


living: list[Life] = []


def _counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        life = living[-1] if living else None
        if life is None:
            return real(*given, **named)
        life.step()
        result = real(*given, **named)
        if name == "open":
            life.opened[result] = _file(result)
        elif name == "close":
            life.opened.pop(given[0], None)
        return result

    return call


REAL_CLOSE, REAL_FSTAT = os.close, os.fstat


def _file(descriptor: int) -> tuple[int, int]:
    found = REAL_FSTAT(descriptor)
    return found.st_dev, found.st_ino


for _name in CALLS:
    setattr(os, _name, _counted(_name, getattr(os, _name)))


@contextlib.contextmanager
def life_of(life: Life) -> Iterator[Life]:
    living.append(life)
    try:
        yield life
    except Died:
        pass
    finally:
        living.pop()
        for descriptor, file in life.opened.items():
            # A file object closes its descriptor without os.close, and the number may be another's by now.
            with contextlib.suppress(OSError):
                if life.dead and _file(descriptor) == file:
                    REAL_CLOSE(descriptor)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """What happens outside of the life that is counted: another process, or the machine."""
    kept, living[:] = living[:], []
    try:
        yield
    finally:
        living[:] = kept


def step() -> None:
    if living:
        living[-1].step()

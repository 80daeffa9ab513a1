# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What would stand in the way of replacing a file, found by looking only."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct

from ..pdops_error import PdopsError

# FS_IOC_GETFLAGS of linux/fs.h is _IOR('f', 1, long). Where the number is another one, the kernel
# answers ENOTTY, and the flag shows itself only when the replacement fails.
_GET_FLAGS = (2 << 30) | (struct.calcsize("l") << 16) | (ord("f") << 8) | 1
_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20


def _flags(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        answer = fcntl.ioctl(descriptor, _GET_FLAGS, b"\0" * struct.calcsize("l"))
        return int(struct.unpack("l", answer)[0])
    except OSError:
        return 0  # a file system without such flags
    finally:
        os.close(descriptor)


def _is_mount_point(path: str) -> bool:
    """Whether one file is mounted by itself, as containers do; ``os.path.ismount`` knows folders only."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as source:
            points = [line.split(" ", 5)[4] for line in source]
    except (OSError, IndexError):
        return False
    return path in (re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point) for point in points)


def is_writable(folder: str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def is_read_only(folder: str) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def why_not_made(path: str) -> str:
    """Why something that is missing could not be made, with what to do, as half a sentence; '' when nothing is seen against it."""
    there = os.path.dirname(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        return f"{there} is no folder; move it away, or correct the path"
    if is_read_only(there):
        return f"the file system of {there} is read-only; remount it writable"
    if not is_writable(there):
        return f"this user may not write in {there}; run with become or as its owner"
    room = os.statvfs(there)
    if (room.f_blocks and not room.f_bavail) or (room.f_files and not room.f_favail):
        return f"no space is left on the file system of {there}; free some"
    return ""


def check_replaceable(path: str) -> None:
    """Refuse, before any effect, what :func:`pdops.store.atomic.replace_file` could not do.

    Hard links, another owner or group that this user could not give, read-only and sticky folders, immutable and
    append-only flags, files that are a mount point. Raises :class:`PdopsError` with one sentence.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        status = os.stat(real)
        place = os.stat(folder)
    except OSError as error:
        raise PdopsError(f"{path} cannot be looked at ({error.strerror}); correct the path.") from None
    me = os.geteuid()
    if status.st_nlink > 1:
        raise PdopsError(
            f"{path} has {status.st_nlink} hard links, and replacing it would part them; make it a single file or a symlink first."
        )
    if _is_mount_point(real):
        raise PdopsError(
            f"{path} is mounted by itself (a bind mount), so it cannot be replaced; edit it where it comes from, or mount its folder."
        )
    for target in (real, folder):
        flags = _flags(target)
        if flags & (_IMMUTABLE | _APPEND_ONLY):
            letter, name = ("i", "immutable") if flags & _IMMUTABLE else ("a", "append-only")
            raise PdopsError(
                f"{path} cannot be replaced, since {target} is {name} (lsattr shows it); chattr -{letter} {target} first."
            )
    if not is_writable(folder):
        if is_read_only(folder):
            raise PdopsError(
                f"{path} cannot be replaced, since the file system of {folder} is read-only; remount it writable."
            )
        raise PdopsError(
            f"{path} cannot be replaced, since this user may not write in {folder}; run with become or as its owner."
        )
    if me != 0 and status.st_uid != me:
        raise PdopsError(
            f"{path} belongs to another user (uid {status.st_uid}), and a replacement could not keep that; run with become."
        )
    if me != 0 and status.st_gid not in {os.getegid(), *os.getgroups()}:
        raise PdopsError(
            f"{path} belongs to the group {status.st_gid}, in which this user is not, and a replacement could not keep that; run with become."
        )
    if place.st_mode & stat.S_ISVTX and me not in (0, status.st_uid, place.st_uid):
        raise PdopsError(f"{path} cannot be replaced in the sticky folder {folder} by this user; run with become.")

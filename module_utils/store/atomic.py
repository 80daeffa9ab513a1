# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes that leave the old or the new content, whatever happens in between."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import signal
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from ..pdops_error import PdopsError
from .obstacles import check_replaceable

#: Temporary files carry this, so that what a crash leaves can be told from other people's files.
MARK = ".pdops-"
_TEMPORARY = re.compile(rf"{re.escape(MARK)}(?P<name>.*)-[0-9a-f]{{12}}", re.DOTALL)
# 255 bytes is the longest name on Linux file systems.
_MOST_NAME_BYTES = 255 - len(MARK) - 13

#: In place of a sha256: there is no file.
ABSENT = "absent"
_REASONS = {
    errno.ENOSPC: "no space is left on its file system; free some, then run again",
    errno.EDQUOT: "the disk quota is used up; free some, then run again",
    errno.EFBIG: "the file size limit of this process (ulimit -f) is too small; raise it, then run again",
    errno.EROFS: "its file system is read-only; remount it writable",
    errno.EACCES: "this user may not write in its folder; run with become or as its owner",
    errno.EPERM: "the system does not permit it (is the file immutable? lsattr shows that; or another user's?); put that right",
    errno.EBUSY: "it is in use as a mount point (a bind mount); edit it where it comes from",
    errno.ENOTDIR: "a part of its path is no folder; correct the path",
}


def why(error: OSError, reading: bool = False) -> str:
    """An error of the system as the reason and what to do, without a final period; of a write, or of a read."""
    if reading and error.errno in (errno.EACCES, errno.EPERM):
        return "this user may not read it; run with become or as its owner"
    return _REASONS.get(error.errno or 0, f"{error.strerror or error}; put that right, then run again")


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def size_limit_as_error() -> Iterator[None]:
    """A write beyond RLIMIT_FSIZE shall raise EFBIG instead of killing the process with SIGXFSZ.

    Python itself ignores that signal at its start; this holds also where somebody set it otherwise.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN if before is None else before)


def sync_folder(folder: str) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _remove(path: str) -> None:
    """Clean up after a failure, which is what is to be reported."""
    with suppress(OSError):
        os.unlink(path)


def _marked(name: str) -> str:
    """``name`` as temporary files carry it: cut, so that the whole is a possible file name."""
    return os.fsdecode(os.fsencode(name)[:_MOST_NAME_BYTES])


def _write_temporary(path: str, content: bytes, mode: int) -> str:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{MARK}{_marked(name)}-{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def write_private(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write or replace a file of our own (state, not a script): durable, atomic, never half.

    Raises :class:`PdopsError` with the reason.
    """
    try:
        with size_limit_as_error():
            temporary = _write_temporary(path, content, mode)
        try:
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise PdopsError(f"{path} could not be written: {why(error)}.") from None


def _require_regular(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", path)


def read_own(path: str) -> bytes:
    """The content of a file of our own below the state folder.

    Raises OSError, also for what is no regular file: a FIFO there would hold every verb for ever, with the lock in its hands.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symlink", path) from None
        raise
    with open(descriptor, "rb") as source:
        _require_regular(descriptor, path)
        return source.read()


def append_line(path: str, line: bytes) -> int:
    """Append one line durably, and return the size in bytes that the file had before.

    A torn last line (a crash in a former append) is closed first, so that it harms no other. After a failure
    the file is as it was.
    """
    try:
        with size_limit_as_error():
            new = not os.path.exists(path)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o600)
            try:
                _require_regular(descriptor, path)
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                try:
                    write_all(descriptor, (b"\n" if torn else b"") + line.rstrip(b"\n") + b"\n")
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)
            if new:
                sync_folder(os.path.dirname(path))
            return size
    except OSError as error:
        raise PdopsError(f"{path} could not be written: {why(error)}.") from None


def cut_to(path: str, size: int) -> None:
    """Take back what :func:`append_line` appended; needs no space."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            _require_regular(descriptor, path)
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise PdopsError(f"{path} could not be written: {why(error)}.") from None


def read_regular(path: str, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes, a link followed; :class:`PdopsError` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if os.path.islink(path):
            raise PdopsError(f"{path} is a symlink to {os.readlink(path)}, which does not exist; correct it.") from None
        raise PdopsError(f"{path} does not exist; correct the path.") from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PdopsError(f"{path} cannot be read ({error.strerror}); run with become or as its owner.") from None
        raise PdopsError(f"{path} cannot be read ({error.strerror}); correct the path.") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PdopsError(f"{path} is no regular file; name the script itself.")
        if status.st_size > most:
            raise PdopsError(
                f"{path} has {status.st_size} bytes, which is too much for a script (at most {most}); name the script itself."
            )
        with open(descriptor, "rb", closefd=False) as source:
            content = source.read(most + 1)
    except OSError as error:
        raise PdopsError(f"{path} cannot be read: {why(error, reading=True)}.") from None
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise PdopsError(f"{path} grows beyond {most} bytes while it is read; name the script itself.")
    return content


# Not copied to a replacement: they are hashes of the content, which the kernel makes anew (ima(7), evm).
_CONTENT_HASHES = ("security.ima", "security.evm")


def _attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return []
        raise


def _copy_attributes(source: str, target: str) -> None:
    """Mode, owner and extended attributes (the SELinux label is one, the ACL another), so that the service may still run it."""
    status = os.stat(source)
    mine = os.stat(target)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        os.chown(target, status.st_uid, status.st_gid)
    theirs = _attributes(source)
    for name in _attributes(target):
        if name == "system.posix_acl_access" and name not in theirs:
            os.removexattr(target, name)  # from the folder's default ACL; the script had none
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in theirs:
        if name in _CONTENT_HASHES:
            continue
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            # A label that is lost would keep systemd from running the script; the rest is a courtesy.
            if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.ENODATA) or name == "security.selinux":
                raise


def replace_file(path: str, content: bytes, expect_sha256: str) -> None:
    """Replace the content of an existing script atomically; the old or the new content is there at any time.

    A symlink is followed; mode, owner and extended attributes stay. ``expect_sha256`` is what must be there
    now, looked at once more directly before the rename. Raises :class:`PdopsError` with the reason, and leaves
    nothing behind.
    """
    check_replaceable(path)
    real = os.path.realpath(path)
    try:
        with size_limit_as_error():
            temporary = _write_temporary(real, content, 0o600)
        try:
            _copy_attributes(real, temporary)
            descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            with open(real, "rb") as source:
                now = sha256_of(source.read())
            if now != expect_sha256:
                raise PdopsError(
                    f"{path} was changed by somebody else in this moment (sha256 {now[:12]}, expected {expect_sha256[:12]}); look at it, then run again."
                )
            os.replace(temporary, real)
        except BaseException:
            _remove(temporary)
            raise
    except OSError as error:
        raise PdopsError(f"{path} could not be replaced: {why(error)}; it is as it was.") from None
    try:
        sync_folder(os.path.dirname(real))
    except OSError as error:
        raise PdopsError(
            f"{path} has the new content, but whether that survives a loss of power is unknown: {why(error)}.",
            replaced=True,
        ) from None


def find_leftovers(folder: str) -> list[str]:
    """Temporary files of :func:`replace_file` and :func:`write_private` that a crash left in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(os.path.join(folder, name) for name in names if _TEMPORARY.fullmatch(name))


def leftovers_of(path: str) -> list[str]:
    """The leftovers of writes to one file (of the file that a symlink leads to)."""
    folder, name = os.path.split(os.path.realpath(path))
    return [
        found
        for found in find_leftovers(folder)
        if (match := _TEMPORARY.fullmatch(os.path.basename(found))) and match["name"] == _marked(name)
    ]


def remove_leftovers(paths: Iterable[str], older_than_s: float = 60.0) -> list[str]:
    """Remove leftovers of ours that nobody is writing now (age in seconds); return those that are gone.

    Only regular files of this user that carry our mark are taken.
    """
    removed = []
    for path in paths:
        if not _TEMPORARY.fullmatch(os.path.basename(path)):
            continue
        with suppress(OSError):
            status = os.lstat(path)
            old = time.time() - max(status.st_mtime, status.st_ctime) >= older_than_s
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1 and old:
                os.unlink(path)
                removed.append(path)
    return removed

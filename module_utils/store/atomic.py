# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes that leave the old or the new content, whatever happens in between."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..pdops_error import PdopsError

#: Temporary files carry this, so that what a crash leaves can be told from other people's files.
MARK = ".pdops-"

_REASONS = {
    errno.ENOSPC: "no space is left on its file system; free some, then run again",
    errno.EDQUOT: "the disk quota is used up; free some, then run again",
    errno.EFBIG: "the file size limit of this process (ulimit -f) is too small; raise it, then run again",
    errno.EROFS: "its file system is read-only; remount it writable",
    errno.EACCES: "this user may not write in its folder; run with become or as its owner",
    errno.EPERM: "the system does not permit it (is the file immutable? lsattr shows that; or another user's?)",
}


def why(error: OSError) -> str:
    """An error of the system as the reason and what to do."""
    return _REASONS.get(error.errno or 0, f"{error.strerror or error}; put that right, then run again")


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextmanager
def _size_limit_as_error() -> Iterator[None]:
    """A write beyond RLIMIT_FSIZE shall raise EFBIG instead of killing the process with SIGXFSZ."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGXFSZ, before)


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


def _write_temporary(path: str, content: bytes, mode: int) -> str:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{MARK}{name}-{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        os.unlink(temporary)
        raise
    os.close(descriptor)
    return temporary


def write_private(path: str, content: bytes, mode: int = 0o600) -> None:
    """Write or replace a file of our own (state, not a script): durable, atomic, never half.

    Raises :class:`PdopsError` with the reason.
    """
    try:
        with _size_limit_as_error():
            temporary = _write_temporary(path, content, mode)
        try:
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise PdopsError(f"{path} could not be written: {why(error)}.") from None


def append_line(path: str, line: bytes) -> None:
    """Append one line durably. A torn last line (a crash in a former append) is closed first, so that it harms no other."""
    try:
        with _size_limit_as_error():
            new = not os.path.exists(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                try:
                    write_all(descriptor, (b"\n" if torn else b"") + line.rstrip(b"\n") + b"\n")
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                sync_folder(os.path.dirname(path))
    except OSError as error:
        raise PdopsError(f"{path} could not be written: {why(error)}.") from None


def read_regular(path: str, most: int) -> bytes:
    """The content of a regular file, a link followed; :class:`PdopsError` for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise PdopsError(f"{path} does not exist; correct the path.") from None
    except OSError as error:
        raise PdopsError(f"{path} cannot be read ({error.strerror}); run with become or as its owner.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise PdopsError(f"{path} is no regular file; name the script itself.")
    with os.fdopen(descriptor, "rb") as source:
        if status.st_size > most:
            raise PdopsError(
                f"{path} has {status.st_size} bytes, which is too much for a script (at most {most}); name the script itself."
            )
        return source.read()


def check_replaceable(path: str) -> None:
    """Refuse, before any effect, what :func:`replace_file` could not do."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    status = os.stat(real)
    if status.st_nlink > 1:
        raise PdopsError(
            f"{path} has {status.st_nlink} hard links, and replacing it would part them; make it a single file or a symlink first."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = (
            "its file system is read-only"
            if os.statvfs(folder).f_flag & os.ST_RDONLY
            else "this user may not write there"
        )
        raise PdopsError(f"{path} cannot be replaced, since {reason} ({folder}); run with become or as its owner.")
    if os.geteuid() != 0 and status.st_uid != os.geteuid():
        raise PdopsError(
            f"{path} belongs to another user (uid {status.st_uid}), and a replacement could not keep that; run with become."
        )
    sticky = os.stat(folder)
    if sticky.st_mode & stat.S_ISVTX and os.geteuid() not in (0, status.st_uid, sticky.st_uid):
        raise PdopsError(f"{path} cannot be replaced in the sticky folder {folder} by this user; run with become.")


def _copy_attributes(source: str, target: str) -> None:
    """Mode, owner and extended attributes (the SELinux label is one), so that the service may still run it."""
    status = os.stat(source)
    mine = os.stat(target)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.ENODATA) or name == "security.selinux":
                raise


def replace_file(path: str, content: bytes, expect_sha256: str) -> None:
    """Replace the content of an existing script atomically; the old or the new content is there at any time.

    A symlink is followed; mode, owner and extended attributes stay. ``expect_sha256`` is what must be there
    now. Raises :class:`PdopsError` with the reason, and leaves nothing behind.
    """
    check_replaceable(path)
    real = os.path.realpath(path)
    try:
        with _size_limit_as_error():
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
            os.unlink(temporary)
            raise
        sync_folder(os.path.dirname(real))
    except OSError as error:
        raise PdopsError(f"{path} could not be replaced: {why(error)}; it is as it was.") from None


def find_leftovers(folder: str) -> list[str]:
    """Temporary files that a crash left in a folder."""
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(MARK))
    except OSError:
        return []

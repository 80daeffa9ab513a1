# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Puts a wheel into its own folder, whole or not at all. No pip, no compiler, and nothing of the serving environment is touched."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from typing import Any

from ..pdops_error import PdopsError
from ..store.atomic import size_limit_as_error, sync_folder, why
from ..store.obstacles import why_not_made
from .folders import MARK, damage
from .wheel import Wheel

#: A half install, of a run that was killed; nobody imports from it.
_HALF = re.compile(r"\.pdops-half-[0-9]+-.*")
_LOCK = ".pdops-lock"


def plan(wheel: Wheel, root: str) -> str:
    """What is to be done, as half a sentence; '' when the folder is there as the wheel has it.

    :raises PdopsError: something else is in the way, or nothing can be written there
    """
    todo = _todo(wheel, root)
    against = why_not_made(os.path.join(root, _LOCK)) if todo else ""
    if against:
        raise PdopsError(
            f"{os.path.join(root, wheel.folder)} could not be installed: {against}; nothing of it is there, and nothing else was touched."
        )
    return todo


def _todo(wheel: Wheel, root: str) -> str:
    path = os.path.join(root, wheel.folder)
    if not os.path.isabs(root):
        raise PdopsError(
            f"the folder of kernel packages is {root!r}; give an absolute path (root, or in an inventory pd_serve_root)."
        )
    if os.path.lexists(root) and not os.path.isdir(root):
        raise PdopsError(f"{root} is to be the folder of kernel packages, and is none; move it away.")
    if not os.path.lexists(path):
        return f"install {wheel.name} {wheel.version} into {path}"
    differs = damage(path, wheel)
    if differs is None:
        raise PdopsError(
            f"{path} is there and was not installed by pdops from this wheel; look at it, then move it away."
        )
    if differs.same:
        return ""
    odd = [*differs.changed, *differs.removed, *differs.added]
    return f"install {path} anew ({len(odd)} files are not as installed: {', '.join(odd[:3])})"


def install(wheel: Wheel, root: str) -> str:
    """Install the wheel below ``root`` and return its folder; the same when it is there already.

    The files are written into a folder beside, read again and compared, synced, and renamed: at any time the folder is
    there whole or not at all. A damaged one is moved aside first, and comes back when its successor cannot take its place.

    :raises PdopsError: no room, no permission, or something in the way; nothing is left behind then
    """
    path = os.path.join(root, wheel.folder)
    try:
        _make_root(root)
        with _locked(root):
            if not plan(wheel, root):
                return path
            _remove_halves(root)
            half = os.path.join(root, f".pdops-half-{os.getpid()}-{wheel.folder}")
            try:
                with size_limit_as_error():
                    _write(wheel, half)
                _put(half, path, root)
            finally:
                # Renamed away when all went well; else an error here would hide the first, and the next install removes it.
                shutil.rmtree(half, ignore_errors=True)
    except OSError as error:
        raise PdopsError(
            f"{path} could not be installed: {why(error)}; nothing of it is there, and nothing else was touched."
        ) from None
    return path


def remove(path: str) -> None:
    """Take a folder away: first out of sight by one rename, so that nobody imports from half of it."""
    root, name = os.path.split(path)
    try:
        with _locked(root):
            half = os.path.join(root, f".pdops-half-{os.getpid()}-{name}")
            # Of a dead process with our number, mostly absent; if it stays, the rename fails and says so.
            shutil.rmtree(half, ignore_errors=True)
            os.rename(path, half)
            sync_folder(root)
            shutil.rmtree(half)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PdopsError(f"{path} could not be removed: {why(error)}.") from None


def remove_compiled(path: str) -> None:
    """Take a folder of compiled kernels away. Half of it is no harm: Triton compiles what it does not find."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PdopsError(f"{path} could not be removed: {why(error)}.") from None


def _make_root(root: str) -> None:
    old = os.umask(0o022)
    try:
        os.makedirs(root, mode=0o755, exist_ok=True)
    finally:
        os.umask(old)


@contextlib.contextmanager
def _locked(root: str) -> Iterator[None]:
    descriptor = os.open(os.path.join(root, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_halves(root: str) -> None:
    """Under the lock nobody else is at work, so what is half here is nobody's."""
    for name in os.listdir(root):
        if _HALF.fullmatch(name):
            # Rubbish that cannot be removed takes space and nothing else; nobody imports from it.
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)


def _write(wheel: Wheel, half: str) -> None:
    # All that serve must be able to import it, whoever installs; kernels are no secret.
    os.mkdir(half, 0o755)
    os.chmod(half, 0o755)  # noqa: S103 (mkdir's mode is cut by the umask)
    folders = {half}
    mark: dict[str, Any] = {
        "name": wheel.name,
        "version": wheel.version,
        "sha256": wheel.sha256,
        "requires_python": wheel.requires_python,
        "requires": list(wheel.requires),
        "files": wheel.hashes,
        "installed_at": time.time(),
    }
    for inside, content in [*wheel.files.items(), (MARK, (json.dumps(mark, indent=1) + "\n").encode())]:
        whole = os.path.join(half, inside)
        folder = os.path.dirname(whole)
        while folder not in folders:
            os.makedirs(folder, exist_ok=True)
            os.chmod(folder, 0o755)  # noqa: S103 (makedirs' mode is cut by the umask)
            folders.add(folder)
            folder = os.path.dirname(folder)
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "wb") as target:
            os.fchmod(descriptor, 0o644)
            target.write(content)
            target.flush()
            os.fsync(descriptor)
    for folder in sorted(folders, reverse=True):
        sync_folder(folder)
    # Not what was meant to be written, but what can be read now.
    differs = _readable(wheel, half)
    if differs:
        raise PdopsError(
            f"{half} reads back otherwise than it was written ({differs}); look at the disk of {os.path.dirname(half)}."
        )


def _readable(wheel: Wheel, half: str) -> str:
    for inside, content in wheel.files.items():
        with open(os.path.join(half, inside), "rb") as source:
            if source.read() != content:
                return inside
    return ""


def _put(half: str, path: str, root: str) -> None:
    aside = os.path.join(root, f".pdops-half-{os.getpid()}-old-{os.path.basename(path)}")
    moved = os.path.lexists(path)
    if moved:
        os.rename(path, aside)
    try:
        os.rename(half, path)
    except OSError:
        if moved:
            os.rename(aside, path)
        raise
    sync_folder(root)
    if moved:
        # The new one is in place and on disk: what is left of the old one is rubbish for the next install to remove.
        shutil.rmtree(aside, ignore_errors=True)

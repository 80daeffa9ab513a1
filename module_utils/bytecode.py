# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps what Python compiles of pdops on a machine, since Ansible sends it as a zip, from which every call compiles it anew.

A module that imports this first has its other imports read from ``~/.cache/pdops/bytecode``. A file there is found by what it was
compiled from (the source, its place in the package, this Python), so several versions live side by side and none can be stale.
On a controller see :class:`Beside`.
What is there becomes code: a folder and a file are used only when nobody but this user can have written them. Without the folder,
without space, or with files that are damaged or at the place of another, all goes on as if there were no such folder.
"""

from __future__ import annotations

import functools
import hashlib
import marshal
import os
import pwd
import secrets
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from pkgutil import get_importer
from types import CodeType, ModuleType
from typing import Protocol
from zipimport import ZipImportError, zipimporter

PARTS = (".cache", "pdops", "bytecode")
#: What was not used for so long goes when something new is written, so that former versions do not pile up.
KEPT_S = 30 * 86400
_ROOT = __name__.rpartition(".")[0]
_PYTHON = f"{sys.implementation.cache_tag} {MAGIC_NUMBER.hex()} {sys.version} {sys.flags.optimize}"
_DIGEST_BYTES = hashlib.sha256().digest_size


def _ours_alone(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022


def folder_of(home: str) -> str:
    """The folder below ``home``, made when missing; '' when it cannot be, or when somebody else could write there."""
    path = home
    for part in ("", *PARTS):
        path = os.path.join(path, part) if part else path
        try:
            if part and not sys.dont_write_bytecode:
                with suppress(FileExistsError):
                    os.mkdir(path, 0o700)
            found = os.lstat(path)
        except OSError:
            return ""
        if not stat.S_ISDIR(found.st_mode) or not _ours_alone(found):
            return ""
    return path


def home() -> str:
    """Of the user that this process runs as; '' when it has none."""
    # Not HOME, which sudo may leave as another user's.
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _digest(path: str, body: bytes) -> bytes:
    # With the name, or a file that came to the place of another would run as that one.
    return hashlib.sha256(os.path.basename(path).encode() + b"\0" + body).digest()


def read_own(path: str) -> bytes | None:
    """What ``path`` holds; None when it is missing, no plain file, or not this user's alone."""
    try:
        # Nor may a link lead elsewhere or a pipe keep the module waiting, whoever put it there.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not _ours_alone(found):
                return None
            if abs(time.time() - found.st_mtime) > KEPT_S / 2:
                os.utime(descriptor)  # in use, so it stays
            return file.read()
    except OSError:
        return None


def read(path: str) -> CodeType | None:
    """The code that ``path`` holds; None when it is missing, damaged, of another place, or not this user's alone."""
    content = read_own(path)
    if content is None:
        return None
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if _digest(path, body) != digest:
        return None
    try:
        code = marshal.loads(body)  # noqa: S302 - folder and file were found to be this user's alone
    except (EOFError, ValueError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None


def write_own(path: str, content: bytes) -> bool:
    """Put ``content`` at ``path`` as a whole, for this user alone; whatever hinders that hinders nothing else. Whether it is there."""
    part = f"{path}.{secrets.token_hex(6)}"
    try:
        with open(part, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        return False
    _prune(os.path.dirname(path))
    return True


def write(path: str, code: CodeType) -> None:
    """Keep ``code``, see :func:`write_own`."""
    body = marshal.dumps(code)
    write_own(path, _digest(path, body) + body)


@functools.cache
def _prune(folder: str) -> None:
    """Once in a process: it may write many files, beside those of many versions."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # Each by itself: one that another call has removed meanwhile, or a folder, must not keep the others.
            with suppress(OSError):
                # A clock that was ahead must not keep its files for ever.
                if abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > KEPT_S:
                    os.unlink(entry.path)


class Sources(Protocol):
    """Of modules, as a zipimporter has them."""

    def get_source(self, fullname: str) -> str | None: ...

    def is_package(self, fullname: str) -> bool: ...


class Loader(InspectLoader):
    """Loads what ``archive`` has, from the compiled code in ``folder`` where that is there; '' for none."""

    def __init__(self, archive: Sources, folder: str) -> None:
        self.archive, self.folder = archive, folder

    def get_source(self, fullname: str) -> str:
        return self.archive.get_source(fullname) or ""

    def is_package(self, fullname: str) -> bool:
        return self.archive.is_package(fullname)

    def get_code(self, fullname: str) -> CodeType:
        source, name = self.get_source(fullname), fullname[len(_ROOT) + 1 :]
        key = hashlib.sha256("\0".join((_PYTHON, fullname, source)).encode()).hexdigest()
        path = os.path.join(self.folder, key)
        code = read(path) if self.folder else None
        if code is None:
            # The archive's own path is another at every call and gone after it.
            code = compile(source, f"pdops/{name.replace('.', '/')}.py", "exec", dont_inherit=True)
            if self.folder and not sys.dont_write_bytecode:
                write(path, code)
        return code


class Finder(MetaPathFinder):
    """Finds modules of this package that came in a zip; all others are left to Python."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT + "."):
            return None
        name = fullname.rpartition(".")[2]
        for entry in path or ():
            archive = get_importer(entry)
            if not isinstance(archive, zipimporter):
                return None
            # Not archive.find_spec: it compiles the source to tell where it is.
            with suppress(ZipImportError):
                package = archive.is_package(fullname)
                return spec_from_file_location(
                    fullname,
                    os.path.join(entry, name, "__init__.py") if package else os.path.join(entry, f"{name}.py"),
                    loader=Loader(archive, self.folder),
                    submodule_search_locations=[os.path.join(entry, name)] if package else None,
                )
        return None


class Beside(MetaPathFinder):
    """Finds modules of this package on a controller, as Python does: what it compiles stays in ``__pycache__`` beside the source.

    Ansible's own loader of collections compiles every file anew in every run.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT + "."):
            return None
        name = fullname.rpartition(".")[2]
        for entry in path or ():
            for file in (os.path.join(entry, name, "__init__.py"), os.path.join(entry, f"{name}.py")):
                if os.path.isfile(file):
                    return spec_from_file_location(fullname, file)
        return None


def _install() -> None:
    spec = globals().get("__spec__")
    if spec is None:
        return
    if isinstance(spec.loader, zipimporter):
        folder = folder_of(home())
        if folder:
            sys.meta_path.insert(0, Finder(folder))
    elif type(spec.loader).__module__.startswith("ansible.utils.collection_loader.") and "ansible.cli" in sys.modules:
        # In a run of Ansible only: ansible-test refuses what changes how Python finds modules.
        sys.meta_path.insert(0, Beside())


_install()

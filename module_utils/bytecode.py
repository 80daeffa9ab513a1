# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps what Python compiles of pdops on a machine, since Ansible sends it as a zip, from which every call compiles it anew.

A module that imports this first has its other imports read from ``~/.cache/pdops/bytecode``. A file there is found by what it was
compiled from (the source, its place in the package, this Python), so several versions live side by side and none can be stale.
What is there becomes code: it is used only when nobody but this user can have written it. Without the folder, without space,
or with files that are damaged, all goes on as if there were no such folder.
"""

from __future__ import annotations

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
from importlib.util import spec_from_file_location
from pkgutil import get_importer
from types import CodeType, ModuleType
from zipimport import ZipImportError, zipimporter

PARTS = (".cache", "pdops", "bytecode")
#: Older files go when a new one is written, so that former versions do not pile up. One that was in use is compiled once more.
KEPT_S = 30 * 86400
_ROOT = __name__.rpartition(".")[0]
_PYTHON = f"{sys.implementation.cache_tag} {sys.version} {sys.flags.optimize}"
_DIGEST_BYTES = hashlib.sha256().digest_size


def folder_of(home: str) -> str:
    """The folder below ``home``, made when missing; '' when it cannot be, or when somebody else could write there."""
    own = (os.geteuid(), 0)
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
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in own or found.st_mode & 0o022:
            return ""
    return path


def _home() -> str:
    # Not HOME, which sudo may leave as another user's.
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def read(path: str) -> CodeType | None:
    """The code that ``path`` holds; None when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return None
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        return None
    code = marshal.loads(body)  # noqa: S302 - the folder was found to be this user's alone
    return code if isinstance(code, CodeType) else None


def write(path: str, code: CodeType) -> None:
    """Keep ``code``; whatever hinders that hinders nothing else."""
    body = marshal.dumps(code)
    part = f"{path}.{secrets.token_hex(6)}"
    try:
        with open(part, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(hashlib.sha256(body).digest() + body)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        return
    _prune(os.path.dirname(path))


def _prune(folder: str) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > KEPT_S:
                os.unlink(entry.path)


class Loader(InspectLoader):
    """Loads what ``archive`` has, from the compiled code in ``folder`` where that is there."""

    def __init__(self, archive: zipimporter, folder: str) -> None:
        self.archive, self.folder = archive, folder

    def get_source(self, fullname: str) -> str:
        return self.archive.get_source(fullname) or ""

    def is_package(self, fullname: str) -> bool:
        return self.archive.is_package(fullname)

    def get_code(self, fullname: str) -> CodeType:
        source, name = self.get_source(fullname), fullname[len(_ROOT) + 1 :]
        key = hashlib.sha256("\0".join((_PYTHON, fullname, source)).encode()).hexdigest()
        path = os.path.join(self.folder, key)
        code = read(path)
        if code is None:
            # The archive's own path is another at every call and gone after it.
            code = compile(source, f"pdops/{name.replace('.', '/')}.py", "exec", dont_inherit=True)
            if not sys.dont_write_bytecode:
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


def _install() -> None:
    spec = globals().get("__spec__")
    if spec is None or not isinstance(spec.loader, zipimporter):
        return
    folder = folder_of(_home())
    if folder:
        sys.meta_path.insert(0, Finder(folder))


_install()

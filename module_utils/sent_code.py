# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Brings this package to a machine once, instead of with every call of a module.

Python reads what Ansible sends at half a microsecond a byte, so the code of pdops in every call would cost more than most of its work.
A call names the code by its sha256 instead; a machine that has it in ``~/.cache/pdops/bytecode`` (see :mod:`.bytecode`: only what
nobody but this user can have written) goes on, any other answers that it is missing, and the same call comes again with it.
What is not what its name says is never run; what nothing named for a month goes. A machine that keeps nothing gets it every time.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any
from zipimport import zipimporter

from . import bytecode

_ROOT = __name__.rpartition(".")[0]
_FOLDER = "module_utils"


def archive_of(folder: str) -> bytes:
    """All sources below ``folder`` as a zip. Same sources, same bytes; not compressed, since it is read at every call."""
    paths = sorted(
        os.path.relpath(os.path.join(where, name), folder)
        for where, _rooms, names in os.walk(folder)
        for name in names
        # An editor's link to whoever edits a file looks like a source and leads nowhere.
        if name.endswith(".py") and not name.startswith(".")
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in paths:
            with open(os.path.join(folder, path), "rb") as source:
                archive.writestr(zipfile.ZipInfo(f"{_FOLDER}/{path}", date_time=(1980, 1, 1, 0, 0, 0)), source.read())
    return packed.getvalue()


def name_of(archive: bytes) -> str:
    return hashlib.sha256(archive).hexdigest()


def to_send(archive: bytes) -> str:
    return base64.b64encode(zlib.compress(archive)).decode("ascii")


def missing() -> dict[str, Any]:
    """What a machine answers that was not sent the code and has it not: whether it would keep it."""
    folder = "" if sys.dont_write_bytecode else bytecode.folder_of(bytecode.home())
    return {"changed": False, "code_missing": True, "code_kept": bool(folder)}


def attach(name: str, sent: str | None) -> bool:
    """Have the modules of this package found in the archive of that name; False when it is neither here nor ``sent``.

    Raises ValueError when what was sent is not what the name says.
    """
    loader = getattr(sys.modules[__name__].__spec__, "loader", None)
    if not isinstance(loader, zipimporter):
        return True  # not sent by Ansible: all is there
    folder = bytecode.folder_of(bytecode.home())
    path = os.path.join(folder, f"{name}.zip")
    archive = (bytecode.read_own(path) if folder else None) or b""
    if name_of(archive) != name:
        if sent is None:
            return False
        archive = zlib.decompress(base64.b64decode(sent))
        if name_of(archive) != name:
            raise ValueError(f"the code of pdops that came is not {name}")
        if folder and not sys.dont_write_bytecode:
            bytecode.write_own(path, archive)
    sys.meta_path.insert(0, Finder(archive, folder, os.path.join(loader.archive, name)))
    return True


class Finder(MetaPathFinder):
    """Finds the modules of this package in an archive that was read whole: what a call imports later is what was looked at first,
    whatever becomes of the file meanwhile."""

    def __init__(self, archive: bytes, folder: str, told: str) -> None:
        """``told`` is where modules are said to lie: where no file can be."""
        self._told = told
        self._archive = zipfile.ZipFile(io.BytesIO(archive))
        self._names = frozenset(self._archive.namelist())
        self._folder = folder

    def _place(self, fullname: str) -> str | None:
        base = _FOLDER + fullname[len(_ROOT) :].replace(".", "/")
        return next((place for place in (f"{base}/__init__.py", f"{base}.py") if place in self._names), None)

    def is_package(self, fullname: str) -> bool:
        return (self._place(fullname) or "").endswith("/__init__.py")

    def get_source(self, fullname: str) -> str | None:
        place = self._place(fullname)
        return self._archive.read(place).decode() if place else None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self._place(fullname) if fullname.startswith(_ROOT + ".") else None
        if not place:
            return None
        return spec_from_file_location(
            fullname,
            os.path.join(self._told, place),
            loader=bytecode.Loader(self, self._folder),
            submodule_search_locations=[os.path.join(self._told, os.path.dirname(place))]
            if self.is_package(fullname)
            else None,
        )

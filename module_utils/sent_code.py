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
import importlib
import io
import os
import sys
import zipfile
import zlib
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
        if name.endswith(".py")
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
    if not folder or name_of(bytecode.read_own(path) or b"") != name:
        if sent is None:
            return False
        archive = zlib.decompress(base64.b64decode(sent))
        if name_of(archive) != name:
            raise ValueError(f"the code of pdops that came is not {name}")
        if not folder or sys.dont_write_bytecode or not bytecode.write_own(path, archive):
            # Beside what Ansible sent, and gone with it after this call.
            path = os.path.join(os.path.dirname(loader.archive), f"{name}.zip")
            with open(path, "xb") as file:
                file.write(archive)
    sys.modules[_ROOT].__path__.append(os.path.join(path, _FOLDER))
    importlib.invalidate_caches()
    return True

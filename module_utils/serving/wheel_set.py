# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The wheels that the controller carries to machines without a way to the internet: a folder, and what is installed of it."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError

# NAME-VERSION(-BUILD)?-PYTHON-ABI-PLATFORM.whl (PEP 427).
_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?)-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl\Z"
)
# A name, perhaps with extras and versions. Neither an option nor an address, which pip would take, too.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]+\])?(?:\s*[=<>!~]=?=?\s*[A-Za-z0-9.*+!_-]+(?:\s*,\s*)?)*\Z"
)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class WheelSet:
    """``folder`` is on the controller; ``files`` are names and sha256 in the order of names; ``install`` is what pip is asked for.

    :ivar key: 12 hexadecimal digits; the same for the same contents and the same ``install``, wherever the folder is
    """

    folder: str
    files: tuple[tuple[str, str], ...]
    install: tuple[str, ...]

    @property
    def key(self) -> str:
        told = "".join(f"{sha256}  {name}\n" for name, sha256 in self.files) + "\n".join(self.install)
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "key": self.key,
            "files": [{"name": name, "sha256": sha256} for name, sha256 in self.files],
            "install": list(self.install),
        }


def wheel_set_from_dict(data: Mapping[str, Any]) -> WheelSet:
    """The inverse of :meth:`WheelSet.as_dict`, for data that came through Ansible."""
    files = tuple((str(item["name"]), str(item["sha256"])) for item in data["files"])
    return WheelSet(str(data["folder"]), files, tuple(str(item) for item in data["install"]))


def read_wheels(folder: str, install: Optional[object], who: str) -> WheelSet:
    """Look through a folder of wheels; other files in it are passed over.

    :param install: requirements; None takes every distribution that has a wheel there
    :param who: for sentences, the instance whose variables name it
    :raises PdopsError: the folder is missing or has no wheel, a name is no wheel's, a file is none, or a requirement is none
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".whl"))
    except OSError as error:
        raise PdopsError(
            f"{who}: pd_wheels is {folder}, which cannot be read on the controller ({error.strerror}); "
            "make it with pip download --only-binary=:all: --dest FOLDER, for the Python of the machine."
        ) from None
    if not names:
        raise PdopsError(f"{who}: pd_wheels is {folder}, and there is no *.whl in it; fill it with pip download.")
    found = []
    for name in names:
        match = _WHEEL.match(name)
        if not match:
            raise PdopsError(
                f"{who}: {os.path.join(folder, name)} is not named like a wheel; take it out or rename it."
            )
        if not zipfile.is_zipfile(os.path.join(folder, name)):
            raise PdopsError(
                f"{who}: {os.path.join(folder, name)} is no whole wheel: it was cut short, or cannot be read; get it again."
            )
        found.append(match["name"])
    return WheelSet(
        folder, tuple((name, _sha256(os.path.join(folder, name))) for name in names), _install(install, found, who)
    )


def _install(given: Optional[object], found: list[str], who: str) -> tuple[str, ...]:
    if given is None:
        # pip itself, when it is carried to make the virtual environment, is installed like the others.
        return tuple(sorted({re.sub(r"[-_.]+", "-", name).lower() for name in found}))
    wanted = [given] if isinstance(given, str) else given
    if not isinstance(wanted, (list, tuple)) or not wanted:
        raise PdopsError(f"{who}: pd_wheels_install is {given!r}; list names, as in [sglang, sglang-router].")
    for item in wanted:
        if not isinstance(item, str) or not _REQUIREMENT.match(item):
            raise PdopsError(
                f"{who}: pd_wheels_install has {item!r}, which is no name of a distribution, as sglang==0.5.23 is."
            )
    return tuple(wanted)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            for block in iter(lambda: source.read(_CHUNK), b""):
                digest.update(block)
    except OSError as error:
        raise PdopsError(f"{path} cannot be read on the controller ({error.strerror}); see pd_wheels.") from None
    return digest.hexdigest()

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The folders of a machine into which kernel packages are installed: ``<root>/<version>-<sha8>/``, each with a mark."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .selection import FOLDER
from .wheel import Wheel

#: Written with the files, below the same rename: a folder without it is none of ours.
MARK = "pdops-kernel-package.json"
#: What Python writes beside the files that it imports.
_CACHES = "__pycache__"


@dataclass(frozen=True)
class Installed:
    """One folder; ``files`` are the hashes that it was installed with."""

    path: str
    version: str
    sha256: str
    files: Mapping[str, str]
    installed_at: float

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path, "version": self.version, "sha256": self.sha256}


@dataclass(frozen=True)
class FileDiff:
    """Files of a new package against those of an old one, in the order of their names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.changed)

    def lines(self) -> list[str]:
        return [
            *(f"+ {name}" for name in self.added),
            *(f"- {name}" for name in self.removed),
            *(f"~ {name}" for name in self.changed),
        ]


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> FileDiff:
    """Two mappings of path to sha256."""
    return FileDiff(
        tuple(sorted(set(after) - set(before))),
        tuple(sorted(set(before) - set(after))),
        tuple(sorted(name for name in set(before) & set(after) if before[name] != after[name])),
    )


def installed_in(root: str) -> list[Installed]:
    """The packages below ``root``, the newest first; whatever has no mark is passed over."""
    try:
        names = os.listdir(root)
    except OSError:
        return []
    found = [folder for folder in (read_folder(os.path.join(root, name)) for name in names) if folder is not None]
    return sorted(found, key=lambda folder: (folder.installed_at, folder.name), reverse=True)


def read_folder(path: str) -> Optional[Installed]:
    """What the mark of a folder says; None when it is no folder of ours."""
    if not FOLDER.fullmatch(os.path.basename(path)) or os.path.islink(path):
        return None
    try:
        with open(os.path.join(path, MARK), encoding="utf-8") as source:
            told = json.load(source)
        return Installed(
            path,
            str(told["version"]),
            str(told["sha256"]),
            {str(name): str(sha256) for name, sha256 in told["files"].items()},
            float(told["installed_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def files_in(path: str) -> dict[str, str]:
    """What really is in a folder, path to sha256 (a link or other thing has the word for it), without Python's caches and the mark."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != _CACHES]
        for name in names:
            whole = os.path.join(folder, name)
            inside = os.path.relpath(whole, path)
            if inside != MARK:
                found[inside] = _hash(whole)
    return found


def _hash(path: str) -> str:
    if os.path.islink(path) or not os.path.isfile(path):
        return "no regular file"
    try:
        with open(path, "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()
    except OSError:
        return "not readable"


def damage(path: str, wheel: Wheel) -> Optional[FileDiff]:
    """How the folder of this wheel differs from it; None when there is no such folder with its mark."""
    found = read_folder(path)
    if found is None or found.sha256 != wheel.sha256:
        return None
    return compare(wheel.hashes, files_in(path))

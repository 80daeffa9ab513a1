# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The folders of compiled kernels: what they are called, and the note of the last compile that lies in one.

With nothing changed, importing Triton once for each kind of launch only to hear that everything is there takes a minute. The note says
the same at once, as long as all that could make Triton compile is as it was, and every file is still there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional

from .. import foreign_json
from ..pdops_error import PdopsError
from ..store.atomic import read_own, write_private
from .engine_python import Told

NOTE = "pdops-compiled.json"
#: Behind the name of a folder: what a self-test compiled, which is not what is served.
SELF_TEST = ".selftest"
CACHE_NAME = re.compile(
    r"(?:no-triton|[0-9][^-/]*)-(?P<version>[0-9][A-Za-z0-9.+!]*)-sm[0-9]+(?:-[0-9a-f]{0,8})?(?:\.selftest)?"
)
#: What a package's script sets of Triton. Others may have it compile in any case, or look elsewhere.
_KNOWN = ("TRITON_CACHE_DIR", "TRITON_DISABLE_LINE_INFO", "TRITON_DEFAULT_FP_FUSION")


def cache_name(told: Told, version: str, arch: int) -> str:
    """Name of the folder of compiled kernels: it changes with whatever would make Triton compile anew."""
    if not told.triton:
        return f"no-triton-{version}-sm{arch}"
    return f"{told.triton}-{version}-sm{arch}-{told.key}"


def key_of(
    told: Told, package: str, environment: Mapping[str, str], launches: Sequence[Sequence[str]]
) -> Optional[str]:
    """A hash of all that decides what is compiled.

    None when a note would prove nothing: Triton is not to be found, or is told what it does not do by itself.

    :param package: the sha256 of the wheel
    :param launches: the words of each call that compiles
    """
    if any(name.startswith("TRITON_") and name not in _KNOWN for name in environment) or not told.triton_folder:
        return None
    try:
        # Its version alone would not tell that somebody altered it.
        triton = list(_stats(told.triton_folder))
    except OSError:
        return None
    every = [
        sorted(told.as_dict().items()),
        package,
        sorted(environment.items()),
        [list(words) for words in launches],
        triton,
    ]
    return hashlib.sha256(json.dumps(every).encode()).hexdigest() if triton else None


def _stats(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time in nanoseconds of each file below a folder, in order; what Python compiles is left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if (place, name) == (folder, NOTE):
                continue
            found = os.stat(os.path.join(place, name))
            yield os.path.relpath(os.path.join(place, name), folder), found.st_size, found.st_mtime_ns


def noted(cache: str, key: Optional[str]) -> Optional[int]:
    """How many kernels are there by the note, under these very conditions; None when only a compile can tell."""
    if key is None:
        return None
    try:
        note: Any = foreign_json.loads(read_own(os.path.join(cache, NOTE)))
        if note["key"] != key or not note["files"]:
            return None
        there = {path: [size, at] for path, size, at in _stats(cache)}
        if any(there.get(path) != stats for path, stats in note["files"].items()):
            return None
        return int(note["kernels"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def note(cache: str, key: Optional[str], kernels: int) -> None:
    """Write down that all is compiled."""
    if key is None:
        return
    # One that cannot be written is none, and the next run looks for itself; an engine may be at work in the folder.
    with suppress(OSError, PdopsError):
        files = {path: [size, at] for path, size, at in _stats(cache)}
        told = json.dumps({"key": key, "kernels": kernels, "files": files}, indent=1)
        write_private(os.path.join(cache, NOTE), told.encode())

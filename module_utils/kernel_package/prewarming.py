# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Fills the folder of compiled kernels before an engine needs them: a compile in the middle of serving stalls all ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from ..pdops_error import PdopsError
from ..store.atomic import why
from . import compiled
from .engine_python import Told, clean_environment, last_words, run_python

PREWARM_S = 900.0
#: What the layers of DeepSeek-V4 hand in: the window alone, window and top-k, window and every 128th token
#: (kernels/README.md, Streams); widths do not matter to what is compiled, pages do.
STREAMS = (("128", "256"), ("128+512", "256+64"), ("128+512", "256+2"))


@dataclass(frozen=True)
class Warmed:
    """How many kernels had to be compiled, and how many were there; ``noted``: by the note of the last compile."""

    cache: str
    compiled: int
    cached: int
    noted: bool = False


def prewarm(
    told: Told,
    package: str,
    knobs: Mapping[str, Optional[str]],
    cache: str,
    arch: int,
    heads: Sequence[int],
    owner: Optional[tuple[int, int]],
) -> Warmed:
    """Compile all streams for each number of heads into ``cache``, by the very path that the engine takes.

    :param package: the sha256 of its wheel
    :param owner: uid and gid of the engine, which writes there too; None leaves it to this process
    :raises PdopsError: a compile failed, or the folder cannot be made
    """
    try:
        old = os.umask(0o022)
        try:
            os.makedirs(cache, mode=0o750, exist_ok=True)
        finally:
            os.umask(old)
    except OSError as error:
        raise PdopsError(f"{cache} could not be made: {why(error)}.") from None
    common = ("-m", "pdops_kernels.prewarm", "--arch", str(arch), "--cache-dir", cache, "--json")
    launches = [
        (*common, "--heads", str(count), "--topk", topk, "--pages", pages) for count in heads for topk, pages in STREAMS
    ]
    environment = clean_environment(knobs)
    key = compiled.key_of(told, package, environment, launches)
    there = compiled.noted(cache, key)
    if there is not None:
        return Warmed(cache, 0, there, noted=True)
    new = cached = 0
    for words in launches:
        done = run_python(told.path, words, environment, PREWARM_S)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = {}
        if done.returncode != 0 or not found.get("ok"):
            raise PdopsError(f"pre-warming {cache} failed ({' '.join(words[-6:])}): {last_words(done)}")
        new += int(found["compiled"])
        cached += int(found["cached"])
    compiled.note(cache, key, new + cached)
    if owner is not None:
        _give(cache, owner)
    return Warmed(cache, new, cached)


def _give(folder: str, owner: tuple[int, int]) -> None:
    if os.geteuid() != 0 or owner[0] == 0:
        return
    for place, folders, names in os.walk(folder):
        for name in (place, *(os.path.join(place, inside) for inside in (*folders, *names))):
            os.chown(name, *owner, follow_symlinks=False)


def make_status_folder(folder: str, owner: Optional[tuple[int, int]]) -> bool:
    """The folder of the plugin's records, of the user that serves; whether it had to be made.

    :raises PdopsError: it cannot be made
    """
    if os.path.isdir(folder):
        return False
    try:
        old = os.umask(0o022)
        try:
            os.makedirs(folder, mode=0o750)
        finally:
            os.umask(old)
        if owner is not None and os.geteuid() == 0:
            os.chown(folder, *owner)
    except OSError as error:
        raise PdopsError(f"{folder} could not be made: {why(error)}.") from None
    return True

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A kernel package is selected by knobs of a serve script, so that taking it away is restoring the script."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from ..pdops_error import PdopsError

#: The name of a package's folder.
FOLDER = re.compile(r"(?P<version>[0-9][A-Za-z0-9.+!]*)-(?P<sha8>[0-9a-f]{8})")
PATH, CACHE, STATUS, PLUGINS = "PYTHONPATH", "TRITON_CACHE_DIR", "PDOPS_KERNELS_STATUS_DIR", "SGLANG_PLUGINS"
#: Name of the entry point; SGLang's allow-list has such names.
PLUGIN = "pdops_kernels"
#: Part of Triton's cache key, or of the numerics: set explicitly, since Triton 3.10 turns fusion off by default
#: (reference/kernels.md 5).
FIXED = {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}


@dataclass(frozen=True)
class Wanted:
    """What an instance is to have. ``cache`` and ``status`` are folders on the machine, ``more`` further knobs."""

    folder: str
    cache: Optional[str]
    status: str
    more: Mapping[str, Optional[str]]


def selected(value: Optional[str]) -> Optional[str]:
    """The folder of a kernel package in a PYTHONPATH, or None. It is known by its name, also when it is gone."""
    for entry in (value or "").split(":"):
        if entry.startswith("/") and FOLDER.fullmatch(os.path.basename(os.path.normpath(entry))):
            return os.path.normpath(entry)
    return None


def version_of(folder: str) -> str:
    """The version in the name of such a folder."""
    match = FOLDER.fullmatch(os.path.basename(folder))
    return match["version"] if match else ""


def python_path(value: Optional[str], folder: str) -> str:
    """``value`` with this package in front and no other one; what is there else stays, in its order."""
    others = [
        entry
        for entry in (value or "").split(":")
        if entry and not FOLDER.fullmatch(os.path.basename(os.path.normpath(entry)))
    ]
    return ":".join([folder, *others])


def plugins(value: Optional[str]) -> Optional[str]:
    """SGLang's allow-list with the plugin in it; None when there is no list, which lets every plugin in."""
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    if not names or PLUGIN in names:
        return value or None
    return ",".join([*names, PLUGIN])


def knobs_for(wanted: Wanted, now: Mapping[str, Optional[str]]) -> dict[str, Optional[str]]:
    """The knobs of a script that select a package, by name; ``now`` is what the engine would have of PATH and PLUGINS.

    :raises PdopsError: one of ``more`` is among those that the package's folder decides
    """
    knobs: dict[str, Optional[str]] = {PATH: python_path(now.get(PATH), wanted.folder)}
    if wanted.cache is not None:
        knobs[CACHE] = wanted.cache
    knobs[STATUS] = wanted.status
    knobs.update(FIXED)
    allowed = plugins(now.get(PLUGINS))
    if allowed != (now.get(PLUGINS) or None):
        knobs[PLUGINS] = allowed
    for name, value in wanted.more.items():
        if name in (PATH, CACHE, STATUS):
            raise PdopsError(f"pd_kernel_knobs has {name}, which the package's folder decides; take it out.")
        knobs[name] = value
    return knobs


def selecting(knobs: Mapping[str, str]) -> dict[str, str]:
    """Of a script's knobs those that select a package and steer it; none when it selects none."""
    if selected(knobs.get(PATH)) is None:
        return {}
    names = {PATH, CACHE, STATUS, PLUGINS, *FIXED}
    return {name: value for name, value in knobs.items() if name in names or name.startswith("PDOPS_KERNELS_")}


def told(folder: Optional[str]) -> str:
    return f"{version_of(folder)} ({os.path.basename(folder)})" if folder else "none"

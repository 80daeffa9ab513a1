# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which drop-ins a unit has on disk, in the order in which systemd would read them (systemd.unit(5)).

``systemctl show -p DropInPaths`` tells what systemd has loaded; this finds what it would load now.
"""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

#: Of the system manager, highest priority first (systemd 252 and 257).
FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)


def names_of(unit: str) -> List[str]:
    """Names whose ``.d`` folders count for the unit, the most particular first: itself, its template,
    its prefixes up to each dash, its type."""
    stem, _dot, kind = unit.rpartition(".")
    prefix, at, instance = stem.partition("@")
    names = [unit]
    if at and instance:
        names.append(f"{prefix}@.{kind}")
    parts = prefix.split("-")
    names += ["-".join(parts[:size]) + "-." + kind for size in range(len(parts) - 1, 0, -1)]
    return [*names, kind]


def dropins_of(unit: str, folders: Sequence[str] = FOLDERS, root: str = "") -> List[str]:
    """Paths by file name; of equal file names the one of the first name and folder. Links to /dev/null mask."""
    chosen: Dict[str, str] = {}
    for name in names_of(unit):
        for folder in folders:
            place = f"{root}{folder}/{name}.d"
            try:
                files = os.listdir(place)
            except OSError:
                continue
            for file in files:
                if file.endswith(".conf"):
                    chosen.setdefault(file, os.path.join(place, file))
    return [path for _file, path in sorted(chosen.items()) if os.path.realpath(path) != "/dev/null"]

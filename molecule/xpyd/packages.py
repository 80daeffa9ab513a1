#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Packs wheels and the simulated engine as they lie in site-packages: packages.py FOLDER_OF_WHEELS OUT.

OUT/engine.tar is for the engines' machines, OUT/router.tar also has the real router. Five machines that each ran pip would keep two
cores busy for a minute.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pack(archive: tarfile.TarFile, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as members:
        for name in members.namelist():
            info = tarfile.TarInfo(name)
            content = members.read(name)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))


def main() -> None:
    wheels, out = sorted(Path(sys.argv[1]).glob("*.whl")), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("engine", "router"):
        with tarfile.open(out / f"{name}.tar", "w") as archive:
            for wheel in wheels:
                if name == "router" or not wheel.name.startswith("sglang_router"):
                    pack(archive, wheel)
            archive.add(ROOT / "lab", "lab", filter=lambda item: None if "__pycache__" in item.name else item)


if __name__ == "__main__":
    main()

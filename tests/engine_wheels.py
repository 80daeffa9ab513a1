# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Wheels with the names of the engine's and the router's, and nothing in them, for what only looks at a folder of wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheels(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("sglang-0.5.23", "sglang_router-0.3.2"):
        distribution, version = name.split("-")
        info = f"{name}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Wheels of the real kernel package for tests, also spoiled ones, without what builds the real wheel (`kernels/tools/wheel`)."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "kernels" / "src" / "pdops_kernels"
#: An edit that holds in the self-test, and raises where an engine loads it: what an import in another environment may do.
RAISES_IN_ENGINE = {
    "pdops_kernels/sglang_plugin.py": (SOURCES / "sglang_plugin.py")
    .read_text(encoding="utf-8")
    .replace(
        "import json\n",
        'import sys\nif "lab.engine" in sys.modules:\n    raise RuntimeError("broken in the engine")\nimport json\n',
        1,
    )
}
_WHEEL = "Wheel-Version: 1.0\nGenerator: pdops tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_ENTRY = "[sglang.srt.plugins]\npdops_kernels = pdops_kernels.sglang_plugin:load\n"


def make_wheel(
    folder: Path,
    version: str = "0.1.0",
    edit: Mapping[str, str | None] | None = None,
    requires_python: str = ">=3.10",
    after_record: Mapping[str, bytes] | None = None,
) -> Path:
    """A wheel in ``folder``; the same arguments give the same bytes.

    :param edit: contents of files, over those of the sources; None leaves one out
    :param after_record: contents that are put in after RECORD was made, which then does not fit
    """
    info = f"pdops_kernels-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: pdops-kernels\nVersion: {version}\n"
    metadata += f"Requires-Python: {requires_python}\nRequires-Dist: triton<3.10,>=3.7.1\n"
    texts: dict[str, str | None] = {
        f"pdops_kernels/{path.name}": path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.py"))
    }
    texts["pdops_kernels/__init__.py"] = f'__version__ = "{version}"\n'
    texts.update({f"{info}/METADATA": metadata, f"{info}/WHEEL": _WHEEL, f"{info}/entry_points.txt": _ENTRY})
    texts.update(edit or {})
    files = {name: text.encode() for name, text in texts.items() if text is not None}
    rows = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    files.update(after_record or {})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pdops_kernels-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content)
    return path

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The agent carries every module that its own code may import, also the ones imported only when they are reached.

A gate or a view that is missing there is seen only in the middle of a rollback, on a machine without a controller.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

MODULES = Path(__file__).resolve().parents[3] / "module_utils"
#: As pd_change begins: the packing process has imported what that verb imports, and nothing that other tests did.
PACK = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from ansible_collections.pdops.sglang.plugins.module_utils.change import agent, guarding; "
    "sys.stdout.buffer.write(agent.pack())"
)


def wanted(name: str, text: str) -> set[str]:
    """The modules of ours that a file imports anywhere, as paths in the zip without their end."""
    package = name.split("/")[:-1]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
        found |= {"/".join([*base, alias.name]) for alias in node.names} | {"/".join(base)}
    known = {str(path.relative_to(MODULES))[:-3] for path in MODULES.rglob("*.py")}
    return {path for path in found if path.removeprefix("pdops_agent/") in known}


def test_whatever_the_guard_may_import_is_in_its_zip() -> None:
    collections = MODULES.parent / "collections"
    packed = subprocess.run([sys.executable, "-c", PACK, str(collections)], capture_output=True, check=True).stdout
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = set(archive.namelist())
        missing = {
            f"{one}, for {name}"
            for name in names
            if name != "__main__.py"
            for one in wanted(name, archive.read(name).decode())
            if f"{one}.py" not in names
        }
    assert "pdops_agent/gates/rendezvous.py" in names and len(names) > 30
    assert missing == set()

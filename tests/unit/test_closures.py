# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How much code a module brings to a machine, which is most of what a call of it costs.

Ansible packs every file that an import anywhere in a module reaches, parsing each (once per run), and on the machine all that
is imported before the work begins is compiled anew at every call. One careless import of a constant brings a whole room.
Who exceeds a bound splits a file, or imports within the function that needs it; who really needs more raises it.
Of those that go as ``pd_machine`` only that one is packed; for them the first number is what a machine may have to import.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UTILS = ROOT / "module_utils"
#: Lines of module_utils: packed once per run, and imported at every call before the module looks at its parameters.
BOUNDS = {
    "pd_machine": (370, 370),
    "pd_info": (16_100, 15_300),
    "pd_change": (16_700, 3_500),
    "pd_gate": (11_000, 3_450),
    "pd_instance": (6_300, 4_900),
    "pd_evidence": (6_250, 5_250),
    "pd_recover": (6_200, 5_150),
    "pd_status": (12_400, 11_700),
    "pd_worker": (4_550, 4_050),
    "pd_probe": (3_820, 3_820),
}


@cache
def imports(path: Path) -> tuple[tuple[bool, Path], ...]:
    """What a file imports of module_utils, and whether it does so as soon as it is imported itself."""
    package = ("module_utils", *path.relative_to(UTILS).parent.parts) if UTILS in path.parents else ("library",)
    return tuple(
        (at_once, file) for at_once, node in _nodes(ast.parse(path.read_text())) for file in _files(node, package)
    )


def _nodes(tree: ast.AST, at_once: bool = True) -> Iterator[tuple[bool, ast.ImportFrom]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield at_once, node
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from _nodes(node, at_once and not inside)


def _files(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[Path]:
    base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
    folder = ROOT.joinpath(*filter(None, base))
    for name in [*(folder / alias.name for alias in node.names), folder]:
        file = name.with_suffix(".py") if name.with_suffix(".py").is_file() else name / "__init__.py"
        if file.is_file():
            yield file
            yield from (room / "__init__.py" for room in file.parents if room.is_relative_to(UTILS))


def lines(module: str, only_at_once: bool) -> int:
    todo, found = [ROOT / "library" / f"{module}.py"], set()
    while todo:
        for at_once, file in imports(todo.pop()):
            if file not in found and (at_once or not only_at_once):
                found.add(file)
                todo.append(file)
    return sum(len(file.read_text().splitlines()) for file in found)


@pytest.mark.parametrize("module", BOUNDS)
def test_a_module_brings_no_more_than_it_needs(module: str) -> None:
    packed, at_once = BOUNDS[module]
    found = (lines(module, False), lines(module, True))
    assert found[0] <= packed and found[1] <= at_once, f"{module} brings {found}, and may bring {(packed, at_once)}"
    # A bound far above what is brought guards nothing, and no line at all would mean that this test looks at nothing.
    assert found[0] > 0.8 * packed and found[1] > 0.8 * at_once, f"{module} brings only {found}: lower {BOUNDS[module]}"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Kernels run in Triton's interpreter on CPU tensors in this process; what compiles runs in subprocesses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forks import Forks

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is decorated, so before any import of ours

ROOT = Path(__file__).parents[1]


_HELD: list[str] = []


@pytest.fixture(scope="session")
def held() -> list[str]:
    """What tests want the closing line to say."""
    return _HELD


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One closing line that says what held."""
    failed = len(terminalreporter.stats.get("failed", [])) + len(terminalreporter.stats.get("error", []))
    skipped = len(terminalreporter.stats.get("skipped", []))
    if _HELD and not failed:
        what = f"; {skipped} skipped" if skipped else ""
        terminalreporter.write_line(f"kernels: {'; '.join(_HELD)}{what}; nothing of this ran on a GPU")


def environment(src: Path, more: dict[str, str]) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "PDOPS", "SGLANG"))}
    # one line per key: the gate's cache is shared by tests, so that each kernel compiles once
    clean |= {
        "PYTHONPATH": str(src),
        "TRITON_CACHE_DIR": str(ROOT / ".cache" / "triton"),
        "PYTHONWARNINGS": "ignore",
    }
    return clean | more


@pytest.fixture
def tool(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m pdops_kernels.<name>` as a user would, without the interpreter unless asked."""

    def call(name: str, *args: str, src: Path = ROOT / "src", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", f"pdops_kernels.{name}", *args],
            env=environment(src, env), capture_output=True, text=True, timeout=1800, check=False, cwd=tmp_path,
        )  # fmt: skip

    return call


@pytest.fixture(scope="session")
def compiling() -> Iterator[Forks]:
    made = Forks(interpret=False)
    yield made
    made.close()


@pytest.fixture(scope="session")
def interpreting() -> Iterator[Forks]:
    made = Forks(interpret=True)
    yield made
    made.close()


@pytest.fixture
def quick_tool(tmp_path: Path, compiling: Forks) -> Callable[..., subprocess.CompletedProcess[str]]:
    """As `tool`, by a fork: for what another test has proved as a command."""

    def call(name: str, *args: str, src: Path = ROOT / "src", **env: str) -> subprocess.CompletedProcess[str]:
        return compiling.run(environment(src, env), tmp_path, module=f"pdops_kernels.{name}", arguments=args)

    return call

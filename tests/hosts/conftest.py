# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Tests on the hosts of a molecule scenario, which must be up: tools/molecule SCENARIO converge, then verify."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .field import Machine


def _machine(name: str) -> Machine:
    folder = os.environ.get("PDOPS_MOLECULE_DIR")
    if not folder or not (Path(folder) / "addresses").exists():
        pytest.skip("no hosts of a molecule scenario are up: run make molecule")
    return Machine(Path(folder), name)


@pytest.fixture(scope="session")
def gpu1() -> Machine:
    return _machine("gpu1")


@pytest.fixture(scope="session")
def gpu12() -> Machine:
    return _machine("gpu12")

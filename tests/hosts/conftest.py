# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Tests on the hosts of a molecule scenario, which must be up: tools/molecule SCENARIO converge, then verify."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .field import Machine


@pytest.fixture(scope="session")
def gpu1() -> Machine:
    folder = os.environ.get("PDOPS_MOLECULE_DIR")
    if not folder or not (Path(folder) / "addresses").exists():
        pytest.skip("no hosts of a molecule scenario are up: run make molecule")
    return Machine(Path(folder), "gpu1")

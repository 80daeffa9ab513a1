# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The five machines; each test begins with all of them serving, and leaves them so."""

from __future__ import annotations

import pytest

from ..conftest import _machine
from .fleet import MACHINES, Fleet


@pytest.fixture(scope="session")
def five_machines() -> Fleet:
    return Fleet({instance: _machine(host) for instance, host in MACHINES.items()})


@pytest.fixture
def fleet(five_machines: Fleet) -> Fleet:
    five_machines.wait("four healthy workers and a request", five_machines.whole)
    return five_machines

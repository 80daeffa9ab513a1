# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which deployments are changed at the same time."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.waves import waves


def numbers(count: int, given: Any, forks: int = 100) -> list[int]:
    return [item["wave"] for item in waves({f"d{n}": {} for n in range(count)}, given, forks).values()]


@pytest.mark.parametrize(
    ("count", "given", "found"),
    [
        (3, "100%", [1, 1, 1]),
        (5, 2, [1, 1, 2, 2, 3]),
        (5, "1,3", [1, 2, 2, 2, 3]),
        (7, " 1, 50% ", [1, 2, 2, 2, 3, 3, 3]),
        (3, "10%", [1, 2, 3]),
        (0, "100%", []),
    ],
)
def test_waves(count: int, given: Any, found: list[int]) -> None:
    assert numbers(count, given) == found


@pytest.mark.parametrize("given", ["0", "x", "-1", "101%", "1;2", "1.5", "1,,2", "١"])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(PdopsError, match="is no size of waves"):
        numbers(3, given)


def test_a_wave_wider_than_the_forks_is_refused() -> None:
    with pytest.raises(PdopsError, match="type -f 6, or make the waves smaller with -e change_wave=5"):
        numbers(6, "100%", forks=5)
    assert numbers(6, 5, forks=5) == [1, 1, 1, 1, 1, 2]

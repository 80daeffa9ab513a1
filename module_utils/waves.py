# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Waves of deployments: which of them are changed at the same time, and which only when those before held. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .pdops_error import PdopsError

ALL = "100%"


def sizes_of(given: Any, count: int) -> list[int]:
    """Sizes of the waves, the last one repeated as often as it needs: of ``3``, ``20%``, or ``1,5,20%``.

    Raises :class:`PdopsError` for anything else. A percentage is of all ``count`` deployments, and at least one.
    """
    found = []
    for part in str(given or ALL).split(","):
        match = re.fullmatch(r"\s*([0-9]{1,5})(%?)\s*", part)
        number = int(match[1]) if match else 0
        if not match or number < 1 or (match[2] and number > 100):
            raise PdopsError(
                f"change_wave={given} is no size of waves; take a number of deployments (5), a percentage (20%), or several (1,5,20%)."
            )
        found.append(max(1, count * number // 100) if match[2] else number)
    return found


def waves(leaders: Mapping[str, Mapping[str, Any]], given: Any, forks: int) -> dict[str, dict[str, Any]]:
    """Give each leading host its ``wave``, counted from 1, in the order of the inventory.

    Raises :class:`PdopsError` when a wave is wider than Ansible has workers: a deployment that waits for one while its lease
    runs would be put back by its guard.
    """
    names = list(leaders)
    sizes = sizes_of(given, len(names))
    found: dict[str, dict[str, Any]] = {}
    number, left = 1, sizes[0]
    for name in names:
        if not left:
            number += 1
            left = sizes[min(number, len(sizes)) - 1]
        found[name] = {**leaders[name], "wave": number}
        left -= 1
    widest = max((sum(item["wave"] == one for item in found.values()) for one in range(1, number + 1)), default=0)
    if widest > forks:
        raise PdopsError(
            f"{widest} deployments would be changed at once, and Ansible has {forks} forks: type -f {widest}, or make the waves "
            f"smaller with -e change_wave={forks}."
        )
    return found

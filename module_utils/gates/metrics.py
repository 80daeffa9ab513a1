# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Reads what engines and routers show on /metrics, in the Prometheus text format.

Only counters are read: the gauges of a stuck engine stay at their last values (reference/sglang-pd.md D).
"""

from __future__ import annotations

import math
import re
from typing import Dict, List, Optional, Tuple

from ..endpoint import Failure, join, request

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def samples(text: str, name: str) -> List[Tuple[Dict[str, str], float]]:
    """(labels, value) of one metric."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line) if line.startswith(name) else None
        if match and match.group("name") == name:
            try:
                found.append((dict(_LABEL.findall(match.group("labels") or "")), float(match.group("value"))))
            except ValueError:
                continue
    return found


def total(text: str, name: str) -> Optional[float]:
    """A counter summed over its series (ranks); None when it is not shown.

    A counter with labels is not shown by SGLang until it first moves, so that None is 0 on an engine that has it.
    """
    found = [value for _labels, value in samples(text, name) if math.isfinite(value)]
    return sum(found) if found else None


def fetch(url: str, timeout_s: float) -> Tuple[Optional[str], str, Optional[int]]:
    """The page, or None with the reason and the status; /metrics needs no API key (reference/sglang-pd.md C.6)."""
    page = url if url.rstrip("/").endswith("/metrics") else join(url, "/metrics")
    reply = request(page, timeout_s=timeout_s)
    if isinstance(reply, Failure):
        return None, reply.said, None
    if reply.status != 200:
        return None, f"{page} answers {reply.status}", reply.status
    return reply.body.decode("utf-8", "replace"), "", 200

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The plans that a process has resolved, logged once per bucket, and its fallbacks, counted. No torch, no triton."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice

from .knobs import Knobs, read_knobs
from .machine import Machine
from .plan import Plan, Shape, make_plan, read_table

# Capture buckets are tens. A server without CUDA graphs can see thousands of shapes, and the record is rewritten for each.
RECORDED = 256
logger = logging.getLogger("pdops_kernels")


class PlanBook:
    """Plans of one machine under one set of knobs. Not thread-safe in what it logs, safe in what it returns."""

    def __init__(self, machine: Machine, knobs: Knobs | None = None) -> None:
        """knobs default to the environment. Raises KnobError for a bad knob or an unreadable or foreign table."""
        self.machine = machine
        self.knobs = read_knobs() if knobs is None else knobs
        if self.knobs.without_effect:
            logger.warning(
                "policy %s does not read %s: no effect", self.knobs.policy, ", ".join(self.knobs.without_effect)
            )
        self.table = read_table(self.knobs.table) if self.knobs.table else None
        if self.table is not None:
            self.table.apply(machine)
        self.fallbacks: Counter[str] = Counter()
        self.on_change: Callable[[], None] = lambda: None  # a status record may want to follow
        self._plans: dict[Shape, Plan] = {}

    def plan(self, shape: Shape) -> Plan:
        """The plan of a bucket; the first time it is logged. ValueError for a shape that no kernel serves."""
        found = self._plans.get(shape)
        if found is None:
            found = self._plans[shape] = make_plan(shape, self.machine, self.knobs, self.table)
            within = len(self._plans) <= RECORDED
            logger.log(
                logging.INFO if within else logging.DEBUG,
                "plan %s: policy %s, %d splits, grid %dx%d, %s",
                shape.key,
                found.policy,
                found.splits,
                *found.grid,
                found.reason,
            )
            if within:
                self.on_change()
            if len(self._plans) == RECORDED:
                logger.warning("%d buckets have been planned: further plans are neither logged nor recorded", RECORDED)
        return found

    def fell_back(self, why: str) -> None:
        """Count one call that another kernel served, and log the first of each reason."""
        self.fallbacks[why] += 1
        count = self.fallbacks[why]
        if count == 1:
            logger.warning("fallback to the stock kernel: %s (further ones are counted, not logged)", why)
        if str(count).strip("0") == "1":  # 1, 10, 100, ...: a record on disk stays within a factor of ten
            self.on_change()

    def resolved(self) -> list[dict[str, object]]:
        """Summaries of the first RECORDED plans, in the order in which they came up."""
        return [plan.summary() for plan in islice(self._plans.values(), RECORDED)]

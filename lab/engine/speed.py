# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How long one token takes: a model, made to show the knob's effect that the field reported.

    time per token = base * (1 + 0.02 * (streams - 1)) / speed(streams, knob)

SGLANG_SM120_MMA_TARGET_CTAS (the field's own fork knows it; SGLang's registry does not) is how many blocks a decode
kernel aims at. 512 against 256 gave +12.8 % at 64 streams and +5.7 % at 96. In between, the gain is interpolated
linearly over the streams, and over the logarithm of the knob: 128 loses what 512 gains, 1024 keeps a third of it.
Nothing here says anything about a real GPU.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
USUAL = 256
CROWDING = 0.02
_BY_STREAMS = ((1.0, 0.01), (16.0, 0.04), (64.0, 0.128), (96.0, 0.057), (192.0, 0.02))
_BY_KNOB = ((6.0, -2.0), (7.0, -1.0), (8.0, 0.0), (9.0, 1.0), (10.0, 0.33), (12.0, -1.0))


class BadKnob(Exception):
    """Message as the exception that ends the program."""


def read_knob(env: Mapping[str, str]) -> int:
    """Raises BadKnob: a value that is no positive integer ends the engine at its start."""
    text = env.get(KNOB)
    if text is None:
        return USUAL
    try:
        value = int(text)
    except ValueError:
        raise BadKnob(f"ValueError: {KNOB}: invalid literal for int() with base 10: {text!r}") from None
    if value <= 0:
        raise BadKnob(f"ValueError: {KNOB} must be a positive integer, got {value}")
    return value


def _line(points: tuple[tuple[float, float], ...], x: float) -> float:
    if x <= points[0][0]:
        return points[0][1]
    if x >= points[-1][0]:
        return points[-1][1]
    right = bisect_right([at for at, _ in points], x)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def speed(streams: int, knob: int) -> float:
    """1.0 for the usual knob."""
    return 1.0 + _line(_BY_STREAMS, float(streams)) * _line(_BY_KNOB, math.log2(knob))


def token_s(base_s: float, streams: int, knob: int) -> float:
    return base_s * (1.0 + CROWDING * (max(1, streams) - 1)) / speed(streams, knob)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How fast the simulated engine is, and what the knob does to it.

A decode step of c running requests takes STEP_S + c * PER_REQUEST_S, divided by 1 + gain, and gives each of them
one token. The gain of SGLANG_SM120_MMA_TARGET_CTAS=512 over 256 (which is also the default) is drawn as straight
lines through the field's figures, +12.8 % at concurrency 64 and +5.7 % at 96; other values get it times
1 - |log2(value / 512)|, at least -1: 256 and 1024 gain nothing, 128 loses what 512 gains.
"""

from __future__ import annotations

import math

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
DEFAULT_TARGET = 256
LARGEST_TARGET = 4096
STEP_S = 0.030
PER_REQUEST_S = 0.0005
PREFILL_TOKENS_PER_S = 40_000.0
PREFILL_S = 0.010
TRANSFER_S = 0.005
_GAINS = ((0, 0.0), (16, 0.03), (32, 0.07), (64, 0.128), (96, 0.057), (192, 0.0))


class BadTarget(ValueError):
    pass


def target(text: str | None) -> int:
    """The knob's value; BadTarget for what the kernel would not take."""
    if text is None:
        return DEFAULT_TARGET
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LARGEST_TARGET:
        raise BadTarget(f"{KNOB} must be an integer from 1 to {LARGEST_TARGET}, got {text!r}")
    return int(text)


def gain(ctas: int, running: int) -> float:
    """What `ctas` gives over the default at this concurrency, as a part of the throughput."""
    share = max(-1.0, 1.0 - abs(math.log2(ctas / 512)))
    for (low, below), (high, above) in zip(_GAINS, _GAINS[1:], strict=False):
        if running <= high:
            return share * (below + (above - below) * (running - low) / (high - low))
    return 0.0


def step_s(running: int, ctas: int) -> float:
    return (STEP_S + PER_REQUEST_S * running) / (1.0 + gain(ctas, running))


def prefill_s(tokens: int) -> float:
    return PREFILL_S + tokens / PREFILL_TOKENS_PER_S

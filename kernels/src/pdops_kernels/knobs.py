# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The environment variables that steer the package, read once and checked. No torch, no triton."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

TARGET_CTAS = "SGLANG_SM120_MMA_TARGET_CTAS"
POLICY = "PDOPS_KERNELS_POLICY"
SPLITS = "PDOPS_KERNELS_SPLITS"
LEAF_TOKENS = "PDOPS_KERNELS_LEAF_TOKENS"
TABLE = "PDOPS_KERNELS_TABLE"
STRICT = "PDOPS_KERNELS_STRICT"
STATUS_DIR = "PDOPS_KERNELS_STATUS_DIR"
MACHINE = "PDOPS_KERNELS_MACHINE"  # plan as if on this machine (tests, planning without a GPU)

POLICIES = ("auto", "target", "fixed", "leaf")
DEFAULT_TARGET_CTAS = 256
DEFAULT_LEAF_TOKENS = 128
MAX_TARGET_CTAS = 65536
MAX_SPLITS = 1024
MAX_LEAF_TOKENS = 65536
LEAF_STEP = 64  # a leaf is made of whole KV tiles of every config
PREFIX = "PDOPS_KERNELS_"
NAMES = (POLICY, SPLITS, LEAF_TOKENS, TABLE, STRICT, STATUS_DIR, MACHINE)
READ_BY = {TARGET_CTAS: "target", SPLITS: "fixed", LEAF_TOKENS: "leaf", TABLE: "auto"}


class KnobError(ValueError):
    """A knob has a value that cannot be used; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Knobs:
    """What the environment asks for. `policy` is already resolved: see read_knobs. `without_effect` names variables
    that are set although this policy does not read them. Raises KnobError for values out of bounds."""

    policy: str = "auto"
    target_ctas: int = DEFAULT_TARGET_CTAS
    fixed_splits: int = 1
    leaf_tokens: int = DEFAULT_LEAF_TOKENS
    table: str | None = None
    strict: bool = False
    status_dir: str | None = None
    without_effect: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise KnobError(f"policy {self.policy!r} is not one of {', '.join(POLICIES)}.")
        for what, value, most in (
            ("target of CTAs", self.target_ctas, MAX_TARGET_CTAS),
            ("number of splits", self.fixed_splits, MAX_SPLITS),
            ("leaf of tokens", self.leaf_tokens, MAX_LEAF_TOKENS),
        ):
            if not 1 <= value <= most:
                raise KnobError(f"A {what} of {value} is not from 1 to {most}.")
        if self.leaf_tokens % LEAF_STEP:
            raise KnobError(f"A leaf of {self.leaf_tokens} tokens is not a multiple of {LEAF_STEP}.")


def _integer(env: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = env.get(name)
    if text is None:
        return default
    # the length first: int() itself refuses thousands of digits with another error
    if not (text.isascii() and text.isdigit() and len(text) <= 20) or not least <= int(text) <= most:
        raise KnobError(f"{name}={text[:40]!r} is not a whole number from {least} to {most}: correct it or unset it.")
    return int(text)


def read_knobs(env: Mapping[str, str] | None = None) -> Knobs:
    """Read and check all knobs of `env` (default: the process environment).

    The policy is PDOPS_KERNELS_POLICY; without it, `target` when SGLANG_SM120_MMA_TARGET_CTAS is set and
    `auto` when it is not. Policy `target` without the knob uses 256. Raises KnobError, also for a variable with our
    prefix that there is not: a misspelled knob must not be a knob without effect.
    """
    env = os.environ if env is None else env
    unknown = sorted(name for name in env if name.startswith(PREFIX) and name not in NAMES)
    if unknown:
        raise KnobError(f"{unknown[0]} is not a variable of this package ({', '.join(NAMES)}): correct it or unset it.")
    target = _integer(env, TARGET_CTAS, DEFAULT_TARGET_CTAS, 1, MAX_TARGET_CTAS)
    policy = env.get(POLICY, "target" if TARGET_CTAS in env else "auto")
    if policy not in POLICIES:
        raise KnobError(f"{POLICY}={policy!r} is not one of {', '.join(POLICIES)}: correct it or unset it.")
    if policy == "fixed" and SPLITS not in env:
        raise KnobError(f"{POLICY}=fixed needs {SPLITS}: set the number of KV splits.")
    splits = _integer(env, SPLITS, 1, 1, MAX_SPLITS)
    leaf = _integer(env, LEAF_TOKENS, DEFAULT_LEAF_TOKENS, LEAF_STEP, MAX_LEAF_TOKENS)
    if leaf % LEAF_STEP:
        raise KnobError(f"{LEAF_TOKENS}={leaf} is not a multiple of {LEAF_STEP}: a leaf is made of whole KV tiles.")
    strict = env.get(STRICT, "0")
    if strict not in ("0", "1"):
        raise KnobError(f"{STRICT}={strict!r} is not 0 or 1: correct it or unset it.")
    idle = tuple(name for name, reader in READ_BY.items() if env.get(name) and reader != policy)
    return Knobs(policy, target, splits, leaf, env.get(TABLE) or None, strict == "1", env.get(STATUS_DIR) or None, idle)

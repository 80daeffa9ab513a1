# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.calibrate`: measure this host, fit the cost model, store the best splits of the captured
buckets. Needs a GPU. The table is what PDOPS_KERNELS_TABLE names.

Buckets that were not measured are planned by the fitted model, so there is no cliff beside the table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .configs import config_for
from .machine import Machine
from .measure import PackedInputs, Sample
from .plan import FITTED, Shape, model_us

# A measured winner replaces the model's choice only when it is better by more than repeats differ.
WORTH = 0.02


def loss(machine: Machine, samples: Sequence[Sample]) -> float:
    """Mean squared log ratio of modelled to measured time."""
    total = 0.0
    for s in samples:
        config = config_for(s.shape.kind, machine.arch, s.shape.heads // s.shape.kv_heads)
        total += math.log(model_us(machine, s.shape, config, s.splits) / s.us) ** 2
    return total / len(samples)


def fit(machine: Machine, samples: Sequence[Sample], tries: int = 1200) -> tuple[Machine, float]:
    """Fit the model's constants to measured samples: a seeded (1+1) evolution strategy in log space.

    One constant at a time gets stuck, because prologue and tile time trade against each other. Returns the machine
    with the fitted constants and the root mean squared log error (0.1 is about 10 %). ValueError without samples.
    """
    if not samples:
        raise ValueError("Nothing was measured: there is nothing to fit.")

    def cost(trial: Machine) -> float:
        # a weak pull to the guesses, for constants that these samples do not show (DRAM, when nothing is bound by it)
        drift = sum(math.log(getattr(trial, n) / getattr(machine, n)) ** 2 for n in FITTED)
        return loss(trial, samples) + 1e-4 * drift

    rng = random.Random(0)
    best, best_loss, width = machine, cost(machine), 0.5
    for _ in range(tries):
        moves = {n: getattr(best, n) * math.exp(rng.gauss(0.0, width)) for n in FITTED}
        trial = replace(best, **moves)
        trial_loss = cost(trial)
        if trial_loss < best_loss:
            best, best_loss, width = trial, trial_loss, min(width * 1.5, 1.0)
        else:
            width = max(width * 0.9, 0.01)  # one success in five keeps the width
    return replace(best, calibrated=True), math.sqrt(loss(best, samples))


def best_splits(machine: Machine, samples: Sequence[Sample]) -> dict[str, int]:
    """Per bucket the measured best split count, or the fitted model's where it is within WORTH of it."""
    buckets: dict[str, int] = {}
    for shape in dict.fromkeys(s.shape for s in samples):
        config = config_for(shape.kind, machine.arch, shape.heads // shape.kv_heads)
        times = {s.splits: s.us for s in samples if s.shape == shape}
        winner = min(times, key=lambda n: (times[n], n))
        chosen = min(times, key=lambda n: (model_us(machine, shape, config, n), n))
        buckets[shape.key] = winner if times[chosen] > times[winner] * (1 + WORTH) else chosen
    return buckets


def table_of(machine: Machine, samples: Sequence[Sample]) -> dict[str, Any]:
    """The table as JSON: constants, buckets, error of the fit, and the samples it was made from."""
    fitted, error = fit(machine, samples)
    return {
        "machine": machine.name, "arch": machine.arch, "sms": machine.sms, "fit_error": round(error, 4),
        "constants": {name: getattr(fitted, name) for name in FITTED}, "buckets": best_splits(fitted, samples),
        "samples": [s.as_json() for s in samples],
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.calibrate", description=__doc__)
    parser.add_argument("--rows", default="1,2,4,8,16,24,32,48,64,80,96,112,128", help="the capture buckets")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--topk", default="128+512", help="one or more, comma separated; streams joined by +")
    parser.add_argument("--pages", default="256+64")
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--out", default=None, help="where the table goes (default: print it)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        import torch

        from . import api

        machine = api.current_machine()
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        pages = tuple(int(p) for p in args.pages.split("+"))
        samples = []
        for topk in args.topk.split(","):
            for rows in args.rows.split(","):
                shape = Shape("mla_packed", int(rows), args.heads, tuple(int(c) for c in topk.split("+")))
                sweep = PackedInputs(shape, machine, l2, pages).sweep(args.replays)
                samples += [Sample(shape, n, timing.median_us) for n, timing in sweep.items()]
        table = table_of(machine, samples)
    except Exception as error:  # the exit code and one sentence are the interface
        print(
            json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"})
            if args.json
            else f"calibrate: {error}",
            file=sys.stderr,
        )
        return 2
    text = json.dumps(table, indent=1)
    if args.out:
        with open(args.out + ".new", "w", encoding="utf-8") as f:
            f.write(text + "\n")
        os.replace(args.out + ".new", args.out)
    summary = {
        "ok": True,
        "out": args.out,
        "samples": len(samples),
        "fit_error": table["fit_error"],
        "buckets": table["buckets"],
    }
    if args.json or not args.out:
        print(json.dumps(summary, indent=1) if args.out else text)
    else:
        print(
            f"calibrate: {len(samples)} measured points on {machine.name}, fit error {table['fit_error']:.1%}, table in {args.out}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

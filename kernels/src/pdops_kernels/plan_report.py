# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.plan`: show plans side by side. Without options: the field's case."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from .knobs import KnobError, Knobs
from .machine import MACHINES, SMS_TO_NAME, machine_for
from .plan import Shape, make_plan, read_table


def knobs_named(name: str, base: Knobs) -> Knobs:
    """`auto`, `leaf`, `leaf:256`, `fixed:4`, or a number, which is a target of CTAs."""
    policy, _, value = name.partition(":")
    if policy.isdigit() and not value:
        return replace(base, policy="target", target_ctas=int(policy))
    if policy == "fixed" and value.isdigit():
        return replace(base, policy="fixed", fixed_splits=int(value))
    if policy == "leaf" and (not value or value.isdigit()):
        return replace(base, policy="leaf", leaf_tokens=int(value) if value else base.leaf_tokens)
    if policy in ("auto", "target") and not value:
        return replace(base, policy=policy)
    raise KnobError(f"policy {name!r} is not auto, leaf[:tokens], fixed:splits or a number of CTAs.")


def numbers(option: str, text: str, joined_by: str) -> tuple[int, ...]:
    """`64,96` or `128+512` as numbers. ValueError with one sentence."""
    parts = text.split(joined_by)
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise ValueError(f"{option} {text!r} is not whole numbers joined by {joined_by!r}.")
    return tuple(int(part) for part in parts)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.plan", description=__doc__)
    parser.add_argument("--kind", default="mla_packed")
    parser.add_argument("--rows", default="64,96", help="capture buckets, comma separated")
    parser.add_argument("--heads", type=int, default=16, help="query heads per rank")
    parser.add_argument("--kv-heads", type=int, default=1)
    parser.add_argument(
        "--topk", default="128+512", help="tokens per KV stream, joined by +; SGLang's order: window, then top-k"
    )
    parser.add_argument("--machine", default=None, choices=sorted(MACHINES))
    parser.add_argument("--sms", type=int, default=188)
    parser.add_argument("--arch", type=int, default=None)
    parser.add_argument("--policies", default="256,512,auto")
    parser.add_argument("--table", default=None, help="a calibration table")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        machine = MACHINES[args.machine or SMS_TO_NAME.get(args.sms, "rtx-pro-6000")]
        if args.machine is None and (args.arch is not None or machine.sms != args.sms):
            machine = machine_for(args.arch or machine.arch, args.sms)
        table = read_table(args.table) if args.table else None
        caps = numbers("--topk", args.topk, "+")
        plans = [
            make_plan(
                Shape(args.kind, rows, args.heads, caps, args.kv_heads),
                machine,
                knobs_named(p, Knobs()),
                table,
            )
            for rows in numbers("--rows", args.rows, ",")
            for p in args.policies.split(",")
        ]
    except ValueError as error:
        print(json.dumps({"ok": False, "error": str(error)}) if args.json else f"plan: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"ok": True, "machine": machine.name, "plans": [p.summary() for p in plans]}, indent=1))
        return 0
    names = args.policies.split(",") * len(args.rows.split(","))
    print(f"{machine.name}: sm_{machine.arch}, {machine.sms} SMs; {args.kind}, {args.heads} heads, {args.topk} tokens; "
          "times are modelled, not measured")  # fmt: skip
    for name, plan in zip(names, plans, strict=True):
        print(f"rows {plan.shape.rows:4}  {name:>8}  splits {plan.splits:3}  grid {plan.grid[0]}x{plan.grid[1]}  "
              f"waves {plan.waves:5.2f}  fill {plan.fill:4.0%}  modelled {plan.modelled_us:6.1f} us\n"
              f"             {plan.reason}")  # fmt: skip
    return 0

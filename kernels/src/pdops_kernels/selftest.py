# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.selftest`: does this host compute right numbers with these kernels?

On a GPU: numerics of every served kind, bit-equality of policy leaf, CUDA-graph capture with changed lengths, and how
many kernels had to be compiled (0 after prewarm, asserted with --expect-warm). Without a GPU, --interpret runs the
numerics and the bit-equality in Triton's interpreter on the CPU. Exit 0 only if all pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any


def problems(small: bool) -> dict[str, Any]:
    """Problems of every served kind; `small` for the interpreter."""
    import torch

    from .numerics import Problem

    if small:
        packed = Problem("mla_packed", 16, (128, 96), ((128, 1), (33, 0)), pages=(256, 64), sink=True)
        return {
            "packed": packed, "packed direct": packed,
            "dense": Problem("mla_576", 16, (96,), ((96, 65),), dense=True, pages=(16,)),
            "gqa": Problem("gqa_128", 16, (192,), ((192, 77),), kv_heads=2, rows_per_seq=2, sink=True),
        }  # fmt: skip
    bf16 = torch.bfloat16
    lengths = tuple([128, 0, 1, 77] * 16), tuple([512, 33, 0, 400] * 16)
    packed = Problem("mla_packed", 16, (128, 512), lengths, pages=(256, 64), sink=True, dtype=bf16)
    return {
        "packed": packed, "packed direct": packed, "packed 32 heads": replace(packed, heads=32),
        "packed 64 heads": replace(packed, heads=64), "packed bf16 partials": replace(packed, partials=bf16),
        "sparse 2048": Problem("mla_576", 16, (2048,), ((2048, 1000, 0, 1),), dtype=bf16),
        "dense": Problem("mla_576", 16, (4096,), ((4096, 65, 0, 1),), dense=True, dtype=bf16, rows_per_seq=2),
        "512": Problem("mla_512", 16, (512, 128), lengths[::-1], dtype=torch.float16, sink=True),
        "gqa 128": Problem("gqa_128", 32, (4096,), ((4096, 1, 0, 3000),), kv_heads=8, dtype=bf16),
        "gqa 64": Problem("gqa_64", 64, (1024,), ((1000, 512),), kv_heads=8, dtype=torch.float16, sink=True, rows_per_seq=2),
    }  # fmt: skip


def check_graph(device: str, machine: Any) -> str:
    """Capture one decode, change lengths and indices in place, replay, and compare with an eager call."""
    import torch

    from . import api, numerics
    from .knobs import Knobs
    from .plan import make_plan

    problem = problems(small=False)["packed"]
    plan = make_plan(problem.shape, machine, Knobs("auto"))
    inst = numerics.build(problem, device)
    cells: list[Any] = []
    real = api.mla_decode

    def keep(q: Any, streams: Any, **rest: Any) -> None:
        cells[:] = streams
        real(q, streams, **rest)

    api.mla_decode = keep
    try:
        numerics.launch(inst, plan, device)
        out = torch.empty((problem.rows, problem.heads, 512), dtype=problem.dtype, device=device)
        lse = torch.empty((problem.rows, problem.heads), device=device)
        workspace = api.Workspace.allocate([plan], device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            inst.launch(plan, out, lse, workspace)
        for stream in cells:
            stream.lengths.copy_(stream.lengths.flip(0) // 2)
        graph.replay()
        eager, eager_lse = numerics.launch(inst, plan, device)
        # the flipped lengths point at poisoned slots in places: equal NaNs are equal
        if not (
            torch.equal(out.view(torch.int16), eager.view(torch.int16))
            and torch.equal(lse.view(torch.int32), eager_lse.view(torch.int32))
        ):
            raise AssertionError("a replay with other lengths differs from an eager call")
    finally:
        api.mla_decode = real
    return f"captured {plan.splits} splits, replayed with other lengths, bit-equal to eager"


def check_leaf(device: str, machine: Any, small: bool) -> str:
    """The same rows planned for two machines and a repeat: equal bits under leaf."""
    import torch

    from . import numerics
    from .knobs import Knobs
    from .plan import make_plan

    problem = replace(problems(small)["gqa"] if small else problems(small)["gqa 128"], dtype=torch.bfloat16)
    inst = numerics.build(problem, device)
    plans = [make_plan(problem.shape, m, Knobs("leaf", leaf_tokens=64)) for m in (machine, machine.with_sms(7))]
    runs = [numerics.launch(inst, plan, device) for plan in [*plans, plans[0]]]
    if not all(torch.equal(runs[0][i], run[i]) for run in runs for i in (0, 1)):
        raise AssertionError("policy leaf gave different bits for the same rows")
    return f"{plans[0].splits} leaves, equal bits"


def warm(compiled: int) -> str:
    if compiled:
        raise AssertionError(
            f"{compiled} kernels were compiled that the cache should have had: prewarm with this environment"
        )
    return "0 of the deployment's kernels compiled"


def run(small: bool, device: str, machine: Any, expect_warm: bool) -> dict[str, Any]:
    """All checks; each becomes one entry with ok and detail."""
    import torch
    import triton

    from . import __version__, numerics
    from .book import PlanBook
    from .knobs import Knobs, read_knobs
    from .plan import Shape

    book = PlanBook(machine, read_knobs())  # first: a bad knob needs no numerics
    compiled: list[bool] = []
    triton.knobs.compilation.listener = lambda *, cache_hit, **_: compiled.append(not cache_hit)
    checks: list[dict[str, Any]] = []

    def check(name: str, work: Callable[[], str]) -> None:
        start = time.monotonic()
        try:
            detail, ok = work(), True
        except Exception as error:  # a check that crashes is a check that failed
            detail, ok = f"{type(error).__name__}: {error}", False
        checks.append({"name": name, "ok": ok, "detail": detail, "seconds": round(time.monotonic() - start, 2)})

    def numeric(problem: Any, knobs: Knobs) -> str:
        result = numerics.run(problem, knobs, machine, device)
        text = (
            f"error {result.error:.1e} of {result.bound:.0e}, lse {result.lse_error:.1e}, {result.plan.splits} splits"
        )
        if not result.ok:
            raise AssertionError(text)
        return text

    for name, problem in problems(small).items():
        knobs = Knobs("fixed", fixed_splits=1 if "direct" in name else 3)
        if expect_warm and name not in ("packed", "packed direct"):  # what prewarm compiles by default
            check("cache: nothing compiled", lambda: warm(sum(compiled)))
            expect_warm = False
        check(f"numerics: {name}", lambda problem=problem, knobs=knobs: numeric(problem, knobs))  # type: ignore[misc]
    check("bit-equality: leaf", lambda: check_leaf(device, machine, small))
    if device == "cuda":
        check("cuda graph", lambda: check_graph(device, machine))
    for rows in (1, 16, 64, 96):
        check(f"plan: rows {rows}", lambda rows=rows: book.plan(Shape("mla_packed", rows, 16, (128, 512))).reason)  # type: ignore[misc]
    return {
        "ok": all(c["ok"] for c in checks), "package": __version__, "triton": triton.__version__, "torch": torch.__version__,
        "device": "interpreter" if small else torch.cuda.get_device_name(), "machine": machine.name,
        "compiled": sum(compiled), "cached": len(compiled) - sum(compiled), "checks": checks, "plans": book.resolved(),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.selftest", description=__doc__)
    parser.add_argument("--interpret", action="store_true", help="no GPU: run in Triton's interpreter")
    parser.add_argument(
        "--expect-warm", action="store_true", help="fail if a kernel that prewarm makes by default had to be compiled"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")
    try:
        from . import api
        from .machine import MACHINES

        machine = MACHINES["rtx-pro-6000"] if args.interpret else api.current_machine()
        report = run(args.interpret, "cpu" if args.interpret else "cuda", machine, args.expect_warm)
    except Exception as error:  # the exit code and one sentence are the interface
        print(
            json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"})
            if args.json
            else f"selftest: {error}",
            file=sys.stderr,
        )
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        for c in report["checks"]:
            print(f"{'ok  ' if c['ok'] else 'FAIL'} {c['name']}: {c['detail']}")
        bad = sum(not c["ok"] for c in report["checks"])
        print(
            f"selftest: {len(report['checks'])} checks on {report['device']}, {bad} fail, {report['compiled']} kernels compiled"
        )
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.gate`: compile every served kernel and hold it to its budget, without a GPU.

A kernel passes when it has no spills (no local loads or stores, no stack), fits the shared memory of the
architecture, stays within its budget, keeps the occupancy that the planner counts with, and has tensor-core
instructions in its machine code. Exit 0 only if all pass.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

from .machine import LIMITS, occupancy
from .plan_report import numbers

MMA = re.compile(r"\b(HMMA|QMMA|OMMA|IMMA|HGMMA|QGMMA|UTCHMMA|UTCQMMA)\b")
LOCAL = re.compile(r"\b(LDL|STL)\b")


def tool(name: str) -> str:
    """Path of an NVIDIA tool that ships inside the triton wheel."""
    import triton

    return os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", name)


def inspect(cubin: bytes) -> dict[str, int]:
    """Registers, stack bytes, local memory instructions and tensor-core instructions of a cubin.

    subprocess.CalledProcessError when the tools refuse it.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(cubin)
        f.flush()
        usage = subprocess.run(
            [tool("cuobjdump"), "--dump-resource-usage", f.name], capture_output=True, text=True, check=True
        ).stdout
        sass = subprocess.run([tool("nvdisasm"), "-c", f.name], capture_output=True, text=True, check=True).stdout
    found = {k: int(v) for k, v in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return {
        "regs": found["REG"], "stack": found.get("STACK", 0) + found.get("LOCAL", 0), "local_ops": len(LOCAL.findall(sass)),
        "mma": len(MMA.findall(sass)), "async_copies": len(re.findall(r"\bLDGSTS\b", sass)),
    }  # fmt: skip


def judge(arch: int, case: Any, compiled: Any) -> dict[str, Any]:
    """One row of the report, with `problems` (empty when it passes)."""
    from .configs import MERGE_BUDGETS, MERGE_WARPS

    meta = compiled.kernel.metadata
    row: dict[str, Any] = {"arch": arch, "case": case.name, "kernel": compiled.name, "hash": meta.hash}
    row.update(inspect(compiled.kernel.asm["cubin"]))
    row.update(smem=meta.shared, warps=meta.num_warps, stages=meta.num_stages)
    row["occupancy"] = occupancy(arch, regs=row["regs"], smem=row["smem"], warps=row["warps"])
    merge = compiled.config is None
    budget = MERGE_BUDGETS[arch] if merge else compiled.config.budgets[arch]
    planned = occupancy(arch, regs=budget.regs, smem=budget.smem, warps=MERGE_WARPS if merge else compiled.config.warps)
    problems = []
    if row["local_ops"] or row["stack"]:
        problems.append(f"spills: {row['local_ops']} local loads and stores, {row['stack']} stack bytes")
    if row["smem"] > LIMITS[arch].smem_per_cta:
        problems.append(f"{row['smem']} bytes of shared memory, sm_{arch} has {LIMITS[arch].smem_per_cta}")
    if row["regs"] > budget.regs or row["smem"] > budget.smem:
        problems.append(f"over budget: {row['regs']} registers of {budget.regs}, {row['smem']} bytes of {budget.smem}")
    if row["occupancy"] < planned:
        problems.append(f"occupancy {row['occupancy']}, the planner counts with {planned}")
    if not merge and not row["mma"]:
        problems.append("no tensor-core instruction in the machine code")
    row["problems"] = problems
    return row


def run(archs: list[int]) -> dict[str, Any]:
    """Compile and judge everything served on `archs`."""
    import triton

    from .configs import BUDGET_TRITON
    from .offline import SERVED, compile_served

    rows: list[dict[str, Any]] = []
    start = time.monotonic()
    seen: set[tuple[int, str]] = set()

    def each(arch: int, case: Any, compiled: Any) -> None:
        key = (arch, compiled.kernel.metadata.hash)
        if key not in seen:  # cases share merge kernels
            seen.add(key)
            rows.append(judge(arch, case, compiled))

    compiled = cached = 0
    for arch in archs:
        recorder = compile_served(arch, SERVED, lambda case, c, arch=arch: each(arch, case, c))  # type: ignore[misc]
        compiled += recorder.compiled
        cached += recorder.cached
    return {
        "ok": bool(rows) and not any(r["problems"] for r in rows), "triton": triton.__version__,
        "budgets_of": list(BUDGET_TRITON), "compiled": compiled, "cached": cached, "seconds": round(time.monotonic() - start, 1),
        "kernels": rows,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.gate", description=__doc__)
    parser.add_argument("--archs", default="90,120")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")
    try:
        report = run(list(numbers("--archs", args.archs, ",")))
    except Exception as error:  # the exit code and one sentence are the interface
        print(
            json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"}) if args.json else f"gate: {error}",
            file=sys.stderr,
        )
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print(f"{'arch':>6} {'regs':>4} {'spill':>5} {'smem':>7} {'occ':>3} {'mma':>4} {'cp.async':>8}  w/s  kernel")
        for r in report["kernels"]:
            print(f"sm_{r['arch']:<3} {r['regs']:>4} {r['local_ops']:>5} {r['smem'] / 1024:>5.1f}KB {r['occupancy']:>3} {r['mma']:>4} "
                  f"{r['async_copies']:>8}  {r['warps']}/{r['stages']}  {r['kernel']}: {r['case']}")  # fmt: skip
            for problem in r["problems"]:
                print(f"       ^ FAILS: {problem}")
        bad = sum(bool(r["problems"]) for r in report["kernels"])
        print(f"gate: {len(report['kernels'])} kernels on triton {report['triton']}, {bad} fail; {report['compiled']} compiled, "
              f"{report['cached']} from cache, {report['seconds']} s")  # fmt: skip
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

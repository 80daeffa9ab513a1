# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.bench`: measured decode times over the sweep, against others and against the memory.

Needs a GPU. Every number in the result is measured, except fields whose name says modelled or datasheet. Writes
bench.json and two SVG plots into --out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from .knobs import Knobs
from .measure import PackedInputs, copy_gbs, regret, regret_summary, time_launches
from .plan import Shape, make_plan
from .plots import bars, lines

POLICIES = {"auto": Knobs("auto"), "256": Knobs("target", 256), "512": Knobs("target", 512), "leaf": Knobs("leaf")}


def sdpa(inputs: PackedInputs) -> Sequence[Callable[[], Any]]:
    """PyTorch SDPA over KV that is already gathered and widened to bf16: no paging, no fp8, 1024 bytes a token."""
    import torch

    shape = inputs.shape
    q = inputs.q[:, :, None].transpose(1, 2)  # [rows, 1, heads, 512]: heads as queries of one KV head
    kvs = [torch.randn(shape.rows, 1, sum(shape.caps), 512, device=inputs.device).bfloat16() for _ in range(2)]
    return [lambda kv=kv: torch.nn.functional.scaled_dot_product_attention(q, kv, kv) for kv in kvs]  # type: ignore[misc]


def flashinfer(inputs: PackedInputs) -> Sequence[Callable[[], Any]]:
    """FlashInfer's sm_120 sparse MLA, called as SGLang 0.5.23 calls it (64-token pages for both streams)."""
    import torch
    from flashinfer.mla._sparse_mla_sm120 import _sparse_mla_sm120_paged_attention

    shape = inputs.shape
    splits = sum(-(-cap // 64) for cap in shape.caps)
    mid = torch.empty(shape.rows, shape.heads, splits, 512, dtype=torch.bfloat16, device=inputs.device)
    mid_lse = torch.empty(shape.rows, shape.heads, splits, device=inputs.device)

    def launch(streams: Any) -> None:
        one, two = streams[0], streams[1] if len(streams) == 2 else None
        _sparse_mla_sm120_paged_attention(
            inputs.q, cache_view(one), one.indices, inputs.out, inputs.lse, 512**-0.5, d_v=512, topk_length=one.lengths,
            attn_sink=inputs.sink, extra_kv_cache=cache_view(two) if two else None,
            extra_indices=two.indices if two else None, extra_topk_length=two.lengths if two else None,
            mid_out=mid, mid_lse=mid_lse,
        )  # fmt: skip

    return [lambda s=s: launch(s) for s in inputs.streams]  # type: ignore[misc]


def sglang_triton(inputs: PackedInputs) -> Sequence[Callable[[], Any]]:
    """SGLang's own Triton kernel for sm_120."""
    from sglang.kernels.ops.attention.flash_mla_sm120_triton import (
        flash_mla_sparse_decode_triton,
    )

    def launch(streams: Any) -> None:
        one, two = streams[0], streams[1] if len(streams) == 2 else None
        flash_mla_sparse_decode_triton(
            inputs.q[:, None], cache_view(one), one.indices[:, None], one.lengths, inputs.sink, 512, 512**-0.5,
            cache_view(two) if two else None, two.indices[:, None] if two else None, two.lengths if two else None,
        )  # fmt: skip

    return [lambda s=s: launch(s) for s in inputs.streams]  # type: ignore[misc]


def cache_view(stream: Any) -> Any:
    """[pages, page, 1, 584] over the packed pages, as SGLang hands caches around."""
    kv = stream.kv
    return kv.as_strided((kv.shape[0], stream.page, 1, 584), (kv.stride(0), 584, 584, 1))


OTHERS: dict[str, tuple[str | None, Callable[[PackedInputs], Sequence[Callable[[], Any]]]]] = {
    "torch SDPA on gathered bf16": (None, sdpa),
    "FlashInfer sm_120 sparse MLA": ("flashinfer", flashinfer),
    "SGLang Triton": ("sglang", sglang_triton),
}


def case(
    shape: Shape, machine: Any, l2: int, pages: tuple[int, ...], gbs: float, replays: int, device: str = "cuda"
) -> dict[str, Any]:
    """Measure one shape: all split counts, what each policy would take, the others, and the bandwidth limit."""
    inputs = PackedInputs(shape, machine, l2, pages, device)
    sweep = inputs.sweep(replays)
    times = {n: t.median_us for n, t in sweep.items()}
    policies = {}
    for name, knobs in POLICIES.items():
        plan = make_plan(shape, machine, knobs)
        timing = time_launches(inputs.launches(plan), replays)
        policies[name] = {
            "splits": plan.splits, **asdict(timing), "regret": regret(times, plan.splits),
            "modelled_us": plan.modelled_us, "fill": plan.fill, "waves": plan.waves,
        }  # fmt: skip
    others: dict[str, Any] = {}
    for name, (package, make) in OTHERS.items():
        if package is not None and importlib.util.find_spec(package) is None:
            others[name] = {"skipped": f"{package} is not installed"}
            continue
        try:
            others[name] = asdict(time_launches(make(inputs), replays))
        except Exception as error:  # another project's kernel may not serve this GPU or shape: said, not hidden
            others[name] = {"skipped": f"{type(error).__name__}: {str(error)[:200]}"}
    kv_bytes = shape.rows * sum(shape.caps) * 584
    return {
        **asdict(shape), "bucket": shape.key, "rotations": inputs.rotations, "kv_bytes": kv_bytes,
        "bandwidth_limit_us": kv_bytes / gbs / 1e3, "sweep": {n: asdict(t) for n, t in sweep.items()},
        "best_splits": min(times, key=lambda n: times[n]), "best_us": min(times.values()),
        "policies": policies, "others": others,
    }  # fmt: skip


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Regret per policy over all cases (leaf is a mode for equal bits, not a chooser, but its price belongs here)."""
    return {name: regret_summary([c["policies"][name]["regret"] for c in cases]) for name in POLICIES}


def plots(cases: Sequence[dict[str, Any]], regrets: dict[str, Any]) -> dict[str, str]:
    """SVG texts by file name: time over rows for each heads x top-k, and regret per policy."""
    made = {}
    for heads, caps in dict.fromkeys((c["heads"], tuple(c["caps"])) for c in cases):
        chosen = [c for c in cases if (c["heads"], tuple(c["caps"])) == (heads, caps)]
        series = {name: [(c["rows"], c["policies"][name]["median_us"]) for c in chosen] for name in POLICIES}
        series["best split count"] = [(c["rows"], c["best_us"]) for c in chosen]
        series["bandwidth limit"] = [(c["rows"], c["bandwidth_limit_us"]) for c in chosen]
        for name in OTHERS:
            points = [(c["rows"], c["others"][name]["median_us"]) for c in chosen if "median_us" in c["others"][name]]
            if points:
                series[name] = points
        topk = "+".join(map(str, caps))
        made[f"time-heads{heads}-topk{topk}.svg"] = lines(
            f"measured, {heads} heads, top-k {topk}", "rows", "us per call", series
        )
    flat = {
        f"{name} {what}": 100 * values[what] for name, values in regrets.items() for what in ("mean", "p95", "worst")
    }
    made["regret.svg"] = bars("measured regret against the best split count", "%", flat)
    return made


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.bench", description=__doc__)
    parser.add_argument("--rows", default="1,2,4,8,16,32,48,64,96,128")
    parser.add_argument("--heads", default="16,32,64")
    parser.add_argument("--topk", default="512,128+512,2048")
    parser.add_argument("--pages", default="64+64")
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--out", default="bench-out")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        import torch
        import triton

        from . import api

        machine = api.current_machine()
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        gbs = copy_gbs()
        pages = tuple(int(p) for p in args.pages.split("+"))
        cases = []
        for topk in args.topk.split(","):
            for heads in args.heads.split(","):
                for rows in args.rows.split(","):
                    shape = Shape("mla_packed", int(rows), int(heads), tuple(int(c) for c in topk.split("+")))
                    cases.append(case(shape, machine, l2, pages, gbs, args.replays))
        report = {
            "ok": True, "device": torch.cuda.get_device_name(), "arch": machine.arch, "sms": machine.sms,
            "torch": torch.__version__, "triton": triton.__version__, "copy_gbs": gbs, "datasheet_gbs": machine.dram_gbs,
            "regret": summary(cases), "cases": cases,
        }  # fmt: skip
        os.makedirs(args.out, exist_ok=True)
        files = {"bench.json": json.dumps(report, indent=1)} | plots(cases, report["regret"])
        for name, text in files.items():
            with open(os.path.join(args.out, name), "w", encoding="utf-8") as f:
                f.write(text)
    except Exception as error:  # the exit code and one sentence are the interface
        print(
            json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"}) if args.json else f"bench: {error}",
            file=sys.stderr,
        )
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        for name, values in report["regret"].items():
            print(
                f"{name:>5}: measured regret mean {values['mean']:.1%}, p95 {values['p95']:.1%}, worst {values['worst']:.1%}"
            )
        print(f"bench: {len(cases)} shapes on {report['device']}, {gbs:.0f} GB/s copy, results in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

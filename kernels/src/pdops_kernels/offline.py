# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Compile the package's kernels for a GPU that is not here.

The real API is called with tensors on the `meta` device while launch() is replaced by Triton's own warmup, so
signature, alignment and options are by construction those of a launch with 16-byte-aligned tensors. The stub driver
only answers for which GPU to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from . import api
from .configs import CONFIGS, KINDS, Config
from .knobs import Knobs
from .machine import machine_for
from .packed import page_bytes
from .plan import Plan, Shape, make_plan


class _StubDriver:
    """Stands for a GPU of one architecture; the device number is the architecture, so that Triton's in-process
    caches keep architectures apart."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> int:
        return self.arch

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass
class Compiled:
    """One compiled kernel: Triton's handle, and whether it came from the cache directory."""

    name: str
    kernel: Any
    config: Config | None = None


@dataclass
class Recorder:
    """What was compiled inside `target`, and how many of it the cache directory did not have."""

    done: list[Compiled] = field(default_factory=list)
    compiled: int = 0
    cached: int = 0


@contextmanager
def target(arch: int) -> Iterator[Recorder]:
    """Inside, every API call compiles for sm_<arch> instead of launching. RuntimeError under the interpreter."""
    if api.INTERPRETED:
        raise RuntimeError("TRITON_INTERPRET is set: kernels cannot be compiled in this process; unset it.")
    recorder = Recorder()

    def compile_only(kernel: Any, grid: tuple[int, ...], args: tuple[Any, ...], options: dict[str, Any]) -> None:
        recorder.done.append(Compiled(kernel.fn.__name__, kernel.warmup(*args, grid=grid, **options)))

    def count(*, cache_hit: bool, **_: Any) -> None:
        recorder.cached += cache_hit
        recorder.compiled += not cache_hit

    before = (api.launch, triton.knobs.compilation.listener)
    driver = triton.runtime.driver
    driver_before = driver._active
    api.launch, triton.knobs.compilation.listener = compile_only, count
    driver.set_active(_StubDriver(arch))
    try:
        yield recorder
    finally:
        api.launch, triton.knobs.compilation.listener = before
        driver._active = driver_before


@dataclass(frozen=True)
class Case:
    """One kernel variant that is served."""

    kind: str
    heads: int = 16
    kv_heads: int = 1
    caps: tuple[int, ...] = (512,)
    dense: bool = False
    sink: bool = False
    direct: bool = False
    pages: tuple[int, ...] = (64, 64)

    @property
    def name(self) -> str:
        streams = "+".join(f"{c}@{p}" for c, p in zip(self.caps, self.pages, strict=False))
        flags = [w for w, on in (("dense", self.dense), ("sink", self.sink), ("direct", self.direct)) if on]
        return " ".join([self.kind, f"heads{self.heads}", streams, *flags])


# What the field serves (DeepSeek-V4 at TP4: sparse 512 + 128, sink), and one case per other kind.
SERVED: tuple[Case, ...] = (
    Case("mla_packed", caps=(128, 512), sink=True, pages=(256, 64)),
    Case("mla_packed", caps=(128, 512), sink=True, pages=(256, 64), direct=True),
    Case("mla_packed", caps=(128,), sink=True, pages=(256,)),
    Case("mla_packed", heads=32, caps=(128, 512), sink=True, pages=(256, 64)),
    Case("mla_packed", heads=64, caps=(128, 512), sink=True, pages=(256, 64), direct=True),
    Case("mla_576", caps=(2048,)),
    Case("mla_576", caps=(4096,), dense=True),
    Case("mla_512", caps=(512, 128), sink=True),
    Case("mla_512", caps=(4096,), dense=True, sink=True, pages=(16, 16)),
    Case("gqa_128", heads=32, kv_heads=8, caps=(4096,)),
    Case("gqa_64", heads=64, kv_heads=8, caps=(4096,), sink=True),
)


def case_plan(case: Case, arch: int, rows: int = 64) -> Plan:
    shape = Shape(case.kind, rows, case.heads, case.caps, case.kv_heads)
    return make_plan(shape, machine_for(arch, 132), Knobs("fixed", fixed_splits=1 if case.direct else 4))


def call(case: Case, plan: Plan) -> None:
    """Call the API for a case with meta tensors (only useful inside `target`)."""
    kind, rows = KINDS[case.kind], plan.shape.rows

    def meta(shape: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    common: dict[str, Any] = {
        "plan": plan, "out": meta((rows, case.heads, kind.dim)), "lse": meta((rows, case.heads), torch.float32),
        "scale": 0.1, "workspace": None if plan.direct else api.Workspace.allocate([plan], "meta"),
        "sink": meta((case.heads,), torch.float32) if case.sink else None,
    }  # fmt: skip
    q = meta((rows, case.heads, kind.dim + kind.rope))
    lengths = meta((rows,), torch.int32)
    if kind.family == "gqa":
        kv = meta((1024, case.pages[0], case.kv_heads, kind.dim))
        table = meta((rows, -(-case.caps[0] // case.pages[0])), torch.int32)
        api.gqa_decode(q, kv, kv, table, lengths, **common)
        return
    streams = []
    for cap, page in zip(case.caps, case.pages, strict=False):
        width = -(-cap // page) if case.dense else cap
        kv = meta((1024, page_bytes(page)), torch.uint8) if kind.packed else meta((1024, page, kind.dim + kind.rope))
        streams.append(api.Stream(kv, meta((rows, width), torch.int32), lengths, page))
    api.mla_decode(q, streams, dense=case.dense, **common)


def compile_served(
    arch: int, cases: tuple[Case, ...] = SERVED, each: Callable[[Case, Compiled], None] | None = None
) -> Recorder:
    """Compile all kernels of `cases` that are served on sm_<arch> into Triton's cache directory. ValueError when none
    is: an empty run must not look like a pass."""
    with target(arch) as recorder:
        for case in cases:
            if not any(c.kind == case.kind and arch in c.budgets for c in CONFIGS):
                continue
            plan = case_plan(case, arch)
            start = len(recorder.done)
            call(case, plan)
            for compiled in recorder.done[start:]:
                compiled.config = None if compiled.name == "merge_splits" else plan.config
                if each is not None:
                    each(case, compiled)
    if not recorder.done:
        kinds = ", ".join(sorted({case.kind for case in cases}))
        raise ValueError(
            f"Nothing of {kinds} is served on sm_{arch}: configs.py says what is, the README how to add it."
        )
    return recorder

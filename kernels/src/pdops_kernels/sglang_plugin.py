# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Entry point `pdops_kernels` of group `sglang.srt.plugins`: our kernel behind SGLang's sparse-decode leaf function.

SGLang logs and swallows whatever goes wrong in a plugin and then serves its stock kernel. So this module imports
nothing heavy at the top (an import error would be swallowed before a line of ours ran), applies the hook itself and
looks whether it took, writes a status record that a role can assert, and with PDOPS_KERNELS_STRICT=1 ends the process
instead of serving the stock kernel. An invalid knob always ends the process. CUDA is not touched before the first
call: SGLang loads plugins in its launcher process too.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import __version__
from .book import PlanBook, logger
from .knobs import MACHINE, STATUS_DIR, KnobError, Knobs, read_knobs
from .machine import MACHINES
from .plan import Shape, read_table

TARGET = "sglang.kernels.ops.attention.flash_mla_sm120.flash_mla_with_kvcache_sm120"
KNOWN_SGLANG = ((0, 5, 23), (0, 5, 24))  # from, up to and without
MAX_ROWS = 256  # SGLang sends prefill chunks through the same function; those stay with the stock kernel
EXIT_CONFIG = 78


class Refused(Exception):
    """This call is not for our kernel; the message is the reason that gets counted."""


class Status:
    """What became of the plugin in this process, rewritten atomically as <status dir>/<pid>.json."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory
        self.record: dict[str, Any] = {"pid": os.getpid(), "package": __version__, "target": TARGET, "state": "loading"}

    def write(self, **changes: Any) -> None:
        """Merge `changes` and write. A directory that cannot be written is an error: the record is the proof."""
        self.record |= changes
        self.record |= {"pid": os.getpid(), "time": time.time()}
        if self.directory is None:
            return
        os.makedirs(self.directory, mode=0o750, exist_ok=True)
        path = os.path.join(self.directory, f"{self.record['pid']}.json")
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.record, f, indent=1)
        os.replace(path + ".new", path)


def end_process(status: Status, sentence: str) -> NoReturn:
    """Say why on stderr, record it, and leave at once: an exception would be swallowed."""
    try:
        status.write(state="ended", error=sentence)
    except OSError as error:
        sentence += f" (and the status record cannot be written: {error})"
    print(f"pdops_kernels: {sentence}", file=sys.stderr, flush=True)
    os._exit(EXIT_CONFIG)


def check_sglang(version: str) -> None:
    """RuntimeError when this SGLang is outside the range whose leaf function is known."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    if not KNOWN_SGLANG[0] <= numbers < KNOWN_SGLANG[1]:
        low, high = (".".join(map(str, v)) for v in KNOWN_SGLANG)
        raise RuntimeError(
            f"SGLang {version} is outside the known range {low} up to (not with) {high}: update pdops-kernels."
        )


class Hook:
    """Stands around the leaf function: our kernel where it serves the call, else the original, counted."""

    def __init__(self, knobs: Knobs, status: Status) -> None:
        self.knobs, self.status = knobs, status
        self.book: PlanBook | None = None
        self.calls = self.served = 0

    def record(self, **changes: Any) -> None:
        """Write the status record while serving. At the start a directory that cannot be written is fatal; a disk that
        fills up later must not end a server that serves."""
        try:
            self.status.write(**changes)
        except OSError as error:
            logger.error("the status record cannot be written and is out of date: %s", error)

    def follow(self) -> None:
        """Bring the record up to what the book holds. `serving`: our kernel has served at least one call."""
        assert self.book is not None
        self.record(
            state="serving" if self.served else "hooked", machine=self.book.machine.name, sms=self.book.machine.sms,
            plans=self.book.resolved(), fallbacks=dict(self.book.fallbacks),
        )  # fmt: skip

    def open_book(self) -> PlanBook:
        """On the first call: find the machine, and tie the book to the status record."""
        from . import api

        name = os.environ.get(MACHINE)
        if name and name not in MACHINES:
            raise KnobError(f"{MACHINE}={name!r} is not one of {', '.join(MACHINES)}: correct it or unset it.")
        book = PlanBook(MACHINES[name] if name else api.current_machine(), self.knobs)
        book.on_change = self.follow
        self.book = book
        return book

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            book = self.book or self.open_book()
        except (RuntimeError, ValueError) as error:
            if self.knobs.strict or isinstance(error, KnobError):
                end_process(self.status, str(error))
            if self.calls == 0:
                self.record(state="stock", error=str(error))
                logger.warning("the stock kernel serves: %s", error)
            self.calls += 1
            return original(*args, **kwargs)
        self.calls += 1
        try:
            if args:
                raise Refused("positional arguments")
            result = self.serve(book, **kwargs)
        except Refused as reason:
            book.fell_back(str(reason))
            return original(*args, **kwargs)
        self.served += 1
        if self.served == 1:
            self.follow()
        return result

    def serve(
        self, book: PlanBook, *, q: Any, k_cache: Any, indices: Any, head_dim_v: int, topk_length: Any = None,
        attn_sink: Any = None, softmax_scale: float | None = None, extra_k_cache: Any = None,
        extra_indices_in_kvcache: Any = None, extra_topk_length: Any = None, **unknown: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        """One decode call in SGLang's terms. q [rows, 1, heads, 512] bfloat16; k_cache [pages, page, 1, 584];
        indices [rows, (1,) top-k] int32. Returns out [rows, 1, heads, 512] and lse [rows, heads, 1]. Refused when
        another kernel must serve it."""
        import torch

        from . import api
        from .packed import TOKEN_BYTES

        if unknown:
            raise Refused(f"unknown argument {sorted(unknown)[0]}")
        if q.ndim != 4 or q.shape[1] != 1 or q.shape[3] != 512 or head_dim_v != 512:
            raise Refused("shape of q")
        if q.dtype != torch.bfloat16:
            raise Refused("dtype of q")
        if q.shape[0] > MAX_ROWS:
            raise Refused(f"more than {MAX_ROWS} rows")
        if q.shape[0] == 0:
            raise Refused("no rows")
        if (extra_k_cache is None) != (extra_indices_in_kvcache is None):
            raise Refused("second stream without indices or cache")
        rows, heads = q.shape[0], q.shape[2]
        given = [(k_cache, indices, topk_length), (extra_k_cache, extra_indices_in_kvcache, extra_topk_length)]
        streams = []
        for cache, index, length in given[: 1 if extra_k_cache is None else 2]:
            if length is None:
                raise Refused("no top-k length")
            if index.dtype != torch.int32 or length.dtype != torch.int32:
                raise Refused("indices not int32")
            if cache.ndim != 4 or cache.shape[2:] != (1, TOKEN_BYTES) or cache.stride(3) != 1:
                raise Refused("KV layout")
            if cache.dtype not in api.PACKED_DTYPES:
                raise Refused("dtype of the KV cache")
            pages, page, _, _ = cache.shape
            # the page size is fiction in this view: scales lie behind the data of the whole page (packed.py)
            if page > 1 and cache.stride(1) != TOKEN_BYTES:
                raise Refused("KV layout")
            if index.shape[0] != rows or index.numel() != rows * index.shape[-1]:
                raise Refused("shape of the indices")
            raw = cache.as_strided((pages, page * TOKEN_BYTES), (cache.stride(0), 1)).view(torch.uint8)
            streams.append(api.Stream(raw, index.reshape(rows, index.shape[-1]), length, page))
        out = torch.empty((rows, heads, 512), dtype=q.dtype, device=q.device)
        lse = torch.empty((rows, heads), dtype=torch.float32, device=q.device)
        try:
            plan = book.plan(Shape("mla_packed", rows, heads, tuple(s.indices.shape[1] for s in streams)))
            workspace = None if plan.direct else api.Workspace.allocate([plan], q.device)
            api.mla_decode(
                q.squeeze(1), streams, plan=plan, out=out, lse=lse, workspace=workspace, sink=attn_sink,
                scale=softmax_scale if softmax_scale is not None else 512**-0.5,
            )  # fmt: skip
        except ValueError as error:
            raise Refused(str(error)) from error
        return out.unsqueeze(1), lse.unsqueeze(-1)


def install(knobs: Knobs, status: Status) -> Hook:
    """Register and apply the hook, and make sure that it took. RuntimeError or ImportError when not."""
    from importlib.metadata import version

    check_sglang(version("sglang"))
    import triton
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if knobs.table:
        read_table(knobs.table)
    hook = Hook(knobs, status)
    HookRegistry.register(TARGET, lambda original, *a, **k: hook(original, *a, **k), HookType.AROUND)
    HookRegistry.apply_hooks()  # applied again by SGLang later, which then finds it done
    if TARGET not in HookRegistry._patched:
        raise RuntimeError(f"SGLang could not apply the hook to {TARGET}: see its log.")
    status.write(
        state="hooked", sglang=version("sglang"), triton=triton.__version__, knobs=vars(knobs), plans=[], fallbacks={}
    )
    return hook


def load() -> None:
    """What SGLang calls in every process."""
    try:
        knobs = read_knobs()
    except KnobError as error:
        end_process(Status(os.environ.get(STATUS_DIR)), str(error))
    status = Status(knobs.status_dir)
    try:
        install(knobs, status)
    except KnobError as error:
        end_process(status, str(error))
    except Exception as error:
        sentence = f"The plugin could not hook SGLang ({type(error).__name__}: {error})."
        if knobs.strict:
            end_process(status, sentence)
        status.write(state="failed", error=sentence)
        logger.error("%s The stock kernel serves.", sentence)

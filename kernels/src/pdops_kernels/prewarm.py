# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""`python -m pdops_kernels.prewarm`: compile what a deployment serves into a Triton cache directory, without a GPU.

The directory is TRITON_CACHE_DIR or --cache-dir; --name prints the name it should have, which changes with whatever
would make Triton compile anew. Serve with the same Triton, the same package and the same environment.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from typing import Any

from .plan_report import numbers


def cache_name(arch: int) -> str:
    """<triton>-<package>-sm<arch>-<hash of the environment that is part of Triton's cache key>."""
    import triton
    from triton._C.libtriton import get_cache_invalidating_env_vars

    from . import __version__

    env = json.dumps(get_cache_invalidating_env_vars(), sort_keys=True)
    return f"{triton.__version__}-{__version__}-sm{arch}-{hashlib.sha256(env.encode()).hexdigest()[:8]}"


def prewarm(
    arch: int,
    kind: str,
    heads: int,
    kv_heads: int,
    caps: tuple[int, ...],
    pages: tuple[int, ...],
    sink: bool,
    dense: bool,
) -> dict[str, Any]:
    """Compile the split, direct and merge kernels of one deployment; splits and rows do not change a kernel."""
    import triton

    from .offline import Case, compile_served

    base = {
        "kind": kind,
        "heads": heads,
        "kv_heads": kv_heads,
        "caps": caps,
        "pages": pages,
        "sink": sink,
        "dense": dense,
    }
    cases = tuple(Case(**base, direct=direct) for direct in (False, True))  # type: ignore[arg-type]
    recorder = compile_served(arch, cases)
    kernels = {
        c.kernel.metadata.hash: {"kernel": c.name, "cubin_sha256": hashlib.sha256(c.kernel.asm["cubin"]).hexdigest()}
        for c in recorder.done
    }
    return {
        "ok": bool(kernels), "arch": arch, "cache_dir": triton.knobs.cache.dir, "name": cache_name(arch),
        "compiled": recorder.compiled, "cached": recorder.cached, "kernels": kernels,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="pdops_kernels.prewarm", description=__doc__)
    parser.add_argument("--arch", type=int, default=120)
    parser.add_argument("--cache-dir", default=None)
    parser.add_argument("--kind", default="mla_packed")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=1)
    parser.add_argument("--topk", default="128+512", help="index list widths, SGLang's order: window, then extra")
    parser.add_argument("--pages", default="256+64")
    parser.add_argument("--no-sink", action="store_true")
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--name", action="store_true", help="print the versioned directory name and stop")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    # part of Triton's key; without it cubins carry the install path and are not reproducible
    os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")
    if args.cache_dir:
        os.environ["TRITON_CACHE_DIR"] = os.path.abspath(args.cache_dir)
    try:
        if args.name:
            print(cache_name(args.arch))
            return 0
        caps, pages = numbers("--topk", args.topk, "+"), numbers("--pages", args.pages, "+")
        report = prewarm(args.arch, args.kind, args.heads, args.kv_heads, caps, pages, not args.no_sink, args.dense)
    except Exception as error:  # the exit code and one sentence are the interface
        print(
            json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"})
            if args.json
            else f"prewarm: {error}",
            file=sys.stderr,
        )
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print(
            f"prewarm: sm_{args.arch} in {report['cache_dir']}: {report['compiled']} compiled, {report['cached']} already there"
        )
        print(
            f"         serve with TRITON_DISABLE_LINE_INFO={os.environ['TRITON_DISABLE_LINE_INFO']}; directory name {report['name']}"
        )
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

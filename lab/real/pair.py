# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The serve scripts of the real pair on CPU and of the real router, in the form of the field's."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from ..layout import BACKUP, KNOB_LINE, Layout
from ..runner import ROOT, Lab, LabError, is_up, read_lab, read_mark, say, serve, up

HERE = Path(__file__).resolve().parent
VENV = ROOT / ".cache" / "real-venv"
PYTHON = VENV / "bin" / "python"
# What Mooncake is linked against and a small Debian lacks; tools/test-real puts it there where needed.
LIBRARIES = VENV / "libraries"
MODEL = ROOT / ".cache" / "real-model"
# A cold start on two busy cores takes a minute; the field's 900 would only make a failure slow to show.
LOAD_TIMEOUT_S = 240

# SGLANG_HOST_IP: without it Mooncake announces an address that is not loopback. --sleep-on-idle: without
# it two schedulers spin and everything takes twice as long.
_ENGINE = """\
#!/bin/bash
# {role} of the lab: the real SGLang on CPU, with a tiny seeded model
set -euo pipefail

export PYTHONPATH={shims} PDOPS_SHIM=torchvision,sgl_kernel
export LD_LIBRARY_PATH={libraries}
export TMPDIR={short} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export SGLANG_USE_CPU_ENGINE=1 OMP_NUM_THREADS=1
export MOONCAKE_PROTOCOL=tcp SGLANG_HOST_IP=127.0.0.1
export SGLANG_CACHE_DIR={cache}
{knobs}
exec {python} -m sglang.launch_server \\
  --model-path {model} --load-format safetensors --served-model-name {served} \\
  --device cpu --dtype bfloat16 --attention-backend torch_native --sampling-backend pytorch --grammar-backend none \\
  --disable-cuda-graph --disable-overlap-schedule --skip-server-warmup \\
  --max-total-tokens 4096 --max-running-requests 16 --context-length 1024 \\
  --host 127.0.0.1 --port {port} --nccl-port {nccl_port} \\
  --disaggregation-mode {role} --disaggregation-transfer-backend mooncake \\
  --disaggregation-bootstrap-port {bootstrap_port}{more} \\
  --sleep-on-idle --enable-metrics --watchdog-timeout 300
"""
_PREFILL_KNOBS = """\
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=20
export SGLANG_EXPOSE_OWN_ENV_VARS=1
"""
_DECODE_KNOBS = """\
export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=20
export SGLANG_SM120_FLASHMLA_BACKEND=triton
{knob}export SGLANG_EXPOSE_OWN_ENV_VARS=1
"""
# Without this the decode wants pinned memory of a GPU for its host pool.
_DECODE_MORE = " \\\n  --disaggregation-decode-retraction-backup cpu_tensor"
_ROUTER = """\
#!/bin/bash
set -euo pipefail
export RUST_LOG=info HF_HUB_OFFLINE=1
exec {python} -m sglang_router.launch_router \\
  --pd-disaggregation \\
  --prefill {prefill} {bootstrap_port} \\
  --decode {decode} \\
  --host 127.0.0.1 --port {port} --policy cache_aware --worker-startup-check-interval 1 \\
  --health-check-interval-secs 2 --health-check-timeout-secs 5 \\
  --health-failure-threshold 2 --health-success-threshold 1 --cb-timeout-duration-secs 5 \\
  --prometheus-host 127.0.0.1 --prometheus-port {metrics_port}
"""


def _engine(layout: Layout, role: str, knobs: str, more: str = "") -> str:
    return _ENGINE.format(
        role=role,
        shims=shlex.quote(str(HERE / "shims")),
        libraries=shlex.quote(str(LIBRARIES)),
        short=shlex.quote(layout.short),
        cache=shlex.quote(layout.at("cache", role)),
        knobs=knobs,
        python=shlex.quote(str(PYTHON)),
        model=shlex.quote(str(MODEL)),
        served=layout.model,
        port=layout.port(role),
        nccl_port=layout.port(f"{role}-nccl"),
        bootstrap_port=layout.port("bootstrap"),
        more=more,
    )


def scripts(layout: Layout) -> dict[str, str]:
    """File name to text, in the story's state: the knob is only in the backup beside the decode's script."""
    prefill, decode, router = (member.script for member in layout.shape.members)
    return {
        prefill: _engine(layout, "prefill", _PREFILL_KNOBS),
        decode: _engine(layout, "decode", _DECODE_KNOBS.format(knob=""), _DECODE_MORE),
        f"{decode}.{BACKUP}": _engine(layout, "decode", _DECODE_KNOBS.format(knob=KNOB_LINE), _DECODE_MORE),
        router: _ROUTER.format(
            python=shlex.quote(layout.python),
            prefill=layout.url("prefill"),
            decode=layout.url("decode"),
            bootstrap_port=layout.port("bootstrap"),
            port=layout.port("router"),
            metrics_port=layout.port("metrics"),
        ),
    }


def make_model() -> None:
    """Once; it is the same on every machine."""
    if (MODEL / "config.json").exists():
        return
    say("writing the tiny model (once)")
    command = [str(PYTHON), str(HERE / "make_model.py"), str(MODEL)]
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        raise LabError(f"the model could not be written to {MODEL}: {made.stderr.strip()}")


def start(folder: str) -> Lab:
    """Returns when a completion came through the router. What runs already goes on; what is down is started."""
    folder = os.path.realpath(folder)
    mark = read_mark(folder)
    if mark is not None and is_up(mark):
        say(f"{folder} is up; starting what is down")
        serve(folder)
        return read_lab(folder)
    if not PYTHON.exists():
        raise LabError(f"{VENV} is not there; make test-real makes it (2.7 GB)")
    make_model()

    def make(folder: str, short: str, first_port: int) -> Layout:
        return Layout(folder, short, first_port, "real", "tiny", LOAD_TIMEOUT_S, sys.executable)

    return up(folder, make, scripts, with_proxy=False)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The serve scripts of the simulated pair and of the real router, in the form of the field's."""

from __future__ import annotations

import shlex

from .layout import BACKUP, KNOB_LINE, Layout
from .shape import Member, bootstrap_of

_PREFILL = """\
#!/bin/bash
# DeepSeek-V4-Flash prefill, GPUs 0-3, NUMA node 0 (in this lab: a simulated engine)
set -euo pipefail

export CUDA_VISIBLE_DEVICES=0,1,2,3 SGLANG_CACHE_DIR={cache}
export UCX_NET_DEVICES=mlx5_0:1 UCX_TLS=rc_x,cuda_copy,cuda_ipc,tcp
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=20
export SGLANG_DISAGGREGATION_NIXL_BACKEND_PARAMS='{{"num_threads": "4"}}'
export SGLANG_EXPOSE_OWN_ENV_VARS=1

exec {python} -m lab.engine \\
  --model-path /models/DeepSeek-V4-Flash --served-model-name {model} --trust-remote-code \\
  --host 127.0.0.1 --port {port} \\
  --tp-size {tp} --mem-fraction-static 0.80 --chunked-prefill-size 8192 \\
  --disaggregation-mode prefill --disaggregation-transfer-backend nixl \\
  --disaggregation-bootstrap-port {bootstrap_port} --enable-metrics
"""
_DECODE = """\
#!/bin/bash
# DeepSeek-V4-Flash decode, GPUs 4-7, NUMA node 1 (in this lab: a simulated engine)
set -euo pipefail

export CUDA_VISIBLE_DEVICES=4,5,6,7
export SGLANG_CACHE_DIR={cache}
export UCX_NET_DEVICES=mlx5_1:1
export UCX_TLS=rc_x,cuda_copy,cuda_ipc,tcp
export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=20
export SGLANG_SM120_FLASHMLA_BACKEND=triton
{knob}export SGLANG_EXPOSE_OWN_ENV_VARS=1

exec {python} -m lab.engine \\
  --model-path /models/DeepSeek-V4-Flash --served-model-name {model} --trust-remote-code \\
  --host 127.0.0.1 --port {port} \\
  --tp-size {tp} --mem-fraction-static 0.85 --max-running-requests 96 \\
  --disaggregation-mode decode --disaggregation-transfer-backend nixl \\
  --disaggregation-bootstrap-port {bootstrap_port} \\
  --enable-metrics --watchdog-timeout 300
"""
# The router is the real one. Its defaults notice a dead worker after minutes; a pair of workers wants seconds.
_ROUTER = """\
#!/bin/bash
set -euo pipefail
export RUST_LOG=info HF_HUB_OFFLINE=1
exec {python} -m sglang_router.launch_router \\
  --pd-disaggregation \\
{workers}  --host 127.0.0.1 --port {port} --policy cache_aware --worker-startup-check-interval 1 \\
  --health-check-interval-secs 2 --health-check-timeout-secs 5 --health-failure-threshold 2 --health-success-threshold 1 \\
  --cb-timeout-duration-secs 5 --log-level warn \\
  --prometheus-host 127.0.0.1 --prometheus-port {metrics_port}
"""


def scripts(layout: Layout, knob_in_script: bool) -> dict[str, str]:
    """File name to text. In the story's state the knob is only in the backup that lies beside the decode's script."""
    python = shlex.quote(layout.python)
    shape = layout.shape

    def engine(template: str, member: Member, knob: str = "") -> str:
        prefill = member if member.role == "prefill" else shape.of("prefill")[0]
        return template.format(
            python=python,
            cache=shlex.quote(layout.at("cache", member.which)),
            model=layout.model,
            port=layout.port(member.which),
            bootstrap_port=layout.port(bootstrap_of(prefill)),
            knob=knob,
            tp=shape.tensor_parallel,
        )

    texts = {member.script: engine(_PREFILL, member) for member in shape.of("prefill")}
    for member in shape.of("decode"):
        texts[member.script] = engine(_DECODE, member, KNOB_LINE if knob_in_script else "")
        if not knob_in_script:
            texts[f"{member.script}.{BACKUP}"] = engine(_DECODE, member, KNOB_LINE)
    workers = [
        f"  --prefill {layout.url(member.which)} {layout.port(bootstrap_of(member))} \\\n"
        for member in shape.of("prefill")
    ]
    workers += [f"  --decode {layout.url(member.which)} \\\n" for member in shape.of("decode")]
    texts[shape.of("router")[0].script] = _ROUTER.format(
        python=python, workers="".join(workers), port=layout.port("router"), metrics_port=layout.port("metrics")
    )
    return texts

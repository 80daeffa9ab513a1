# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The files of a lab: serve scripts in the form of the field's, supervisord's configuration, lab.json."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
KNOB_LINE = f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96\n"
BACKUP = "pretgt_revert_2025.bak"
UNITS = {"lab-prefill": "sglang-dsv4-prefill", "lab-decode": "sglang-dsv4-decode", "lab-router": "sglang-dsv4-router"}
SCRIPTS = {name: f"serve_dsv4_{name.removeprefix('lab-')}.sh" for name in UNITS}
# A cold start on two busy cores takes a minute; the field's default of 900 would only make a failure slow to show.
LOAD_TIMEOUT_S = 240
# An idle engine ends 5 to 9 s after SIGTERM, on a busy machine later.
DRAIN_S = 30


@dataclass(frozen=True)
class Layout:
    """Where everything of one lab is. The socket is elsewhere: its path may have 107 bytes only."""

    folder: str
    short: str  # 0700, for the socket and for the engines' temporary files
    first_port: int
    python: str  # of the real environment
    router_python: str  # of .venv
    model: str
    shims: str
    libraries: str  # what Mooncake needs and the machine may lack; need not exist

    def at(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    @property
    def config(self) -> str:
        return self.at("supervisord.conf")

    @property
    def socket(self) -> str:
        return os.path.join(self.short, "supervisor.sock")

    @property
    def work(self) -> str:
        """The working directory of every program, by which its processes are known."""
        return self.at("work")

    def script(self, name: str) -> str:
        return self.at("serve", SCRIPTS[name])

    def log(self, name: str) -> str:
        return self.at("logs", UNITS[name] + ".log")

    def port(self, what: str) -> int:
        order = ("prefill", "decode", "router", "metrics", "bootstrap", "prefill-nccl", "decode-nccl")
        return self.first_port + order.index(what)

    def url(self, what: str) -> str:
        return f"http://127.0.0.1:{self.port(what)}"


# What both engines need to run on CPU at all, and what the field's scripts have, in their form.
_ENGINE = """\
#!/bin/bash
# {role} of the lab: the real SGLang on CPU, with a tiny seeded model
set -euo pipefail

export PYTHONPATH={shims} PDOPS_SHIM=torchvision,sgl_kernel
export TMPDIR={short} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export SGLANG_USE_CPU_ENGINE=1 OMP_NUM_THREADS=1
export MOONCAKE_PROTOCOL=tcp SGLANG_HOST_IP=127.0.0.1
export LD_LIBRARY_PATH={libraries}
{knobs}
exec {python} -m sglang.launch_server \\
  --model-path {model} --load-format safetensors --served-model-name tiny \\
  --device cpu --dtype bfloat16 --attention-backend torch_native --sampling-backend pytorch --grammar-backend none \\
  --disable-cuda-graph --disable-overlap-schedule --skip-server-warmup \\
  --max-total-tokens 4096 --max-running-requests 16 --context-length 1024 \\
  --host 127.0.0.1 --port {port} --nccl-port {nccl_port} \\
  --disaggregation-mode {role} --disaggregation-transfer-backend mooncake \\
  --disaggregation-bootstrap-port {bootstrap_port}{more} \\
  --sleep-on-idle --enable-metrics --watchdog-timeout 300
"""
_PREFILL_KNOBS = """\
export SGLANG_CACHE_DIR={cache}
export SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT=20
export SGLANG_EXPOSE_OWN_ENV_VARS=1
"""
_DECODE_KNOBS = """\
export SGLANG_CACHE_DIR={cache}
export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=20
export SGLANG_SM120_FLASHMLA_BACKEND=triton
{knob}export SGLANG_EXPOSE_OWN_ENV_VARS=1
"""
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
        shims=shlex.quote(layout.shims),
        short=shlex.quote(layout.short),
        libraries=shlex.quote(layout.libraries),
        python=shlex.quote(layout.python),
        model=shlex.quote(layout.model),
        knobs=knobs,
        port=layout.port(role),
        nccl_port=layout.port(f"{role}-nccl"),
        bootstrap_port=layout.port("bootstrap"),
        more=more,
    )


def scripts(layout: Layout) -> dict[str, str]:
    """File name to text. The decode's is in the story's state: the knob is only in the backup beside it."""
    decode = SCRIPTS["lab-decode"]
    texts = {}
    # Without this the decode wants pinned memory of a GPU for its host pool.
    more = " \\\n  --disaggregation-decode-retraction-backup cpu_tensor"
    for name, knob in ((decode, ""), (f"{decode}.{BACKUP}", KNOB_LINE)):
        knobs = _DECODE_KNOBS.format(cache=shlex.quote(layout.at("cache", "decode")), knob=knob)
        texts[name] = _engine(layout, "decode", knobs, more)
    knobs = _PREFILL_KNOBS.format(cache=shlex.quote(layout.at("cache", "prefill")))
    texts[SCRIPTS["lab-prefill"]] = _engine(layout, "prefill", knobs)
    texts[SCRIPTS["lab-router"]] = _ROUTER.format(
        python=shlex.quote(layout.router_python),
        prefill=layout.url("prefill"),
        decode=layout.url("decode"),
        bootstrap_port=layout.port("bootstrap"),
        port=layout.port("router"),
        metrics_port=layout.port("metrics"),
    )
    return texts


def _percent(text: str) -> str:
    """supervisord expands % in its configuration."""
    return text.replace("%", "%%")


def supervisor_config(layout: Layout) -> str:
    text = f"""\
[unix_http_server]
file={_percent(layout.socket)}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{_percent(layout.socket)}

[supervisord]
nodaemon=true
logfile={_percent(layout.at("logs", "supervisord.log"))}
pidfile={_percent(layout.at("supervisord.pid"))}
childlogdir={_percent(layout.at("logs"))}
"""
    for name, unit in UNITS.items():
        text += f"""
[program:{unit}]
command=/bin/bash {_percent(shlex.quote(layout.script(name)))}
directory={_percent(layout.work)}
autostart=false
autorestart=unexpected
startsecs=1
startretries=2
stopwaitsecs=60
stopasgroup=false
killasgroup=true
redirect_stderr=true
stdout_logfile={_percent(layout.log(name))}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""
    return text


def lab_json(layout: Layout, name: str) -> dict[str, object]:
    """What inventory/lab reads."""
    instances: dict[str, dict[str, object]] = {}
    for instance, unit in UNITS.items():
        role = instance.removeprefix("lab-")
        instances[instance] = {
            "role": role,
            "unit": unit,
            "url": layout.url(role),
            "serve_script": layout.script(instance),
            "bootstrap_port": None if role == "router" else layout.port("bootstrap"),
            "log": layout.log(instance),
        }
    instances["lab-router"]["metrics_url"] = layout.url("metrics")
    return {
        "name": name,
        "dir": layout.folder,
        "state_dir": layout.at("state"),
        "python": layout.router_python,
        "supervisor_config": layout.config,
        "supervisor_socket": layout.socket,
        "model": "tiny",
        "engine": "real",
        "load_timeout_s": LOAD_TIMEOUT_S,
        "drain_s": DRAIN_S,
        "instances": instances,
    }


def write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)


def write_all(layout: Layout) -> None:
    for room in ("serve", "logs", "work", "cache"):
        os.makedirs(layout.at(room), exist_ok=True)
    os.makedirs(layout.at("state"), mode=0o700, exist_ok=True)
    for name, text in scripts(layout).items():
        write(layout.at("serve", name), text, 0o755)
    write(layout.config, supervisor_config(layout))


def write_lab_json(layout: Layout, name: str) -> None:
    write(layout.at("lab.json"), json.dumps(lab_json(layout, name), indent=1) + "\n")

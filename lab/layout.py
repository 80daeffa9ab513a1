# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where everything of a lab is, supervisord's configuration, and lab.json, which inventory/lab reads."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
KNOB_LINE = f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96\n"
BACKUP = "pretgt_revert_2025.bak"
UNITS = {"lab-prefill": "sglang-dsv4-prefill", "lab-decode": "sglang-dsv4-decode", "lab-router": "sglang-dsv4-router"}
PROXY = "agent-proxy"
SCRIPTS = {name: f"serve_dsv4_{name.removeprefix('lab-')}.sh" for name in UNITS}
_PORTS = ("prefill", "decode", "router", "metrics", "bootstrap", "prefill-nccl", "decode-nccl", "proxy")


@dataclass(frozen=True)
class Layout:
    """The socket is outside of the folder, in ``short``: its path may have 107 bytes only."""

    folder: str
    short: str
    first_port: int
    engine: str  # simulated or real
    model: str
    load_timeout_s: int
    python: str  # of the controller, which runs router, proxy and simulated engines
    settings: Mapping[str, str] = field(default_factory=dict)  # environment of all programs

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

    @property
    def faults(self) -> str:
        return self.at("faults.json")

    def script(self, name: str) -> str:
        return self.at("serve", SCRIPTS[name])

    def log(self, unit: str) -> str:
        return self.at("logs", f"{unit}.log")

    def port(self, what: str) -> int:
        return self.first_port + _PORTS.index(what)

    def url(self, what: str) -> str:
        return f"http://127.0.0.1:{self.port(what)}"


def _percent(text: str) -> str:
    """supervisord expands % in its configuration."""
    return text.replace("%", "%%")


def _program(layout: Layout, unit: str, command: str, stop_wait_s: int) -> str:
    # As a unit with KillMode=mixed and Restart=on-failure: SIGTERM to the main process alone, SIGKILL to all;
    # an unexpected end is followed by a few starts, an exit by SIGTERM (0) by none.
    return f"""
[program:{unit}]
command={_percent(command)}
directory={_percent(layout.work)}
autostart=false
autorestart=unexpected
startsecs=1
startretries=2
stopwaitsecs={stop_wait_s}
stopasgroup=false
killasgroup=true
redirect_stderr=true
stdout_logfile={_percent(layout.log(unit))}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""


def supervisor_config(layout: Layout, with_proxy: bool) -> str:
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
        text += _program(layout, unit, f"/bin/bash {shlex.quote(layout.script(name))}", 60)
    if with_proxy:
        command = (
            f"{shlex.quote(layout.python)} -m lab.proxy --port {layout.port('proxy')} "
            f"--to {layout.url('router')} --faults {shlex.quote(layout.faults)}"
        )
        text += _program(layout, PROXY, command, 5)
    return text


def lab_json(layout: Layout, with_proxy: bool) -> dict[str, object]:
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
            "log": layout.log(unit),
        }
    instances["lab-router"]["metrics_url"] = layout.url("metrics") + "/metrics"
    told: dict[str, object] = {
        "name": "lab",
        "dir": layout.folder,
        "state_dir": layout.at("state"),
        "python": layout.python,
        "supervisor_config": layout.config,
        "supervisor_socket": layout.socket,
        "model": layout.model,
        "engine": layout.engine,
        "load_timeout_s": layout.load_timeout_s,
        "faults_file": layout.faults,
        "instances": instances,
    }
    if with_proxy:
        told["proxy"] = {"unit": PROXY, "url": layout.url("proxy"), "log": layout.log(PROXY)}
    return told


def write(path: str, text: str, mode: int = 0o644) -> None:
    """Whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)


def write_files(layout: Layout, scripts: Mapping[str, str], with_proxy: bool) -> None:
    """Everything but lab.json, which says that the lab is there. A script that is there already stays as it is."""
    for room in ("serve", "logs", "work", "cache", "state"):
        os.makedirs(layout.at(room), mode=0o700, exist_ok=True)
    for name, text in scripts.items():
        if not os.path.lexists(layout.at("serve", name)):
            write(layout.at("serve", name), text, 0o755)
    write(layout.faults, "{}\n")
    write(layout.config, supervisor_config(layout, with_proxy))


def write_lab_json(layout: Layout, with_proxy: bool) -> None:
    write(layout.at("lab.json"), json.dumps(lab_json(layout, with_proxy), indent=1) + "\n")

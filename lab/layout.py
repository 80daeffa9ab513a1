# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where everything of a lab is, supervisord's configuration, and lab.json, which inventory/lab reads."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import inventory
from .shape import Member, Shape, bootstrap_of

KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
KNOB_LINE = f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96\n"
BACKUP = "pretgt_revert_2025.bak"
PROXY = "agent-proxy"


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
    shape: Shape = field(default_factory=Shape)

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

    def script(self, member: Member) -> str:
        return self.at("serve", member.script)

    def state(self, machine: str) -> str:
        """Each machine has a store of its own."""
        return self.at("state") if self.shape.machines == 1 else self.at("state", machine)

    def cut(self, machine: str) -> str:
        """While this file is there, the controller does not reach the machine."""
        return self.at("cut", machine)

    def log(self, unit: str) -> str:
        return self.at("logs", f"{unit}.log")

    def port(self, what: str) -> int:
        return self.first_port + self.shape.ports.index(what)

    def url(self, what: str) -> str:
        return f"http://{self.shape.host}:{self.port(what)}"


def _percent(text: str) -> str:
    """supervisord expands % in its configuration."""
    return text.replace("%", "%%")


def _program(layout: Layout, unit: str, command: str, stop_wait_s: int, instance: str = "") -> str:
    # As a unit with KillMode=mixed and Restart=on-failure: SIGTERM to the main process alone, SIGKILL to all;
    # an unexpected end is followed by a few starts, an exit by SIGTERM (0) by none.
    environment = f'environment=PDOPS_LAB_INSTANCE="{instance}"\n' if instance else ""
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
{environment}"""


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
    for member in layout.shape.members:
        # Where there is one of each, its role says which faults are meant for it.
        named = "" if layout.shape.usual else member.name
        text += _program(layout, member.unit, f"/bin/bash {shlex.quote(layout.script(member))}", 60, named)
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
    for member in layout.shape.members:
        # A decode of several prefills has no bootstrap port of its own; alone with one it is told that one's, as in the field.
        prefill = member if member.role == "prefill" else layout.shape.of("prefill")[0]
        told_port = member.role == "prefill" or (member.role == "decode" and layout.shape.prefills == 1)
        instances[member.name] = {
            "role": member.role,
            "unit": member.unit,
            "url": layout.url(member.which),
            "serve_script": layout.script(member),
            "bootstrap_port": layout.port(bootstrap_of(prefill)) if told_port else None,
            "log": layout.log(member.unit),
            "machine": member.machine,
            "state_dir": layout.state(member.machine),
        }
        if member.role == "router":
            instances[member.name]["metrics_url"] = layout.url("metrics") + "/metrics"
    told: dict[str, object] = {
        "name": layout.shape.name,
        "dir": layout.folder,
        "state_dir": layout.at("state"),
        "python": layout.python,
        "supervisor_config": layout.config,
        "supervisor_socket": layout.socket,
        "model": layout.model,
        "engine": layout.engine,
        "tensor_parallel": layout.shape.tensor_parallel,
        "load_timeout_s": layout.load_timeout_s,
        "faults_file": layout.faults,
        "inventory": layout.at("inventory.json"),
        "cut": {machine: layout.cut(machine) for machine in dict.fromkeys(m.machine for m in layout.shape.members)},
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
    for room in ("serve", "logs", "work", "cache", "state", "cut"):
        os.makedirs(layout.at(room), mode=0o700, exist_ok=True)
    for name, text in scripts.items():
        if not os.path.lexists(layout.at("serve", name)):
            write(layout.at("serve", name), text, 0o755)
    write(layout.faults, "{}\n")
    write(layout.config, supervisor_config(layout, with_proxy))


def write_lab_json(layout: Layout, with_proxy: bool) -> None:
    told = lab_json(layout, with_proxy)
    write(layout.at("inventory.json"), json.dumps(inventory.of_lab(told), indent=1) + "\n")
    write(layout.at("lab.json"), json.dumps(told, indent=1) + "\n")

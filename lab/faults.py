# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Switches faults of simulated engines and of the proxy on and off, through one file that they re-read."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from . import layout as files
from .runner import Lab, LabError

#: What each fault needs: nothing, a number of seconds or a count, or NAME=VALUE.
FAULTS = {
    "refuse_start_with": "NAME=VALUE; the engine exits while loading when it has that knob value",
    "slow_load": "SECONDS more of loading",
    "wedge": "the scheduler stops: its heartbeat freezes, requests hang",
    "lie_on_health": "/health says 200 while completions hang",
    "die_at_first_request": "the engine dies at the next completion",
    "finish_reason_error": "completions are answered 200 with finish_reason error and no content",
    "empty_content": "completions are answered 200 without content",
    "transfer_fail": "KV transfers fail, and the failure counter steps",
    "never_register": "the prefill's ranks never register with its bootstrap server",
    "page_size": "N; the engine has another page size",
    "metrics_off": "/metrics is not there",
    "wedge_after": "N; the proxy stops answering after N requests (--role proxy)",
}
_NUMBERS = ("slow_load", "page_size", "wedge_after")


def _read(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def switch(lab: Lab, role: str, name: str | None, value: str | None, clear: bool) -> str:
    """Switch one fault on (or all off) and return the closing sentence."""
    path = lab["faults_file"]
    if clear:
        if name:
            raise LabError("--clear takes no name: it switches all faults off")
        files.write(path, "{}\n")
        return "all faults are off"
    if not name:
        on = _read(path)
        return f"on: {json.dumps(on)}" if on else "no fault is on"
    setting: Any = True
    if name == "refuse_start_with":
        knob, equals, knob_value = (value or "").partition("=")
        if not equals or not knob:
            raise LabError("refuse_start_with needs NAME=VALUE")
        setting = {knob: knob_value}
    elif name in _NUMBERS:
        try:
            setting = float(value or "") if name == "slow_load" else int(value or "")
        except ValueError:
            raise LabError(f"{name} needs a number") from None
    elif value is not None:
        raise LabError(f"{name} takes no value")
    if (name == "wedge_after") != (role == "proxy"):
        raise LabError("wedge_after is for --role proxy, and the only fault that it has")
    on = _read(path)
    on.setdefault(role, {})[name] = setting
    files.write(path, json.dumps(on) + "\n")
    return f"{role}: {name} is on"


def orphan(lab: Lab, role: str) -> str:
    """Hold the port of an instance that is down, with a process of no unit that answers /health."""
    port = urlsplit(lab["instances"][f"lab-{role}"]["url"]).port or 0
    program = (
        "import http.server,sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self): self.send_response(200); self.send_header('content-length','0'); self.end_headers()\n"
        "  def log_message(self,*a): pass\n"
        "http.server.ThreadingHTTPServer(('127.0.0.1',int(sys.argv[1])),H).serve_forever()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=f"{lab['dir']}/work",
        start_new_session=True,
    )
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise LabError(f"port {port} is taken: stop the {role} first")
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return f"process {child.pid} holds port {port} of the {role}"
        except OSError:
            time.sleep(0.05)
    raise LabError(f"the orphan did not open port {port}")

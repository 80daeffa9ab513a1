# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A process of no unit that holds the port of an instance, as one that a restart by hand left behind.

It answers 200 to every GET, /health among them, and shows on /server_info what it was started with: not what the
serve script says. `python -m lab.orphan PORT ROLE` is that process.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

from . import processes
from .folder import instance_name
from .runner import ROOT, Lab, LabError

_ARGUMENTS = {
    "model_path": "/models/older",
    "served_model_name": "older",
    "tp_size": 1,
    "page_size": 64,
    "mem_fraction_static": 0.5,
    "max_running_requests": 8,
}


def start(lab: Lab, role: str) -> str:
    """The closing sentence, once the orphan is the one that listens. LabError when the port is held by another."""
    instance = lab["instances"][instance_name(lab, role)]
    port = urlsplit(instance["url"]).port or 0
    child = subprocess.Popen(
        [sys.executable, "-m", "lab.orphan", str(port), instance["role"]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=f"{lab['dir']}/work",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while child.poll() is None and time.monotonic() < deadline:
        # Not by a connection: the instance that runs would answer it.
        if processes.listens(child.pid, port):
            return f"process {child.pid} holds port {port} of the {role}"
        time.sleep(0.05)
    if child.poll() is None:
        child.kill()
        child.wait()
        raise LabError(f"the orphan did not open port {port} within 20 s, so it was ended: try again")
    raise LabError(
        f"port {port} is taken: stop the {role} first, supervisorctl -c {lab['supervisor_config']} "
        f"stop {instance['unit']}"
    )


class _Answer(http.server.BaseHTTPRequestHandler):
    role = "null"

    def do_GET(self) -> None:
        body = b""
        if self.path in ("/server_info", "/get_server_info"):
            told = {**_ARGUMENTS, "port": self.connection.getsockname()[1], "disaggregation_mode": self.role}
            body = json.dumps({**told, "status": "ready", "internal_states": [told]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    _Answer.role = sys.argv[2]
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Answer).serve_forever()

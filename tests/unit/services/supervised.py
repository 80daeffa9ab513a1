# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A real supervisord for tests, in a folder of its own."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENGINE = Path(__file__).parent / "fake_engine.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def engine(*arguments: object) -> str:
    return shlex.join([sys.executable, str(ENGINE), *map(str, arguments)])


class Supervised:
    """Programs are given as name to command, or to (command, more lines of the section)."""

    def __init__(self, programs: dict, inet: bool = False, login: bool = False) -> None:
        # A unix socket's path may have 107 bytes only, and the folders of pytest are long.
        self.folder = tempfile.TemporaryDirectory(prefix="pdops-")
        root = Path(self.folder.name)
        self.config = root / "supervisord.conf"
        self.socket = root / "s.sock"
        self.port = free_port() if inet else 0
        secret = "username=pd\npassword=pw ; a comment\n" if login else ""
        server = (
            f"[inet_http_server]\nport=127.0.0.1:{self.port}\n{secret}"
            if inet
            else f"[unix_http_server]\nfile=%(here)s/s.sock\n{secret}"
        )
        text = (
            f"{server}\n[supervisord]\nnodaemon=true\nlogfile=%(here)s/supervisord.log\n"
            "pidfile=%(here)s/pid\nchildlogdir=%(here)s\n[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
        )
        for name, program in programs.items():
            command, more = program if isinstance(program, tuple) else (program, "")
            text += (
                f"[program:{name}]\ncommand={command.replace('%', '%%')}\nautostart=false\nautorestart=unexpected\n"
                f"startretries=1\nkillasgroup=true\nstopwaitsecs=60\n"
                f"stdout_logfile=%(here)s/{name}.out\nstderr_logfile=%(here)s/{name}.err\n{more}\n"
            )
        self.config.write_text(text)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        deadline = time.monotonic() + 15
        while not (self._answers() if inet else self.socket.exists()):
            assert self.process.poll() is None and time.monotonic() < deadline, "supervisord did not start"
            time.sleep(0.05)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

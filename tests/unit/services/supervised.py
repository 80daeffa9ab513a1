# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A real supervisord for tests, in a folder of its own; its programs change from test to test."""

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

from ansible_collections.pdops.sglang.plugins.module_utils.processes import (
    descendants,
    kill_all,
    process_table,
    read_environ,
)
from ansible_collections.pdops.sglang.plugins.module_utils.services.supervisor_rpc import Rpc, read_settings

ENGINE = Path(__file__).parent / "fake_engine.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def engine(*arguments: object) -> str:
    return shlex.join([sys.executable, str(ENGINE), *map(str, arguments)])


class Supervised:
    def __init__(self, inet: bool = False, login: bool = False) -> None:
        # A unix socket's path may have 107 bytes only, and the folders of pytest are long.
        self.folder = tempfile.TemporaryDirectory(prefix="pdops-test-")
        self.root = Path(self.folder.name)
        self.config = self.root / "supervisord.conf"
        self.port = free_port() if inet else 0
        self.url = f"http://127.0.0.1:{self.port}" if inet else f"unix://{self.root}/s.sock"
        server = "[unix_http_server]\nfile=%(here)s/s.sock\n"
        if inet:
            server = f"[inet_http_server]\nport=127.0.0.1:{self.port}\n"
        secret = "username=pd\npassword=pw ; a comment\n" if login else ""
        self.head = (
            f"{server}{secret}\n[supervisord]\nnodaemon=true\nlogfile=%(here)s/supervisord.log\n"
            "pidfile=%(here)s/pid\nchildlogdir=%(here)s\n[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
        )
        self.config.write_text(self.head)
        self.names: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < deadline, "supervisord did not start"
            time.sleep(0.02)
        self.rpc = Rpc(read_settings(str(self.config)))

    def _answers(self) -> bool:
        with socket.socket(socket.AF_INET if self.port else socket.AF_UNIX) as probe:
            return probe.connect_ex(("127.0.0.1", self.port) if self.port else f"{self.root}/s.sock") == 0

    def use(self, programs: dict) -> Supervised:
        """Name to command, or to (command, more lines of the section)."""
        text = self.head
        for name, program in programs.items():
            command, more = program if isinstance(program, tuple) else (program, "")
            text += (
                f"[program:{name}]\ncommand={command.replace('%', '%%')}\nautostart=false\nautorestart=unexpected\n"
                f"startretries=1\nkillasgroup=true\nstopwaitsecs=60\n"
                f"stdout_logfile=%(here)s/{name}.out\nstderr_logfile=%(here)s/{name}.err\n{more}\n"
            )
        self.config.write_text(text)
        self.rpc.call("reloadConfig")
        for name in programs:
            self.rpc.call("addProcessGroup", name)
        self.names = list(programs)
        return self

    def clear(self) -> None:
        """End all programs, at once, and forget them and their logs."""
        for name in self.names:
            if self.rpc.call("getProcessInfo", name)["statename"] in ("STARTING", "RUNNING", "BACKOFF"):
                self.rpc.call("stopProcess", name, False)
        self._kill(marked_only=True)
        for name in self.names:
            deadline = time.monotonic() + 60
            while self.rpc.call("getProcessInfo", name)["statename"] == "STOPPING":
                assert time.monotonic() < deadline
                time.sleep(0.02)
            self.rpc.call("removeProcessGroup", name)
            for end in ("out", "err"):
                (self.root / f"{name}.{end}").unlink(missing_ok=True)
        self.names = []

    def _kill(self, marked_only: bool) -> None:
        table = process_table()
        marked = [pid for pid in table if read_environ(pid).values.get("SUPERVISOR_SERVER_URL") == self.url]
        roots = [*marked, *(pid for pid, one in table.items() if one.ppid == self.process.pid)]
        if not marked_only:
            roots.append(self.process.pid)
        kill_all([table[pid].id for pid in descendants(roots, table)])

    def close(self) -> None:
        self.process.send_signal(signal.SIGSTOP)  # so that it starts nothing again
        self._kill(marked_only=False)
        self.process.wait()
        self.folder.cleanup()

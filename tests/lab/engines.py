# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Simulated engines, the real router and the proxy as processes of a test, and how to ask them."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import ports, processes

from ..reaper import bound

ROOT = Path(__file__).resolve().parents[2]

QUICK = {
    "PDOPS_LAB_LOAD_S": "0.2",
    "PDOPS_LAB_HEALTH_S": "0.1",
    "PDOPS_LAB_CRASH_S": "0.3",
    "PDOPS_LAB_TOKEN_S": "0.005",
}
ROUTER_FLAGS = (
    "--policy round_robin --worker-startup-check-interval 1 --health-check-interval-secs 1 --health-check-timeout-secs 2 "
    "--health-failure-threshold 2 --health-success-threshold 1 --retry-max-retries 1 --disable-circuit-breaker --log-level warn"
)


def ask(port: int, path: str, body: Any = None, timeout_s: float = 60.0, **headers: str) -> tuple[int, str]:
    """Status and text; (0, kind of error) when there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        method = "GET" if body is None else "POST"
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, type(error).__name__
    finally:
        connection.close()


def until(good: Callable[[], Any], timeout_s: float = 120.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := good()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.03)
    return found


class Pair:
    def __init__(self, folder: Path) -> None:
        me = processes.identity(os.getpid())
        assert me is not None
        self.folder, self.first = folder, ports.claim(me)
        self.prefill, self.decode, self.bootstrap, self.router, self.prometheus, self.proxy = range(
            self.first, self.first + 6
        )
        self.faults_file = folder / "faults.json"
        self.started: list[subprocess.Popen[bytes]] = []

    def faults(self, **roles: dict[str, Any]) -> None:
        new = self.folder / "faults.new"
        new.write_text(json.dumps(roles))
        new.replace(self.faults_file)

    def run(self, name: str, *command: str, **env: str) -> subprocess.Popen[bytes]:
        environ = {**os.environ, **QUICK, "PYTHONPATH": str(ROOT), "PDOPS_LAB_DIR": str(self.folder), **env}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environ,
                start_new_session=True,
            )
        self.started.append(bound(process))
        return process

    def engine(self, role: str, *flags: str, wait: bool = True, **env: str) -> subprocess.Popen[bytes]:
        port = self.prefill if role == "prefill" else self.decode
        process = self.run(
            role, "lab.engine", "--model-path", "/models/tiny", "--served-model-name", "tiny", "--host", "127.0.0.1",
            "--port", str(port), "--disaggregation-mode", role, "--disaggregation-bootstrap-port", str(self.bootstrap),
            "--tp-size", "4", "--enable-metrics", *flags, **env,
        )  # fmt: skip
        if wait:
            until(lambda: ask(port, "/health")[0] == 200)
        return process

    def direct(self, body: dict[str, Any], timeout_s: float = 60.0) -> dict[str, tuple[int, str]]:
        """The same request to both engines at once, as the router sends it."""
        body = {
            **body,
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": self.bootstrap,
            "bootstrap_room": random.getrandbits(62),
        }
        answers: dict[str, tuple[int, str]] = {}

        def one(role: str, port: int) -> None:
            answers[role] = ask(port, "/v1/chat/completions", body, timeout_s)

        threads = [
            threading.Thread(target=one, args=item) for item in (("prefill", self.prefill), ("decode", self.decode))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def end(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        return process.wait(60)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        until(lambda: not processes.own([str(self.folder)], []))
        ports.release(self.first)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair behind the real router and the proxy: for tests that leave it whole."""
    made = Pair(tmp_path_factory.mktemp("pair"))
    try:
        made.engine("prefill")
        made.engine("decode", SGLANG_EXPOSE_OWN_ENV_VARS="1", SGLANG_SM120_MMA_TARGET_CTAS="512",
                    SGLANG_SM120_FLASHMLA_BACKEND="triton", SGLANG_HEALTH_CHECK_TIMEOUT="1")  # fmt: skip
        url = "http://127.0.0.1:{}".format
        made.run(
            "router", "sglang_router.launch_router", "--pd-disaggregation", "--prefill", url(made.prefill), str(made.bootstrap),
            "--decode", url(made.decode), "--host", "127.0.0.1", "--port", str(made.router), *ROUTER_FLAGS.split(),
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(made.prometheus),
        )  # fmt: skip
        made.run(
            "proxy", "lab.proxy", "--port", str(made.proxy), "--to", url(made.router), "--faults", str(made.faults_file)
        )
        until(lambda: ask(made.router, "/readiness")[0] == 200)
        yield made
    finally:
        made.close()


@pytest.fixture
def served(shared: Pair) -> Iterator[Pair]:
    """That pair; no fault is on afterwards."""
    yield shared
    shared.faults()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A folder and ports for engines that the test ends itself."""
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        made.close()


def hello(tokens: int = 8, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "say nonce-4711 to me"}
    return {"model": "tiny", "messages": [message], "max_tokens": tokens, **more}


def scheduler_of(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(pid) for pid in children if b"scheduler" in Path(f"/proc/{pid}/cmdline").read_bytes())


def counter(port: int, name: str) -> float:
    lines = [line for line in ask(port, "/metrics")[1].splitlines() if line.startswith(f"sglang:{name}{{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

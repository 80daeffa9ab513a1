# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Answers of the real parts, a server that gives any answer, and supervisords with small engines."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import Look, Target
from ansible_collections.pdops.sglang.plugins.module_utils.services import base

sys.path.insert(0, str(Path(__file__).parent.parent / "services"))
import supervised


@pytest.fixture
def recorded():
    """Text of a file under recorded/: answers of SGLang 0.5.23 (metrics without buckets) and sglang-router 0.3.2."""
    return lambda name: (Path(__file__).parent / "recorded" / name).read_text()


class Answers:
    """An HTTP server with one answer per path; ``asked`` keeps what came in."""

    def __init__(self) -> None:
        self.paths: dict = {}
        self.asked: list = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                path = self.path.partition("?")[0]
                outer.asked.append((self.command, self.path, dict(self.headers), body))
                answer = outer.paths.get(path, (404, {"detail": "Not Found"}))
                status, data = answer(outer) if callable(answer) else answer
                raw = data.encode() if isinstance(data, str) else json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                with contextlib.suppress(OSError):  # the client has given up
                    self.end_headers()
                    self.wfile.write(raw)

            do_GET = do_POST = _answer

            def log_message(self, *_unused):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def answers():
    made = Answers()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def more_answers():
    """A function that makes another answering server."""
    made = []

    def make():
        made.append(Answers())
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


@pytest.fixture
def target(answers):
    """A function that makes a target whose URL is the answering server."""
    return lambda role="decode", **more: Target(
        **{"name": role, "role": role, "unit": role, "url": answers.url, **more}
    )


@pytest.fixture
def look():
    return Look(manager=None, memory={}, deadline=time.monotonic() + 5)


@pytest.fixture(scope="session")
def one_supervisord():
    daemon = supervised.Supervised()
    yield daemon
    daemon.close()


@pytest.fixture
def supervisord(one_supervisord):
    """A function that gives a running supervisord these programs."""
    yield one_supervisord.use
    one_supervisord.clear()


@pytest.fixture
def patient(monkeypatch):
    """Programs of tests that die at once may take a while for it on a busy machine."""
    monkeypatch.setattr(base, "SETTLE_S", 8.0)

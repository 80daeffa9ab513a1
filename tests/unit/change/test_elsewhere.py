# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the guard of one machine does because of the others: what restarts, and for whom it waits."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change import elsewhere, rollback
from ansible_collections.pdops.sglang.plugins.module_utils.deployment import Instance


class Prefill(http.server.BaseHTTPRequestHandler):
    answers: list[int] = []  # noqa: RUF012 # one list for all requests of a test

    def do_GET(self) -> None:
        self.send_response(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Prefill)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def instance(name: str, machine: str, url: str = "http://127.0.0.1:1", port: int | None = None) -> dict[str, Any]:
    made = Instance(name, name.split("-")[0], name, f"/{name}.sh", url, machine, bootstrap_port=port, drain_s=0.0)
    return made.as_dict()


def record(touched: list[str], scope: str = "co", **more: Any) -> dict[str, Any]:
    return {
        "instances": [instance("decode-1", "b"), instance("decode-2", "b"), instance("router", "b")],
        "elsewhere": [instance("prefill", "a")],
        "touched": touched,
        "scope": scope,
        "files": [],
        **more,
    }


@pytest.mark.parametrize(
    ("touched", "scope", "names"),
    [
        ([], "co", []),
        (["prefill"], "co", ["decode-1", "decode-2", "router"]),
        (["decode-2"], "co", ["decode-1", "decode-2", "router"]),
        (["router"], "router", ["router"]),
        (["decode-2"], "rolling", ["decode-2"]),
        (["prefill"], "rolling", []),
        (["decode-2", "router"], "rolling", ["decode-1", "decode-2", "router"]),
    ],
)
def test_what_restarts_here_by_what_was_touched_anywhere(touched: list[str], scope: str, names: list[str]) -> None:
    assert [item.name for item in rollback.to_restart(record(touched, scope))] == names


def waited(port: int, url: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[str]:
    monkeypatch.setattr(elsewhere, "POLL_S", 0.02)
    noted: list[str] = []
    given = record(["prefill"], elsewhere=[{**instance("prefill", "a", url, port), "load_timeout_s": 0.3}], **more)
    elsewhere.await_prefills(given, time.monotonic(), lambda step, name, _said: noted.append(f"{step} {name}".strip()))
    return noted


def test_a_prefill_is_waited_for_until_it_was_down_and_is_back(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Prefill.answers[:] = [200, 200, 503, 503, 200]
    assert waited(port, "http://0.0.0.0:1", monkeypatch) == ["wait for prefill"]
    assert Prefill.answers == [200]


def test_one_that_was_not_seen_down_is_taken_as_it_is_after_its_time(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "TOGETHER_S", 0.1)
    Prefill.answers[:] = [200]
    assert waited(port, "http://0.0.0.0:1", monkeypatch) == ["wait for prefill"]
    Prefill.answers[:] = [503]
    assert waited(port, "http://0.0.0.0:1", monkeypatch) == ["wait for prefill", "go on"]


def test_nobody_is_waited_for_who_cannot_be_asked_or_was_gone_back_with(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Prefill.answers[:] = [503]
    assert waited(port, "http://127.0.0.1:1", monkeypatch) == [], "a loopback address means this machine"
    assert waited(port, "http://0.0.0.0:1", monkeypatch, led=True) == []

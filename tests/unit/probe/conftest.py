# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Servers on real sockets that answer byte by byte as a test says."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.probe.plan import Plan, plan_from

MODEL = "a-model"
OPTIONS: dict[str, Any] = {
    "hops": None,
    "rounds": 6,
    "series": ["kept", "fresh"],
    "requests": True,
    "max_tokens": 8,
    "round_words": 10,
    "require_echo": False,
    "first_byte_s": 0.4,
    "gap_s": 0.4,
    "request_s": 3,
    "timeout_s": 30,
}


class Call:
    """One request of a client, and the means to answer it."""

    def __init__(self, number: int, path: str, headers: dict[str, str], body: bytes, write: Callable[[bytes], Any]):
        self.number, self.path, self.headers, self.body, self.write = number, path, headers, body, write
        self.hangs = threading.Event()

    @property
    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.body or b"{}"))

    def hang(self) -> bool:
        self.hangs.wait(10)
        return False

    def reply(self, data: Any, status: int = 200, more: str = "", text: bool = False) -> bool:
        raw = data.encode() if text else json.dumps(data).encode()
        self.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\n{more}\r\n".encode() + raw)
        return True

    def begin(self) -> None:
        self.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, text: str) -> None:
        raw = text.encode()
        self.write(b"%x\r\n%s\r\n" % (len(raw), raw))

    def event(self, data: Any) -> None:
        self.chunk(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")

    def end(self) -> bool:
        self.write(b"0\r\n\r\n")
        return True


Play = Callable[[Call], bool]


class Scripted:
    """Answers every request by ``play``, which returns whether the connection goes on. ``calls`` and ``connections`` count."""

    def __init__(self, play: Play) -> None:
        self.play, self.calls, self.connections = play, [], 0
        self.asked: list[Call] = self.calls
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer.connections += 1
                with contextlib.suppress(OSError, ValueError):
                    while self.one():
                        pass

            def one(self) -> bool:
                first = self.rfile.readline().decode().split()
                if len(first) < 2:
                    return False
                headers = {}
                while True:
                    name, colon, value = self.rfile.readline().decode().strip().partition(":")
                    if not colon:
                        break
                    headers[name.lower()] = value.strip()
                body = self.rfile.read(int(headers.get("content-length", 0)))
                call = Call(len(outer.calls) + 1, first[1], headers, body, self.wfile.write)
                outer.calls.append(call)
                return outer.play(call)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        for call in self.calls:
            call.hangs.set()
        self.server.shutdown()
        self.server.server_close()


def loads(**queues: int) -> dict[str, Any]:
    """An answer of /v1/loads."""
    found = {f"{name}_queue_reqs": count for name, count in queues.items()}
    load = {"dp_rank": 0, "timestamp": 1.0, "num_running_reqs": 0, "num_waiting_reqs": 0, "disaggregation": found}
    return {"loads": [load]}


def well(call: Call) -> bool:
    """A router or engine that serves: all kinds, whole and streamed."""
    if call.path == "/v1/models":
        return call.reply({"data": [{"id": MODEL, "max_model_len": 100_000}]})
    if call.path == "/server_info":
        return call.reply({"page_size": 16, "chunked_prefill_size": 64})
    if call.path.startswith("/v1/loads"):
        return call.reply(loads(prefill_inflight=0))
    if call.path == "/abort_request":
        return call.reply("", text=True)
    asked = call.data
    text = asked.get("text") or asked.get("prompt") or " ".join(one["content"] for one in asked.get("messages", []))
    word = text.split()[0]
    counts = {"prompt_tokens": len(text.split()) + 3, "completion_tokens": 2}
    if call.path == "/generate":
        meta = {"id": "r1", "finish_reason": None, **counts}
        whole = {"text": f"{word} one", "meta_info": {**meta, "finish_reason": {"type": "length", "length": 2}}}
        if not asked["stream"]:
            return call.reply(whole)
        call.begin()
        call.event({"text": word, "meta_info": meta})
        call.event(whole)
    else:
        chat = "chat" in call.path
        if not asked["stream"]:
            said = {"message": {"content": f"{word} one"}} if chat else {"text": f"{word} one"}
            return call.reply({"id": "r1", "choices": [{**said, "finish_reason": "stop"}], "usage": counts})
        call.begin()
        for part in (word, " one"):
            said = {"delta": {"content": part}} if chat else {"text": part}
            call.event({"id": "r1", "choices": [{**said, "finish_reason": None}], "usage": None})
        last = {"delta": {}} if chat else {"text": ""}
        call.event({"id": "r1", "choices": [{**last, "finish_reason": "length"}]})
        call.event({"id": "r1", "choices": [], "usage": counts})
    call.event("[DONE]")
    return call.end()


@pytest.fixture
def serve() -> Iterator[Callable[[Play], Scripted]]:
    made: list[Scripted] = []

    def start(play: Play = well) -> Scripted:
        made.append(Scripted(play))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def plan() -> Callable[..., Plan]:
    return lambda **more: plan_from({**OPTIONS, **more})

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Answers that do not fit into one buffer: /server_info of a real engine has 38 KB, its /metrics 88 KB."""

from __future__ import annotations

import http.server
import threading

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.endpoint import Answer, request

BODY = b"0123456789abcdef" * 16384


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/sized":
            self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.mark.parametrize("path", ["/sized", "/to-the-end"])
def test_the_whole_body_is_read_though_the_connection_closes(path: str) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        reply = request(f"http://127.0.0.1:{server.server_port}{path}")
    finally:
        server.shutdown()
        server.server_close()
    assert isinstance(reply, Answer) and reply.body == BODY

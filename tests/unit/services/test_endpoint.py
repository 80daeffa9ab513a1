# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Requests against small servers that behave badly in every way that matters."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils import endpoint
from ansible_collections.pdops.sglang.plugins.module_utils.endpoint import Answer, Failure, join, parse_url, request
from ansible_collections.pdops.sglang.plugins.module_utils.gates.base import failed
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.services.base import tidy_lines

HTTP_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok"


@pytest.fixture
def serve():
    """A server that reads a request and then does what the test says with the connection."""
    servers = []

    def start(behave, context=None):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        seen: list[bytes] = []

        def loop():
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        def one(connection):
            try:
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True)
                data = b""
                while b"\r\n\r\n" not in data:
                    part = connection.recv(65536)
                    if not part:
                        return
                    data += part
                seen.append(data)
                behave(connection)
            except OSError:
                pass
            finally:
                connection.close()

        threading.Thread(target=loop, daemon=True).start()
        return server.getsockname()[1], seen

    yield start
    for server in servers:
        server.close()


def test_a_whole_answer(serve, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    port, seen = serve(lambda connection: connection.sendall(HTTP_OK))
    reply = request(f"http://127.0.0.1:{port}/a?b=c", api_key="k-1")
    assert isinstance(reply, Answer)
    assert (reply.status, reply.body, reply.headers["x-a"], reply.truncated) == (200, b"ok", "b", False)
    head = seen[0].decode()
    assert head.startswith("GET /a?b=c HTTP/1.1\r\n")
    assert "Authorization: Bearer k-1\r\n" in head
    assert "k-1" not in repr(reply)


def test_post_json(serve):
    port, seen = serve(lambda connection: connection.sendall(HTTP_OK))
    assert endpoint.post_json(f"http://localhost:{port}/x", {"a": "ü"}, 2.0).status == 200
    assert b"Content-Type: application/json" in seen[0]


@pytest.mark.parametrize("where", ["before the status", "in the head", "in the body", "in a chunk"])
def test_a_server_that_trickles_is_cut_at_the_deadline(serve, where):
    head = {
        "before the status": b"",
        "in the head": b"HTTP/1.1 200 OK\r\nX: ",
        "in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        "in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
    }[where]

    def trickle(connection):
        connection.sendall(head)
        for _turn in range(1200):
            time.sleep(0.05)
            connection.sendall(b"a")

    port, _seen = serve(trickle if where != "before the status" else lambda connection: time.sleep(60))
    begin = time.monotonic()
    reply = request(f"http://127.0.0.1:{port}/", timeout_s=0.5)
    assert isinstance(reply, Failure)
    assert reply.kind == "timeout"
    assert 0.45 <= time.monotonic() - begin < 30
    assert f"127.0.0.1:{port}" in reply.said


def test_refused_reset_and_nonsense(serve):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert request(f"http://127.0.0.1:{port}/").kind == "refused"
        assert endpoint.port_open("127.0.0.1", port).kind == "refused"

    def reset(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    assert request(f"http://127.0.0.1:{serve(reset)[0]}/").kind == "reset"
    assert request(f"http://127.0.0.1:{serve(lambda connection: None)[0]}/").kind == "reset"
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    assert request(f"http://127.0.0.1:{serve(lambda c: c.sendall(half))[0]}/").kind == "reset"
    chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
    assert request(f"http://127.0.0.1:{serve(lambda c: c.sendall(chunk))[0]}/").kind == "reset"
    assert request(f"http://127.0.0.1:{serve(lambda c: c.sendall(b'SSH-2.0-x'))[0]}/").kind == "protocol"
    assert request("http://no-such-host.invalid:80/").kind == "dns"
    assert request("http://[::1]:1/").kind in ("refused", "unreachable")


def test_an_open_port(serve):
    port, _seen = serve(lambda connection: None)
    assert endpoint.port_open("127.0.0.1", port) is None


def test_a_slow_name_server_does_not_hold_us(monkeypatch):
    monkeypatch.setattr(endpoint.socket, "getaddrinfo", lambda *_a, **_k: time.sleep(60) or [])
    begin = time.monotonic()
    assert request("http://slow.example/", timeout_s=0.3).kind == "timeout"
    assert time.monotonic() - begin < 30


def test_a_body_is_capped(serve):
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100000
    port, _seen = serve(lambda connection: connection.sendall(body))
    reply = request(f"http://127.0.0.1:{port}/", max_bytes=1000)
    assert (len(reply.body), reply.truncated) == (1000, True)
    with pytest.raises(ValueError, match="too long"):
        reply.data()


def test_https_with_a_certificate_that_nobody_signed(serve, tmp_path):
    key, certificate = tmp_path / "key", tmp_path / "cert"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    try:
        subprocess.run([*command, "-days", "1", "-subj", "/CN=localhost"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    port, _seen = serve(lambda connection: connection.sendall(HTTP_OK), context)
    reply = request(f"https://127.0.0.1:{port}/")
    assert reply.kind == "tls"
    plain, _seen = serve(lambda connection: connection.sendall(HTTP_OK))
    assert request(f"https://127.0.0.1:{plain}/", timeout_s=1.0).kind in ("tls", "timeout", "reset")


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:30000", "ftp://x", "http://", "http://a:b", "http://a:99999", "http://h/ x", "file:///etc/passwd"],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(PdopsError, match="URL"):
        parse_url(url)


def test_urls():
    with pytest.raises(PdopsError) as caught:
        parse_url("http://user:hunter2@h/")
    assert "hunter2" not in str(caught.value)
    assert parse_url("http://[::1]:30000").host == "::1"
    assert parse_url("https://h").port == 443
    assert parse_url("http://h/a?b").path == "/a?b"
    assert join("http://h:1/", "/health") == "http://h:1/health"


def test_a_key_with_a_line_break_is_never_shown():
    with pytest.raises(PdopsError) as caught, socket.create_server(("127.0.0.1", 0)) as server:
        request(f"http://127.0.0.1:{server.getsockname()[1]}/", api_key="se\ncret")
    assert "se" not in str(caught.value).split()
    assert caught.value.__cause__ is None


def test_text_of_an_answer_is_one_short_line():
    assert Answer(200, {}, b"a\n b\xff" + b"c" * 1000, False, 0.0).text(20) == "a b�" + "c" * 15 + "…"


@pytest.mark.parametrize("body", [b"[" * 100000, b'{"a":' * 2000 + b"1" + b"}" * 2000, b"[" * 300 + b"]" * 300])
def test_a_body_that_is_nested_too_deeply_is_no_json(body):
    """Python's own reading of it ends with RecursionError, which no gate expects."""
    with pytest.raises(ValueError, match="nested too deeply"):
        Answer(200, {}, body, False, 0.1).data()
    assert Answer(200, {}, b"[" * 50 + b"]" * 50 + b" " * 9, False, 0.1).data()
    assert Answer(200, {}, b"[[1],[2],[3]]" + b"\n" * 200, False, 0.1).data() == [[1], [2], [3]]


HOSTILE = "<b>login</b>\x1b[31m red\x1b]0;title\x07 \x9b2J\x08\x00\u202edone"


def test_no_words_of_a_service_act_on_the_operators_terminal():
    want = "<b>login</b> red done"
    assert Answer(401, {}, HOSTILE.encode(), False, 0.1).text() == want
    assert str(PdopsError(HOSTILE)) == want
    assert failed(HOSTILE).said == want
    assert tidy_lines(f"first\n{HOSTILE}\n", 1) == [want]
    assert Answer(200, {}, b"a\r\nb\x1b", False, 0.1).text() == "a b"
    assert len(Answer(200, {}, b"x" * 900, False, 0.1).text(80)) == 80

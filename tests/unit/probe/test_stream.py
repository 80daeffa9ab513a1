# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The streaming client against servers that misbehave: each phase has its own deadline and its own words."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.probe.stream import Connection, Deadlines, Exchange

from .conftest import Call, Scripted

PATIENT = Deadlines(connect_s=30.0, first_byte_s=30.0, gap_s=30.0, total_s=90.0)
#: Of what does not come. It has to be waited for, but a busy machine must come to it before.
QUICK = Deadlines(connect_s=30.0, first_byte_s=0.3, gap_s=0.3, total_s=60.0)


def ask(server: Scripted, deadlines: Deadlines = PATIENT, connection: Connection | None = None) -> Exchange:
    link = connection or Connection(server.url)
    try:
        return link.exchange("/generate", b"{}", {}, deadlines)
    finally:
        if connection is None:
            link.close()


def said(found: Exchange) -> str:
    assert found.failure is not None, found
    return found.failure.said


def test_a_stream_is_read_event_by_event_with_its_times(serve):
    def play(call: Call) -> bool:
        call.begin()
        call.chunk('data: {"a": 1}\n\ndata: {"b"')  # events need not end where chunks end
        time.sleep(0.5)
        call.chunk(": 2}\r\n\r\n: a comment\n\n")
        call.event("[DONE]")
        return call.end()

    found = ask(serve(play))
    assert found.failure is None and found.status == 200 and found.streamed and found.done
    assert [data for _at, data in found.events] == ['{"a": 1}', '{"b": 2}']
    assert found.first_byte_s is not None and 0 < found.first_byte_s < found.total_s
    assert len(found.gaps_s) == 1 and 0.1 < found.gaps_s[0] < found.total_s


def test_a_kept_connection_serves_many_exchanges_and_one_that_the_server_closes_is_opened_again(serve):
    server = serve(
        lambda call: call.reply({"n": call.number}, more="Connection: close\r\n" if call.number == 2 else "")
    )
    link = Connection(server.url)
    kept = [ask(server, connection=link).kept for _ in range(4)]
    link.close()
    assert kept == [False, True, False, True] and server.connections == 2


@pytest.mark.parametrize("case", ["nothing", "headers", "comments", "gap"])
def test_each_phase_has_its_deadline_and_comments_are_no_events(serve, case):
    def play(call: Call) -> bool:
        if case == "nothing":
            return call.hang()
        call.begin()
        if case == "gap":
            call.event({"a": 1})
        while case == "comments":
            call.chunk(": keep-alive\n\n")
            time.sleep(0.05)
        return call.hang()

    begin = time.monotonic()
    found = ask(serve(play), QUICK)
    assert time.monotonic() - begin > 0.29
    assert found.failure is not None and found.failure.kind == "timeout"
    assert (
        said(found)
        == {
            "nothing": "gave no first byte in 0.3 s",
            "headers": "answered 200, but gave no event in 0.3 s",
            "comments": "answered 200, but gave no event in 0.3 s",
            "gap": "went silent for 0.3 s after 1 event",
        }[case]
    )


def test_the_total_time_ends_a_stream_that_would_go_on_for_ever(serve):
    def play(call: Call) -> bool:
        call.begin()
        while True:
            call.event({"a": 1})
            time.sleep(0.05)

    for gap_s in (1.0, 5.0):
        found = ask(serve(play), Deadlines(30.0, 30.0, gap_s, 1.5))
        assert said(found) == "did not end within 1.5 s" and len(found.events) > 5


def test_what_breaks_off_is_told_from_what_ends(serve):
    def broken(call: Call) -> bool:
        call.begin()
        call.event({"a": 1})
        call.chunk("data: ")
        return False

    def short(call: Call) -> bool:
        call.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        return False

    found = ask(serve(broken))
    assert found.status == 200 and said(found) == "broke the stream off after 1 event"
    assert "broke off in the middle" in said(ask(serve(short)))
    assert said(ask(serve(lambda _call: False))) == "closed the connection without an answer"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free = Connection(f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert "nothing listens" in said(free.exchange("/", b"", {}, QUICK))


def test_an_exchange_is_cancelled_from_another_thread(serve):
    link = Connection(serve(lambda call: call.hang()).url)
    threading.Timer(0.1, link.cancel).start()
    begin = time.monotonic()
    found = link.exchange("/", b"", {}, Deadlines(30.0, 90.0, 90.0, 90.0))
    link.close()
    assert found.failure is not None and found.failure.kind == "cancelled"
    assert time.monotonic() - begin < 60
    # And one that has not begun yet.
    assert link.exchange("/", b"", {}, QUICK).failure.kind == "cancelled"  # type: ignore[union-attr]


def test_a_key_is_sent_and_no_base_path_is_lost(serve):
    server = serve(lambda call: call.reply({}))
    link = Connection(server.url + "/base/", "the-key")
    link.exchange("/generate", b"{}", {"X-Request-ID": "x1"}, QUICK)
    link.close()
    (call,) = server.calls
    assert call.path == "/base/generate" and call.headers["authorization"] == "Bearer the-key"
    assert call.headers["x-request-id"] == "x1"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What goes wrong with the real engines, and by which gate it is seen. The last file, since it leaves restarts behind.

A field's restart answers: decode alone with a stream under way loses nothing; a stop with a stream drains, or says what
it lost; a role that is killed and a scheduler that stands still are told by the right gate.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from urllib.parse import urlsplit

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.services.draining import requests_of
from ansible_collections.pdops.sglang.plugins.module_utils.services.instance import Request, bring


class Stream(threading.Thread):
    """One streamed answer, read as it comes."""

    def __init__(self, url: str, tokens: int) -> None:
        super().__init__(daemon=True)
        self.url, self.tokens = url, tokens
        self.events = 0
        self.ended = ""
        self.first = threading.Event()

    def run(self) -> None:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=180)
        # ignore_eos: a tiny random model may end at any token, and the stream must last as long as the test needs.
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "the quick brown fox"}],
            "max_tokens": self.tokens,
            "stream": True,
            "ignore_eos": True,
        }
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            for line in answer:
                if line.startswith(b"data:"):
                    self.events += 1
                    self.first.set()
                    if b"[DONE]" in line:
                        self.ended = "done"
            self.ended = self.ended or f"status {answer.status}, cut after {self.events} events"
        except (OSError, http.client.HTTPException) as error:
            self.ended = f"{type(error).__name__} after {self.events} events"
        finally:
            self.first.set()
            connection.close()


@pytest.fixture
def serving(lab):
    """All three up and proved, whatever the test before left."""
    verified = lab.play("verify.yml")
    if verified.code != 0:
        assert lab.play("restart.yml").code == 0
    return lab


def test_decode_alone_is_restarted_while_a_stream_goes_on(serving):
    lab = serving
    before, answer = lab.mains(), lab.answer()
    stream = Stream(lab.data["instances"]["lab-router"]["url"], 300)
    stream.start()
    assert stream.first.wait(60)
    played = lab.play("restart.yml", "-e", "scope=decode")
    assert played.code == 0, played.text[-3000:]
    stream.join(120)
    assert stream.ended == "done", "the stream of a decode that is out of the router ends whole"
    now = lab.mains()
    assert now["lab-decode"] != before["lab-decode"]
    assert {name: now[name] for name in ("lab-prefill", "lab-router")} == {
        name: before[name] for name in ("lab-prefill", "lab-router")
    }
    assert "decode alone was not enough" not in played.text, "the pair of 0.5.23 with mooncake meets afresh by itself"
    assert lab.answer()["message"]["content"] == answer["message"]["content"]


def test_a_stop_with_a_running_stream_says_what_it_lost(serving):
    lab = serving
    decode = lab.data["instances"]["lab-decode"]
    assert requests_of(decode["url"]) == 0
    stream = Stream(lab.data["instances"]["lab-router"]["url"], 900)
    stream.start()
    assert stream.first.wait(60)
    stopped = bring(lab.manager, Request(decode["unit"], "stopped", drain_s=2, url=decode["url"]))
    stream.join(60)
    assert stopped["killed"] and stopped["requests"] == 1 and stopped["lost"] == 1
    assert stream.ended != "done"
    played = lab.play("restart.yml")
    assert played.code == 0, played.text[-3000:]


@pytest.mark.parametrize("role", ["decode", "prefill"])
def test_a_killed_role_is_told_by_its_first_gate(serving, role):
    lab = serving
    os.kill(lab.mains()[f"lab-{role}"][0], signal.SIGKILL)
    result = lab.gate(f"lab-{role}", "unit", "port", "health")
    # supervisord starts it again: it is another process, and not loaded yet.
    assert result.result in ("failed", "pending") or result.gate == "health", result
    played = lab.play("restart.yml")
    assert played.code == 0, played.text[-3000:]


def test_a_scheduler_that_stands_still_is_told_by_health(serving):
    lab = serving
    scheduler = lab.scheduler("lab-decode")
    os.kill(scheduler, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        result = lab.gate("lab-decode", "unit", "port", "health")
        assert (result.gate, result.result) == ("health", "pending"), result
        assert "/health 503" in result.said or "within" in result.said, result.said
        assert time.monotonic() - begin < 45
        router = lab.gate("lab-router", "router", "completion")
        assert router.result != "passed", router
    finally:
        os.kill(scheduler, signal.SIGCONT)

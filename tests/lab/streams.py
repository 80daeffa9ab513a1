# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Clients that stream without a pause, and what became of every request: no retry, so that nothing is hidden."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit


class Streams:
    """``count`` clients at once, each one stream after the other; use as a context."""

    def __init__(self, url: str, count: int = 16, tokens: int = 60) -> None:
        self._parts, self._tokens = urlsplit(url), tokens
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.whole = 0
        self.lost: Counter[str] = Counter()
        self.when: list[tuple[float, str]] = []
        self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(count)]

    def _one(self, number: int) -> str:
        """Empty, or what was wrong."""
        connection = http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=60)
        body = {"model": "x", "messages": [{"role": "user", "content": f"client {number} {time.monotonic()}"}]}
        try:
            connection.request(
                "POST",
                "/v1/chat/completions",
                json.dumps({**body, "max_tokens": self._tokens, "stream": True}),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"[:120]
        finally:
            connection.close()
        if answer.status != 200:
            return f"{answer.status} {text[:120].decode(errors='replace')}"
        return "" if text.rstrip().endswith(b"data: [DONE]") else f"no [DONE]: {text[-80:].decode(errors='replace')}"

    def _client(self, number: int) -> None:
        while not self._stop.is_set():
            wrong = self._one(number)
            with self._lock:
                if wrong:
                    self.lost[wrong] += 1
                    self.when.append((time.time(), wrong))
                else:
                    self.whole += 1

    def __enter__(self) -> Streams:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_unused: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One HTTP exchange as a client of a model has it: kept-alive or fresh, streamed or whole, each phase with its own deadline.

What counts for a stream are its events (server-sent, `data: ...`), not its bytes: a proxy's
keep-alive comments would otherwise hide that no token comes.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

from ..endpoint import Address, Clock, Failure, Late, TimedSocket, connect, failure_of, parse_url
from ..pdops_error import PdopsError

MAX_BYTES = 8 * 1024 * 1024
_PART = 65536
GIVEN_UP = "was given up"


@dataclass(frozen=True)
class Deadlines:
    """Seconds. ``first_byte_s`` runs from sending to the first byte of the body (of a stream: its first event)."""

    connect_s: float = 5.0
    first_byte_s: float = 20.0
    gap_s: float = 20.0
    total_s: float = 120.0


@dataclass
class Exchange:
    """What came back. ``failure`` is None when the answer, of whatever status, is whole."""

    status: Optional[int] = None
    headers: Dict[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""  # of an answer that is no stream
    events: List[Tuple[float, str]] = field(default_factory=list)  # seconds after sending, data; without [DONE]
    streamed: bool = False
    done: bool = False  # [DONE] came
    kept: bool = False  # over a connection that had served before
    connected_s: Optional[float] = None
    first_byte_s: Optional[float] = None
    total_s: float = 0.0
    failure: Optional[Failure] = None

    @property
    def gaps_s(self) -> List[float]:
        """Between one event and the next."""
        times = [at for at, _data in self.events]
        return [later - sooner for sooner, later in zip(times, times[1:])]


def counted(events: int) -> str:
    return f"{events} event{'' if events == 1 else 's'}"


class Cancelled(Late):
    """Somebody else has seen that this exchange cannot come to an end."""


class _Phases(Clock):
    """The total time, and within it the time of the present phase."""

    def __init__(self, deadlines: Deadlines) -> None:
        super().__init__(deadlines.total_s)
        self.cancelled = threading.Event()
        self.limit_s = 0.0
        self._until = self.deadline
        self.phase(deadlines.connect_s)

    def phase(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._until = time.monotonic() + limit_s

    def left(self) -> float:
        if self.cancelled.is_set():
            raise Cancelled
        left = min(self.deadline, self._until) - time.monotonic()
        if left <= 0:
            raise Late
        return left

    @property
    def total_first(self) -> bool:
        """Whether the total time ended before that of the phase."""
        return self.deadline < self._until


class _Socket(TimedSocket):
    """One socket for many exchanges, each with a clock of its own."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        super().__init__(sock, clock)

    def wind(self, clock: Clock) -> None:
        self._clock = clock


class Connection:
    """A way to one address. ``exchange`` opens what is not open; a failed exchange leaves it open for ``close``."""

    def __init__(self, url: str, api_key: Optional[str] = None) -> None:
        self.url = url.rstrip("/")
        self._base: Address = parse_url(self.url)
        self._api_key = api_key
        self._http: Optional[http.client.HTTPConnection] = None
        self._timed: Optional[_Socket] = None
        self._sock: Optional[socket.socket] = None
        self._clock: Optional[_Phases] = None
        self._stop = threading.Event()

    def close(self) -> None:
        """Close, which is also how a request is given up: SGLang and the router abort what nobody listens to."""
        sock, self._sock, self._http, self._timed = self._sock, None, None, None
        if sock is not None:
            sock.close()

    def cancel(self) -> None:
        """From another thread: end the exchange that is under way (or about to begin)."""
        self._stop.set()
        if self._clock is not None:
            self._clock.cancelled.set()
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def exchange(self, path: str, body: bytes, headers: Dict[str, str], deadlines: Deadlines) -> Exchange:
        """POST ``body``; never raises for what the network or the other side does."""
        clock = self._clock = _Phases(deadlines)
        if self._stop.is_set():
            clock.cancelled.set()
        found = Exchange(kept=self._http is not None)
        try:
            self._talk(path, body, headers, deadlines, clock, found)
        except Late as late:
            found.failure = self._late(late, clock, found, deadlines)
        except (socket.timeout, TimeoutError):
            found.failure = self._late(Late(), clock, found, deadlines)
        except ValueError as error:
            # http.client refuses header values with line breaks and the like; never print the value.
            name = type(error).__name__
            raise PdopsError(f"the request to {self.url} cannot be sent ({name}): check url and api key") from None
        except (OSError, http.client.HTTPException) as error:
            found.failure = self._broken(error, clock, found)
        found.total_s = clock.spent()
        return found

    def _talk(
        self, path: str, body: bytes, headers: Dict[str, str], deadlines: Deadlines, clock: _Phases, found: Exchange
    ) -> None:
        sent = {"Accept": "*/*", "User-Agent": "pdops", "Content-Type": "application/json", **headers}
        if self._api_key:
            sent["Authorization"] = f"Bearer {self._api_key}"
        link = self._open(clock)
        found.connected_s = clock.spent()
        clock.phase(deadlines.first_byte_s)
        link.request("POST", self._base.path.rstrip("/") + path, body=body, headers=sent)
        response = link.getresponse()
        found.status = response.status
        found.headers = {name.lower(): value for name, value in response.getheaders()}
        found.streamed = found.headers.get("content-type", "").lower().startswith("text/event-stream")
        _Body(response, deadlines, clock, found).read()
        if response.length:
            where = f"{self._base.host}:{self._base.port}"
            found.failure = Failure("reset", f"{where} broke off in the middle of its answer", clock.spent())
        again = not response.will_close and found.failure is None
        response.close()
        if not again:
            self.close()

    def _open(self, clock: _Phases) -> http.client.HTTPConnection:
        if self._http is not None and self._timed is not None:
            self._timed.wind(clock)
            return self._http
        self._sock = connect(self._base, clock)
        self._timed = _Socket(self._sock, clock)
        self._http = http.client.HTTPConnection(self._base.host, self._base.port)
        self._http.sock = self._timed
        return self._http

    def _late(self, late: Late, clock: _Phases, found: Exchange, deadlines: Deadlines) -> Failure:
        spent = clock.spent()
        if isinstance(late, Cancelled):
            return Failure("cancelled", GIVEN_UP, spent)
        if clock.total_first and found.first_byte_s is not None:
            return Failure("timeout", f"did not end within {deadlines.total_s:g} s", spent)
        limit = min(clock.limit_s, deadlines.total_s)
        if found.connected_s is None:
            return Failure("timeout", f"took no connection in {limit:g} s", spent)
        if found.status is None:
            return Failure("timeout", f"gave no first byte in {limit:g} s", spent)
        if found.streamed and found.events:
            words = f"went silent for {limit:g} s after {counted(len(found.events))}"
            return Failure("timeout", words, spent)
        if found.first_byte_s is None:
            what = "event" if found.streamed else "body"
            return Failure("timeout", f"answered {found.status}, but gave no {what} in {limit:g} s", spent)
        return Failure("timeout", f"did not end within {limit:g} s", spent)

    def _broken(self, error: Exception, clock: _Phases, found: Exchange) -> Failure:
        if clock.cancelled.is_set():
            return Failure("cancelled", GIVEN_UP, clock.spent())
        failure = failure_of(error, self._base, clock.spent())
        if failure.kind != "reset" or found.connected_s is None:
            return failure
        if found.events:
            words = f"broke the stream off after {counted(len(found.events))}"
        elif found.status is not None:
            words = f"answered {found.status} and broke the connection"
        else:
            words = "closed the connection without an answer"
        return Failure("reset", words, failure.seconds)


class _Body:
    """Reads a body into an Exchange, and moves the clock on from phase to phase."""

    def __init__(
        self, response: http.client.HTTPResponse, deadlines: Deadlines, clock: _Phases, found: Exchange
    ) -> None:
        self._response, self._deadlines, self._clock, self._found = response, deadlines, clock, found
        self._rest = b""
        self._data: List[str] = []
        self._size = 0

    def read(self) -> None:
        found = self._found
        while True:
            part = self._response.read1(_PART)
            if not part:
                break
            self._size += len(part)
            if self._size > MAX_BYTES:
                found.failure = Failure("protocol", f"sent more than {MAX_BYTES} bytes", self._clock.spent())
                return
            if found.streamed:
                self._lines(part)
                continue
            if found.first_byte_s is None:
                found.first_byte_s = self._clock.spent()
                self._clock.phase(self._deadlines.total_s)
            found.body += part
        if found.streamed:
            self._lines(b"\n\n")  # a last event without an empty line behind it

    def _lines(self, part: bytes) -> None:
        lines = (self._rest + part).split(b"\n")
        self._rest = lines.pop()
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if line.startswith("data:"):
                self._data.append(line[5:].lstrip(" "))
            elif not line and self._data:
                self._event("\n".join(self._data))
                self._data = []

    def _event(self, data: str) -> None:
        found = self._found
        if data == "[DONE]":
            found.done = True
        else:
            found.events.append((self._clock.spent(), data))
        if found.first_byte_s is None:
            found.first_byte_s = self._clock.spent()
        self._clock.phase(self._deadlines.gap_s)

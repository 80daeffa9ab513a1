# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One HTTP request with a hard total deadline.

Nothing here reads proxy settings: the services are asked where they are. The clock
runs over name lookup, connect, sending and every single read, so that a server that
sends one byte a second cannot hold the caller longer than it agreed to.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union
from urllib.parse import urlsplit

from . import foreign_json
from .pdops_error import PdopsError
from .plain_text import one_line

MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer, of whatever status."""

    status: int
    headers: Dict[str, str]  # names in lower case
    body: bytes
    truncated: bool
    seconds: float

    def text(self, limit: int = 300) -> str:
        """The body for a message: one line, at most limit characters, nothing that a terminal acts on."""
        return one_line(self.body[: limit * 4].decode("utf-8", "replace"), limit)

    def data(self) -> Any:
        """The body as JSON; ValueError when it is none (or was cut)."""
        if self.truncated:
            raise ValueError("the answer is too long")
        return foreign_json.loads(self.body)


@dataclass(frozen=True)
class Failure:
    """No whole answer. ``kind``: refused, timeout, reset, dns, tls, unreachable or protocol."""

    kind: str
    said: str
    seconds: float


Reply = Union[Answer, Failure]


@dataclass(frozen=True)
class Address:
    """What a URL names."""

    scheme: str
    host: str
    port: int
    path: str
    secure: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "secure", self.scheme == "https")


def parse_url(url: str) -> Address:
    """Split a URL; PdopsError when it is not http(s)://host[:port][/path] without a user."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise PdopsError(f"{url!r} is not a URL ({error}): write http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or any(part.isspace() for part in url):
        raise PdopsError(f"{url!r} is not a URL of a service: write http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise PdopsError("a URL of a service must hold no user and password: give the key by pd_api_key")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path)


def join(url: str, path: str) -> str:
    """The URL of a path below a service's base URL."""
    return url.rstrip("/") + path


class Late(Exception):
    """The time of a Clock is over."""


class Clock:
    """The time of one request; other rules for what is left (probe/stream.py) override left()."""

    def __init__(self, timeout_s: float) -> None:
        self.begin = time.monotonic()
        self.deadline = self.begin + timeout_s

    def left(self) -> float:
        """Seconds that the next step may take; Late when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Late
        return left

    def spent(self) -> float:
        return time.monotonic() - self.begin


class _Reader(io.RawIOBase):
    """Reads a socket; each read gets only what is left of the total time."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._sock, self._clock = sock, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._clock.left())
        return self._sock.recv_into(buffer)


class TimedSocket:
    """As much of a socket as http.client uses."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self._sock, self._clock = sock, clock

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._clock.left())
        self._sock.sendall(data)

    def makefile(self, mode: str = "rb", *_unused: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._clock))

    def close(self) -> None:
        """Nothing: with "Connection: close" http.client closes before the body is read, and request() closes after it."""


_Found = List[Tuple[Any, ...]]


def _look_up(host: str, port: int, clock: Clock) -> _Found:
    """getaddrinfo has no timeout of its own, so a name is looked up in a thread that may be left behind."""
    if _is_literal(host):
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    box: List[Union[_Found, OSError]] = []

    def work() -> None:
        try:
            box.append(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except OSError as error:
            box.append(error)
        except UnicodeError as error:
            box.append(socket.gaierror(str(error)))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(clock.left())
    if not box:
        raise Late
    if isinstance(box[0], OSError):
        raise box[0]
    return box[0]


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return True
        except OSError:
            continue
    return False


def connect(address: Address, clock: Clock) -> socket.socket:
    """A connected socket, with TLS for https; OSError, or Late."""
    last: OSError = OSError("no address")
    for family, kind, protocol, _name, target in _look_up(address.host, address.port, clock):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(clock.left())
            sock.connect(target)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                sock.settimeout(clock.left())
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
            return sock
        except OSError as error:
            sock.close()
            last = error
            if isinstance(error, ssl.SSLError):
                raise
        except BaseException:
            sock.close()
            raise
    raise last


def failure_of(error: Exception, address: Address, spent_s: float) -> Failure:
    """In words: what went wrong with a request, other than that its time was over."""
    where = f"{address.host}:{address.port}"
    if isinstance(error, ConnectionRefusedError):
        return Failure("refused", f"nothing listens on {where}", spent_s)
    if isinstance(error, (ConnectionError, http.client.IncompleteRead)):
        return Failure("reset", f"{where} broke the connection ({type(error).__name__})", spent_s)
    if isinstance(error, socket.gaierror):
        return Failure("dns", f"the name {address.host} is not known here ({error.strerror or error})", spent_s)
    if isinstance(error, ssl.SSLError):
        return Failure("tls", f"no TLS with {where}: {error.reason or error}", spent_s)
    if isinstance(error, http.client.HTTPException):
        return Failure("protocol", f"{where} does not speak HTTP ({type(error).__name__})", spent_s)
    return Failure("unreachable", f"{where} cannot be reached ({getattr(error, 'strerror', None) or error})", spent_s)


def request(
    url: str,
    method: str = "GET",
    body: Optional[bytes] = None,
    headers: Optional[Dict[str, str]] = None,
    timeout_s: float = 5.0,
    api_key: Optional[str] = None,
    max_bytes: int = MAX_BYTES,
) -> Reply:
    """Send one request and read one answer within timeout_s; raises only for a URL that is none.

    The key goes into the Authorization header and nowhere else: no message holds it.
    """
    address = parse_url(url)
    clock = Clock(timeout_s)
    sent = {"Accept": "*/*", "Connection": "close", "User-Agent": "pdops", **(headers or {})}
    if api_key:
        sent["Authorization"] = f"Bearer {api_key}"
    sock: Optional[socket.socket] = None
    where = f"{address.host}:{address.port}"
    try:
        sock = connect(address, clock)
        connection = http.client.HTTPConnection(address.host, address.port)
        connection.sock = TimedSocket(sock, clock)
        connection.request(method, address.path, body=body, headers=sent)
        response = connection.getresponse()
        data = response.read(max_bytes + 1)
        if response.length and len(data) <= max_bytes:  # read(n) gives a cut body without complaint
            return Failure("reset", f"{where} broke off after {len(data)} bytes of its answer", clock.spent())
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, data[:max_bytes], len(data) > max_bytes, clock.spent())
    except (Late, socket.timeout, TimeoutError):
        what = "no whole answer from" if sock is not None else "no connection to"
        return Failure("timeout", f"{what} {where} within {timeout_s:.3g} s", clock.spent())
    except (OSError, http.client.HTTPException) as error:
        return failure_of(error, address, clock.spent())
    except ValueError as error:
        # http.client refuses header values with line breaks and the like; never print the value.
        raise PdopsError(
            f"the request to {where} cannot be sent ({type(error).__name__}): check url and api key"
        ) from None
    finally:
        if sock is not None:
            sock.close()


def post_json(url: str, data: Any, timeout_s: float, api_key: Optional[str] = None) -> Reply:
    """POST a JSON document."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return request(url, "POST", json.dumps(data).encode(), headers, timeout_s, api_key)


def port_open(host: str, port: int, timeout_s: float = 1.0) -> Optional[Failure]:
    """Connect and close; None when something accepted."""
    clock = Clock(timeout_s)
    try:
        connect(Address("http", host, port, "/"), clock).close()
        return None
    except (Late, socket.timeout, TimeoutError):
        return Failure("timeout", f"no connection to {host}:{port} within {timeout_s:.3g} s", clock.spent())
    except ConnectionRefusedError:
        return Failure("refused", f"nothing listens on {host}:{port}", clock.spent())
    except socket.gaierror as error:
        return Failure("dns", f"the name {host} is not known here ({error.strerror or error})", clock.spent())
    except OSError as error:
        return Failure("unreachable", f"{host}:{port} cannot be reached ({error.strerror or error})", clock.spent())

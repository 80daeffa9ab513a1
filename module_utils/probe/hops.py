# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The ways by which a request can reach the pair: through a proxy, through the router, or to prefill and decode at once.

The pair is asked as the router asks it (sglang-router 0.3.2, mini_lb): the same body to both at the
same moment, with bootstrap_host, bootstrap_port and a bootstrap_room, a random number of 63 bits: two
requests with one room would crash both schedulers (sglang#40125). Decode's answer is the answer.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional, Protocol, Tuple

from ..endpoint import Failure, join, parse_url, post_json
from .judging import read
from .questions import Question
from .stream import GIVEN_UP, Connection, Deadlines, Exchange

PROXY, ROUTER, PAIR = "proxy", "router", "pair"
#: Outermost first.
HOPS = (PROXY, ROUTER, PAIR)
_ABORT_S = 3.0
_PREFILL_GRACE_S = 5.0


@dataclass(frozen=True)
class Engines:
    """The pair, as seen from here. ``bootstrap_host`` is how decode reaches the prefill's bootstrap server."""

    prefill_url: str
    decode_url: str
    bootstrap_host: str
    bootstrap_port: Optional[int] = None  # None: decode takes its own default, 8998
    api_key: Optional[str] = field(default=None, repr=False)


@dataclass
class Asked:
    """An exchange, with what the hop knows of it."""

    exchange: Exchange
    who: str  # "the proxy http://…", as the subject of a sentence
    request_id: str
    rid: Optional[str] = None  # known before an answer
    room: Optional[int] = None
    prefill: Optional[Exchange] = None


class Hop(Protocol):
    name: str
    url: str
    who: str

    def ask(self, question: Question, deadlines: Deadlines) -> Asked:
        """Send it, over the connection that is open, if any. After a failure the connection is still open."""
        ...

    def close(self) -> None:
        """Close what is open; a request that is under way is aborted by it."""
        ...


def _limits(question: Question, deadlines: Deadlines) -> Deadlines:
    """An answer that is no stream begins when it is complete."""
    return deadlines if question.streamed else replace(deadlines, first_byte_s=deadlines.total_s)


def _headers(question: Question, request_id: str) -> Dict[str, str]:
    accept = "text/event-stream" if question.streamed else "application/json"
    return {"Accept": accept, "X-Request-ID": request_id}


def _new_id() -> str:
    return f"pdops-probe-{secrets.token_hex(8)}"


class UrlHop:
    """A router or a proxy: one address."""

    def __init__(self, name: str, url: str, api_key: Optional[str] = None) -> None:
        self.name, self.url = name, url.rstrip("/")
        self.who = f"the {name} {self.url}"
        self._connection = Connection(self.url, api_key)

    def ask(self, question: Question, deadlines: Deadlines) -> Asked:
        request_id = _new_id()
        body = json.dumps(question.body).encode()
        found = self._connection.exchange(
            question.path, body, _headers(question, request_id), _limits(question, deadlines)
        )
        return Asked(found, self.who, request_id)

    def close(self) -> None:
        self._connection.close()


class PairHop:
    """Prefill and decode, asked directly and together."""

    name = PAIR

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.url = f"{engines.prefill_url} + {engines.decode_url}"
        self.who = f"the pair {self.url}"
        self._prefill, self._decode = self._open()

    def _open(self) -> Tuple[Connection, Connection]:
        key = self._engines.api_key
        return Connection(self._engines.prefill_url, key), Connection(self._engines.decode_url, key)

    def close(self) -> None:
        self._prefill.close()
        self._decode.close()
        self._prefill, self._decode = self._open()

    def ask(self, question: Question, deadlines: Deadlines) -> Asked:
        request_id, room = _new_id(), secrets.randbits(63)
        sent = {
            **question.body,
            "bootstrap_host": self._engines.bootstrap_host,
            "bootstrap_port": self._engines.bootstrap_port,
            "bootstrap_room": room,
            "rid": request_id,
        }
        body, headers, limits = json.dumps(sent).encode(), _headers(question, request_id), _limits(question, deadlines)
        prefill, decode = self._prefill, self._decode
        box: List[Exchange] = []

        def prefill_too() -> None:
            # Decode has the first byte's deadline; here only the total counts: the answer's body may come late.
            patient = replace(limits, first_byte_s=limits.total_s, gap_s=limits.total_s)
            found = prefill.exchange(question.path, body, headers, patient)
            box.append(found)
            if found.failure is not None or found.status != 200:
                decode.cancel()  # it would wait for a transfer that never comes, for minutes

        thread = threading.Thread(target=prefill_too, daemon=True)
        thread.start()
        found = decode.exchange(question.path, body, headers, limits)
        if found.failure is None and found.status == 200:
            thread.join(_PREFILL_GRACE_S)
        if thread.is_alive():
            prefill.cancel()
            thread.join(_PREFILL_GRACE_S)
        ours = box[0] if box else Exchange(failure=Failure("cancelled", GIVEN_UP, found.total_s))
        asked = Asked(found, f"the decode {self._engines.decode_url}", request_id, request_id, room, ours)
        if found.failure is not None and found.failure.kind == "cancelled":
            # The prefill's trouble is the cause.
            asked.exchange, asked.who = ours, f"the prefill {self._engines.prefill_url}"
        elif found.failure is None and found.status == 200 and (ours.failure is not None or ours.status != 200):
            why = ours.failure.said if ours.failure is not None else f"answered {ours.status}"
            why = f"did not end its own within {_PREFILL_GRACE_S:g} s" if why == GIVEN_UP else why
            words = f"answered, but the prefill {self._engines.prefill_url} {why}"
            asked.exchange = replace(found, failure=Failure("reset", words, found.total_s))
        return asked


def abort(asked: Asked, question: Question, engines: Optional[Engines]) -> Dict[str, Any]:
    """Tell the engines to give the request up by its id, where one is known; the caller closes the connection.

    The router drops a client's rid, but its answers carry the engine's. A closed connection aborts too
    (SGLang looks at it while it waits and after a stream: tokenizer_manager.py, create_abort_task).
    """
    rid = asked.rid or read(question.kind, asked.exchange).rid
    told: Dict[str, Any] = {"rid": rid, "closed": True, "told": []}
    if rid is None or engines is None:
        return told
    for name, url in (("prefill", engines.prefill_url), ("decode", engines.decode_url)):
        reply = post_json(join(url, "/abort_request"), {"rid": rid}, _ABORT_S, engines.api_key)
        if not isinstance(reply, Failure) and reply.status == 200:
            told["told"].append(name)
    return told


def bootstrap_host(prefill_url: str) -> str:
    """What the router would send: the host of the prefill's URL."""
    return parse_url(prefill_url).host

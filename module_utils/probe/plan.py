# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a probe shall do: turned from the options of pd_probe, and refused before anything is sent where it makes no sense."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..endpoint import parse_url
from ..gates.api_key import read_key
from ..pdops_error import PdopsError
from .hops import HOPS, PAIR, PROXY, ROUTER, Engines, Hop, PairHop, UrlHop, bootstrap_host
from .questions import kinds
from .stream import Deadlines

SERIES = ("kept", "fresh")
MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Plan:
    """URLs are as seen from the machine on which the probe runs; times are in seconds, tokens are those of the model."""

    urls: Dict[str, str]  # of router and proxy
    engines: Optional[Engines]
    hops: Tuple[str, ...]  # outermost first
    rounds: int
    series: Tuple[str, ...]
    requests: bool
    model: Optional[str]
    max_tokens: int
    round_words: int
    page_tokens: Optional[int]
    chunk_tokens: Optional[int]
    require_echo: bool
    deadlines: Deadlines
    timeout_s: float
    api_key: Optional[str] = field(default=None, repr=False)
    proxy_key: Optional[str] = field(default=None, repr=False)  # where it is another

    def hop(self, name: str) -> Hop:
        if name == PAIR and self.engines is not None:
            return PairHop(self.engines)
        key = self.proxy_key if name == PROXY and self.proxy_key is not None else self.api_key
        return UrlHop(name, self.urls[name], key)

    def inner(self, name: str) -> List[str]:
        """Hops that lie further in, whether they were named or not: where a hop fails, they tell which one is ill."""
        known = [hop for hop in HOPS if hop in self.urls or (hop == PAIR and self.engines is not None)]
        return [hop for hop in known if HOPS.index(hop) > HOPS.index(name)]

    def would(self) -> str:
        """For check mode, in one sentence."""
        parts = []
        if self.requests:
            each = len(kinds()) + 2
            parts.append(
                f"{each} requests (chat, completions and /generate, whole and streamed, and two long ones) by {', '.join(self.hops)}"
            )
        if self.rounds:
            ways = " and ".join(f"{name} connection{'s' if name == 'fresh' else ''}" for name in self.series)
            parts.append(f"a conversation of {self.rounds} rounds by {self.hops[0]}, over {ways}")
        return f"would send {'; and '.join(parts)}, within {self.timeout_s:g} s"


class Budget:
    """The time of the whole probe."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._begin = time.monotonic()

    def spent_s(self) -> float:
        return time.monotonic() - self._begin

    def left_s(self) -> float:
        return self.timeout_s - self.spent_s()

    @property
    def over(self) -> str:
        return f"what is left of the probe's {self.timeout_s:g} s (timeout_s) is too short"

    def holds(self, deadlines: Deadlines) -> bool:
        """Whether one more request has its time: a hop must not be accused because ours is over."""
        return self.left_s() >= deadlines.first_byte_s

    def limits(self, deadlines: Deadlines) -> Deadlines:
        """The deadlines of one request now."""
        left = max(0.2, self.left_s())
        return Deadlines(
            min(deadlines.connect_s, left),
            min(deadlines.first_byte_s, left),
            min(deadlines.gap_s, left),
            min(deadlines.total_s, left),
        )


def _number(options: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = float(options[name])
    if not least <= value <= most:
        raise PdopsError(f"{name} is {value:g}; it must be from {least:g} to {most:g}")
    return value


def _total(options: Mapping[str, Any]) -> float:
    total = _number(options, "timeout_s", 1, 86400)
    if total <= float(options["first_byte_s"]):
        raise PdopsError(f"timeout_s is {total:g}; it must be longer than first_byte_s, the time of one first byte")
    return total


def _engines(options: Mapping[str, Any], key: Optional[str]) -> Optional[Engines]:
    prefill, decode = options.get("prefill_url"), options.get("decode_url")
    if not prefill and not decode:
        return None
    if not (prefill and decode):
        missing = "decode_url" if prefill else "prefill_url"
        raise PdopsError(f"a pair has a prefill and a decode: give {missing} too")
    host = options.get("bootstrap_host") or bootstrap_host(prefill)
    return Engines(prefill.rstrip("/"), decode.rstrip("/"), host, options.get("bootstrap_port"), key)


def _hops(options: Mapping[str, Any], known: List[str]) -> Tuple[str, ...]:
    asked = options.get("hops")
    if not asked:
        if not known:
            raise PdopsError("there is nobody to ask: give router_url, or prefill_url and decode_url, or proxy_url")
        return tuple(known)
    needs = {PROXY: "proxy_url", ROUTER: "router_url", PAIR: "prefill_url and decode_url"}
    for name in asked:
        if name not in known:
            raise PdopsError(f"the hop {name} needs {needs[name]}")
    return tuple(hop for hop in HOPS if hop in asked)


def plan_from(options: Mapping[str, Any]) -> Plan:
    """A plan of the options of pd_probe; PdopsError for what is wrong with them."""
    urls = {}
    for name in ("router_url", "prefill_url", "decode_url", "proxy_url"):
        if options.get(name):
            parse_url(options[name])
    for name in (PROXY, ROUTER):
        if options.get(f"{name}_url"):
            urls[name] = options[f"{name}_url"].rstrip("/")
    key = options.get("api_key")
    if options.get("api_key_file"):
        key = read_key(options["api_key_file"])
    engine_key = read_key(options["engine_api_key_file"]) if options.get("engine_api_key_file") else key
    engines = _engines(options, engine_key)
    known = [hop for hop in HOPS if hop in urls or (hop == PAIR and engines is not None)]
    rounds = int(_number(options, "rounds", 0, MOST_ROUNDS))
    if not rounds and not options["requests"]:
        raise PdopsError("with rounds 0 and requests false there is nothing to send: set one of them")
    for name in ("page_tokens", "chunk_tokens"):
        if options.get(name) is not None:
            _number(options, name, 1, 10_000_000)
    return Plan(
        urls=urls,
        engines=engines,
        hops=_hops(options, known),
        rounds=rounds,
        series=tuple(name for name in SERIES if name in options["series"]),
        requests=bool(options["requests"]),
        model=options.get("model"),
        max_tokens=int(_number(options, "max_tokens", 1, 4096)),
        round_words=int(_number(options, "round_words", 1, 100_000)),
        page_tokens=options.get("page_tokens"),
        chunk_tokens=options.get("chunk_tokens"),
        require_echo=bool(options["require_echo"]),
        deadlines=Deadlines(
            connect_s=min(5.0, _number(options, "first_byte_s", 0.1, 3600)),
            first_byte_s=float(options["first_byte_s"]),
            gap_s=_number(options, "gap_s", 0.1, 3600),
            total_s=_number(options, "request_s", 0.1, 3600),
        ),
        timeout_s=_total(options),
        api_key=key,
        proxy_key=read_key(options["proxy_api_key_file"]) if options.get("proxy_api_key_file") else None,
    )

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The rendezvous: the prefill's bootstrap server with its rooms, and the decode's view of each prefill.

The real pair exchanges agents' addresses over ZMQ and pushes KV by RDMA. Here decode opens
`PUT /_sim/room/<room>` at the prefill's bootstrap server and gets its answer when the "transfer" is done.
What is kept from the real one (reference: disaggregation/common/conn.py of 0.5.23):
- the bootstrap port answers before the model is loaded, /health there says nothing, /route is the real check
- decode keeps what it learned of a prefill until two lost heartbeats or a timeout: a prefill that is replaced
  faster than that does not know the rooms of the old one, and requests wait until their timeout
- what does not match is found at the first request, and ends decode
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from .core import Engine, say

FAKE_HOST = "2.2.2.2"  # FAKE_BOOTSTRAP_HOST: no peer, no transfer
TRANSFER_S = 0.02
KV_BYTES_PER_TOKEN = 70_000
INSTANCE = "X-Simulation-Instance"
_ROUTE = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"


class Failed(Exception):
    """The request ends with this status and message."""

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


class Room:
    def __init__(self) -> None:
        self.asked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # True: decode wants a failure
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Bootstrap:
    """Prefill's side."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rooms: dict[int, Room] = {}
        self._decodes: set[str] = set()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/route", self._route)
        app.router.add_put("/_sim/room/{room}", self._room)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _route(self, _request: web.Request) -> web.Response:
        engine = self._engine
        if not engine.loaded or engine.faults.get("never_register"):
            text = "Prefill server not fully registered yet (0 workers registered)."
            return web.Response(status=503, text=text)
        told: dict[str, Any] = {
            "attn_tp_size": engine.options.number("tp_size"),
            "attn_cp_size": 1,
            "dp_size": engine.options.number("dp_size"),
            "pp_size": 1,
            "page_size": engine.page_size(),
            "kv_cache_dtype": engine.options.args["kv_cache_dtype"],
            "follow_bootstrap_room": True,
            "enable_dsa_cache_layer_split": False,
            "decode_allocation_policy": engine.options.args["disaggregation_decode_allocation_policy"],
            "enable_kv_cache_sharding": False,
            "prefill_http_port": engine.options.number("port"),
            "target_tp_rank": None,
            "target_tp_ranks": None,
            "target_cp_ranks": None,
            "target_pp_ranks": None,
            "required_dst_info_num": None,
            "required_prefill_response_num": None,
        }
        return web.json_response(told, headers={INSTANCE: engine.instance})

    def _open(self, number: int) -> Room:
        return self._rooms.setdefault(number, Room())

    async def _room(self, request: web.Request) -> web.Response:
        if request.query.get("instance") != self._engine.instance:
            # Meant for the process before this one: nothing here listens where its ZMQ socket was.
            await asyncio.sleep(3600)
        number = int(request.match_info["room"])
        if self._engine.faults.get("poisoned_by_new_decode"):
            self._decodes.add(request.query.get("by", ""))
        else:
            self._decodes.clear()
        room = self._open(number)
        if not room.asked.done():
            room.asked.set_result(request.query.get("fail") == "1")
        try:
            status = await asyncio.shield(room.done)
        finally:
            # Decode may ask before the prefill's own request is here; whoever comes last removes the room.
            if room.done.done():
                self._rooms.pop(number, None)
        return web.Response(status=status)

    async def serve(self, number: int, tokens: int) -> None:
        """Wait for decode in the room, make the KV, hand it over. Raises Failed."""
        engine, metrics = self._engine, self._engine.metrics
        room = self._open(number)
        begin = time.monotonic()
        engine.queues["bootstrap"] += 1
        try:
            failing = await asyncio.wait_for(asyncio.shield(room.asked), engine.settings.bootstrap_timeout_s)
        except TimeoutError:
            self._rooms.pop(number, None)
            metrics.count("num_bootstrap_failed_reqs_total")
            raise Failed(
                f"Request bootstrap_room={number} timed out after {engine.settings.bootstrap_timeout_s:.1f}s in KVPoll.Bootstrapping"
            ) from None
        finally:
            engine.queues["bootstrap"] -= 1
        metrics.observe("kv_transfer_bootstrap_ms", 1e3 * (time.monotonic() - begin))
        metrics.observe("kv_transfer_alloc_ms", 0.5)
        metrics.observe("queue_time_seconds", time.monotonic() - begin)
        try:
            await self._compute(tokens)
            await self._transfer(tokens, failing or self._poisoned() or engine.transfer_fails())
        except BaseException:
            self._end(room, 500)
            raise
        self._end(room, 200)

    def _poisoned(self) -> bool:
        """A prefill that keeps the endpoints of a decode that is gone, until it is restarted itself (smg#2382)."""
        return len(self._decodes) > 1

    def _end(self, room: Room, status: int) -> None:
        if not room.done.done():
            room.done.set_result(status)

    async def _compute(self, tokens: int) -> None:
        engine = self._engine
        begin = time.monotonic()
        await engine.children.until_responsive()
        await asyncio.sleep(0.005 + 2e-5 * tokens)
        engine.metrics.count("realtime_tokens_total", tokens, mode="prefill_compute")
        engine.metrics.count("prefill_effective_tokens_total", tokens, mode="input")
        engine.metrics.observe("per_stage_req_latency_seconds", time.monotonic() - begin, stage="prefill_forward")
        engine.publish()

    async def _transfer(self, tokens: int, failing: bool) -> None:
        engine, metrics = self._engine, self._engine.metrics
        begin = time.monotonic()
        engine.queues["inflight"] += 1
        try:
            await engine.children.until_responsive()
            await asyncio.sleep(TRANSFER_S)
        finally:
            engine.queues["inflight"] -= 1
        if failing:
            metrics.count("num_transfer_failed_reqs_total")
            raise Failed("Prefill transfer failed for request: KVTransferError (simulated)")
        spent_s = time.monotonic() - begin
        size = tokens * KV_BYTES_PER_TOKEN
        engine.kv = {"speed_gb_s": size / spent_s / 1e9, "latency_ms": 1e3 * spent_s}
        metrics.observe("kv_transfer_latency_ms", 1e3 * spent_s)
        metrics.observe("kv_transfer_speed_gb_s", size / spent_s / 1e9)
        metrics.observe("kv_transfer_total_mb", size / 1e6)


@dataclass
class Known:
    """A prefill as decode remembers it."""

    instance: str
    lost: asyncio.Event
    heart: asyncio.Task[None] | None = None


class Prefills:
    """Decode's side."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Known] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        self._session: aiohttp.ClientSession | None = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _forget(self, address: str) -> None:
        known = self._known.pop(address, None)
        if known is not None and known.heart is not None and known.heart is not asyncio.current_task():
            known.heart.cancel()

    async def _find(self, address: str) -> Known:
        """What is remembered, or /route, asked once a second at most 15 times."""
        async with self._asking.setdefault(address, asyncio.Lock()):
            if address in self._known:
                return self._known[address]
            for attempt in range(15):
                if attempt:
                    await asyncio.sleep(1.0)
                if self._engine.faults.get("no_way_to_prefill"):
                    continue
                try:
                    async with self._client().get(
                        f"http://{address}{_ROUTE}", timeout=aiohttp.ClientTimeout(total=5)
                    ) as answer:
                        if answer.status != 200:
                            continue
                        told, instance = await answer.json(), answer.headers.get(INSTANCE, "")
                except (aiohttp.ClientError, TimeoutError):
                    continue
                self._compare(told)
                known = self._known[address] = Known(instance, asyncio.Event())
                known.heart = asyncio.create_task(self._beat(address, known))
                return known
            raise Failed(f"Could not fetch prefill parallel info from bootstrap_addr: {address} after 15 attempts")

    def _compare(self, told: dict[str, Any]) -> None:
        engine = self._engine
        for name, own in (("page_size", engine.page_size()), ("kv_cache_dtype", engine.options.args["kv_cache_dtype"])):
            if told[name] != own:
                word = name.replace("_", " ")
                engine.crash(f"RuntimeError: {word.capitalize()} mismatch: prefill server has {name}={told[name]}, "
                             f"but decode server has {name}={own}. Both servers must use the same {word}.")  # fmt: skip
                raise Failed(f"{word} mismatch")

    async def _beat(self, address: str, known: Known) -> None:
        failures = 0
        while failures < self._engine.settings.heartbeat_failures:
            await asyncio.sleep(self._engine.settings.heartbeat_s)
            if self._engine.faults.get("no_way_to_prefill"):
                failures += 1
                continue
            try:
                async with self._client().get(
                    f"http://{address}/health", timeout=aiohttp.ClientTimeout(total=3)
                ) as answer:
                    failures = 0 if answer.status == 200 else failures + 1
            except (aiohttp.ClientError, TimeoutError):
                failures += 1
        say(f"Losing connection with prefill instance (bootstrap_addr: {address})")
        self._forget(address)
        known.lost.set()

    async def fetch(self, host: str, port: int, number: int) -> None:
        """The whole handshake and transfer of one request. Raises Failed."""
        engine, metrics = self._engine, self._engine.metrics
        address = f"{host}:{port}"
        begin = time.monotonic()
        engine.queues["prealloc"] += 1
        try:
            known = await self._find(address)
        finally:
            engine.queues["prealloc"] -= 1
        await engine.children.until_responsive()
        metrics.observe("kv_transfer_bootstrap_ms", 1e3 * (time.monotonic() - begin))
        metrics.observe("kv_transfer_alloc_ms", 0.5)
        engine.queues["transfer"] += 1
        try:
            await self._wait(address, known, number)
        except Failed:
            metrics.count("num_transfer_failed_reqs_total")
            raise
        finally:
            engine.queues["transfer"] -= 1

    async def _wait(self, address: str, known: Known, number: int) -> None:
        limit_s = self._engine.settings.waiting_timeout_s
        ask = asyncio.create_task(self._ask(address, known, number))
        lost = asyncio.create_task(known.lost.wait())
        try:
            await asyncio.wait((ask, lost), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if ask.done():
                ask.result()
            elif lost.done():
                raise Failed(f"Lost connection with prefill instance (bootstrap_addr: {address})")
            else:
                self._forget(address)
                raise Failed(
                    f"Request bootstrap_room={number} timed out after {limit_s:.1f}s in KVPoll.WaitingForInput"
                )
        finally:
            ask.cancel()
            lost.cancel()

    async def _ask(self, address: str, known: Known, number: int) -> None:
        if self._engine.faults.get("no_way_to_prefill"):
            await asyncio.sleep(3600)
        fail = "1" if self._engine.transfer_fails() else "0"
        url = f"http://{address}/_sim/room/{number}?instance={known.instance}&fail={fail}&by={self._engine.instance}"
        try:
            async with self._client().put(url, timeout=aiohttp.ClientTimeout(total=None)) as answer:
                status = answer.status
        except aiohttp.ClientError:
            # A dead prefill sends nothing: decode learns of it by its heartbeats.
            await asyncio.sleep(3600)
            return
        if status != 200:
            raise Failed("Decode transfer failed for request: KVTransferError (simulated)")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The way of one request through prefill or decode, and the three endpoints that take one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from .answers import Chunks, Request, error_body, read_request, whole
from .core import Engine, Stream
from .rooms import FAKE_HOST, Bootstrap, Failed, Prefills

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Serving:
    def __init__(self, engine: Engine, bootstrap: Bootstrap | None, prefills: Prefills | None) -> None:
        self._engine, self._bootstrap, self._prefills = engine, bootstrap, prefills
        self._streams: dict[str, Stream] = {}
        self.aborted: set[str] = set()

    def handler(self, kind: str) -> Handler:
        async def handle(http: web.Request) -> web.StreamResponse:
            engine = self._engine
            args = engine.options.args
            try:
                body = await http.json()
            except ValueError:
                return web.json_response(error_body(kind, "Invalid JSON in request body", 400), status=400)
            engine.requests += 1
            try:
                request = read_request(kind, body, str(args["served_model_name"]), int(args["context_length"]))
                return await self._serve(http, request)
            except Failed as failed:
                return web.json_response(error_body(kind, str(failed), failed.status), status=failed.status)
            finally:
                engine.requests -= 1

        return handle

    def abort(self, rid: str | None) -> None:
        """One stream, or all of them (None)."""
        for name, stream in list(self._streams.items()):
            if rid in (None, name):
                self.aborted.add(name)
                stream.limit = stream.produced
                stream.changed.set()

    async def _serve(self, http: web.Request, request: Request) -> web.StreamResponse:
        engine = self._engine
        if engine.faults.get("die_at_first_request"):
            engine.crash("RuntimeError: simulated death at the first request")
        if engine.faults.get("lie_on_health"):
            await asyncio.Event().wait()
        engine.wedge_if_told()
        await engine.children.until_responsive()
        if engine.role == "null":
            await asyncio.sleep(0.005 + 2e-5 * request.prompt_tokens)
        elif request.room is None:
            raise Failed("Invalid request: Disaggregated request received without bootstrap room id.", 400)
        if engine.role == "prefill":
            assert self._bootstrap is not None
            if request.host != FAKE_HOST:
                await self._bootstrap.serve(request.room or 0, request.prompt_tokens)
            request.limit = 1  # the first token; the rest is decode's
            return await self._answer(http, request, Stream(request.wanted, 1))
        async with engine.slots:
            if engine.role == "decode" and request.host != FAKE_HOST:
                assert self._prefills is not None
                if request.host is None:
                    raise Failed("Invalid request: bootstrap_host is missing.", 400)
                await self._prefills.fetch(request.host, request.port or 8998, request.room or 0)
            stream = Stream(request.wanted, request.limit)
            self._streams[request.rid] = stream
            engine.add(stream)
            try:
                return await self._answer(http, request, stream)
            finally:
                engine.remove(stream)
                self._streams.pop(request.rid, None)
                self.aborted.discard(request.rid)

    def _end(self, request: Request, stream: Stream) -> tuple[str, str]:
        """Text and finish reason, and what the counters show."""
        engine, now = self._engine, time.monotonic()
        word = str(request.stream).lower()
        for name, amount in (
            ("prompt_tokens_total", request.prompt_tokens),
            ("generation_tokens_total", stream.produced),
            ("num_requests_total", 1),
        ):
            engine.metrics.count(name, amount, "request", is_streaming=word)
        for name, amount in (
            ("prompt_tokens_histogram", request.prompt_tokens),
            ("uncached_prompt_tokens_histogram", request.prompt_tokens),
            ("generation_tokens_histogram", stream.produced),
        ):
            engine.metrics.observe(name, amount, "request")
        engine.metrics.observe("e2e_request_latency_seconds", now - stream.begin, "request", is_streaming=word)
        first = (stream.first or now) - stream.begin
        engine.metrics.observe("time_to_first_token_seconds", first, "request", is_streaming=word)
        if stream.produced > 1:
            between = (now - stream.first) / (stream.produced - 1)
            engine.metrics.observe("inter_token_latency_seconds", between, "request", is_streaming=word)
        if request.rid in self.aborted:
            engine.metrics.count("num_aborted_requests_total", 1, "request")
            return request.text(0, stream.produced), "abort"
        if engine.faults.get("finish_reason_error"):
            return "", "error"
        return ("" if engine.faults.get("empty_content") else request.text(0, stream.produced)), stream.finish_reason

    async def _answer(self, http: web.Request, request: Request, stream: Stream) -> web.StreamResponse:
        if self._engine.role == "prefill":
            stream.produced, stream.first = 1, time.monotonic()
        if request.stream:
            return await self._write(http, request, stream)
        while not stream.done:
            stream.changed.clear()
            await stream.changed.wait()
        text, reason = self._end(request, stream)
        return web.json_response(whole(request, text, stream.produced, reason, time.monotonic() - stream.begin))

    async def _write(self, http: web.Request, request: Request, stream: Stream) -> web.StreamResponse:
        silent = self._engine.faults.get("finish_reason_error") or self._engine.faults.get("empty_content")
        chunks = Chunks(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(http)
        try:
            await response.write(chunks.opening())
            written = 0
            while True:
                if stream.produced > written and not silent:
                    made = stream.produced
                    await response.write(chunks.part(written, made, time.monotonic() - stream.begin))
                    written = made
                if stream.done:
                    break
                stream.changed.clear()
                await stream.changed.wait()
            text, reason = self._end(request, stream)
            await response.write(chunks.closing(text, stream.produced, reason, time.monotonic() - stream.begin))
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client has gone
        return response

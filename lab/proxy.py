# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A client-side proxy in front of the router, which can wedge as the one of the story did.

    python -m lab.proxy --port N --to http://127.0.0.1:ROUTER [--host 127.0.0.1] [--faults faults.json]

Every request is a round, but for those to /_proxy/status. With {"proxy": {"wedge_after": N}} in the faults, the
process forwards N rounds in its life, then accepts connections and never answers them; a restart cures it.
`GET /_proxy/status` still answers, for the tests: {"rounds": 3, "wedged": false}.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import aiohttp
from aiohttp import web

from .engine.settings import Faults

_HOP = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "proxy-authorization",
    "host",
    "content-length",
}


class Proxy:
    def __init__(self, to: str, faults: Faults) -> None:
        self._to, self._faults = to.rstrip("/"), faults
        self._session: aiohttp.ClientSession | None = None
        self.rounds = 0
        self._before_fault = 0

    @property
    def wedged(self) -> bool:
        limit = self._faults.get("wedge_after")
        if limit is None:
            self._before_fault = self.rounds
        return limit is not None and self.rounds - self._before_fault >= int(limit)

    async def _opened(self, _app: web.Application) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)

    async def _closed(self, _app: web.Application) -> None:
        if self._session is not None:
            await self._session.close()

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response({"rounds": self.rounds, "wedged": self.wedged})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self.wedged:
            await asyncio.Event().wait()
        self.rounds += 1
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        try:
            async with self._session.request(
                request.method,
                self._to + request.path_qs,
                headers=headers,
                data=await request.read(),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response
        except aiohttp.ClientConnectorError as error:
            return web.json_response({"error": {"message": f"the proxy cannot reach {self._to}: {error}"}}, status=502)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=512 * 1024 * 1024)
        app.on_startup.append(self._opened)
        app.on_cleanup.append(self._closed)
        app.router.add_get("/_proxy/status", self._status)
        app.router.add_route("*", "/{path:.*}", self._forward)
        return app


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.proxy")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--to", required=True, metavar="URL")
    parser.add_argument("--faults", metavar="FILE")
    given = parser.parse_args()
    proxy = Proxy(given.to, Faults(given.faults, "proxy"))
    print(f"proxy: {given.host}:{given.port} to {given.to}", flush=True)
    web.run_app(
        proxy.application(),
        host=given.host,
        port=given.port,
        print=None,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.5,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

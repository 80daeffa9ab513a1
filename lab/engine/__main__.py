# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A simulated SGLang engine: `python -m lab.engine --disaggregation-mode prefill --port N ...`.

True to 0.5.23 in what an operator sees (ports, health, rendezvous, processes, signals, metrics' names); it computes
nothing. The settings are in settings.py, the model of its speed in speed.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import traceback

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from .core import Engine, say
from .endpoints import Endpoints
from .options import VERSION, BadFlag, Options, parse
from .plugins import load_plugins
from .rooms import Bootstrap, Prefills
from .serving import Serving
from .settings import BadSetting, read_settings
from .speed import BadKnob, read_knob

_TRACEBACK = "Traceback (most recent call last):\n  (simulation)\n"
# The real loop looks for the end of the last request every 5 s; this one is quicker, so that tests are.
_DRAIN_LOOK_S = 0.25


async def _listen(app: web.Application, host: str, port: int) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=2048).start()
    return runner


async def _load(engine: Engine) -> int:
    """The exit code of a start that fails, 0 otherwise."""
    begin = time.monotonic()
    whole_s = engine.settings.load_s + float(engine.faults.get("slow_load") or 0.0)
    say("Load weight begin. avail mem=0.00 GB (simulation)")
    await asyncio.sleep(whole_s / 4)  # well before the end, so that a refusal is not mistaken for a slow load
    for name, value in dict(engine.faults.get("refuse_start_with") or {}).items():
        if engine.env.get(name) == str(value):
            say(f"{_TRACEBACK}RuntimeError: simulated: the engine does not start with {name}={value}")
            return 3
    await asyncio.sleep(whole_s * 3 / 4)
    await engine.children.answer()
    engine.load_s = time.monotonic() - begin
    say(f"Load weight end. elapsed={engine.load_s:.2f} s")
    return 0


async def _drain(engine: Engine, stop: asyncio.Event) -> None:
    await stop.wait()
    engine.stopping = True
    say(
        f"SIGTERM received. signum=15 Draining requests and shutting down... remaining number of requests: {engine.requests}"
    )
    if engine.status == "UnHealthy" or engine.settings.force_shutdown:
        say("Signal SIGTERM received while health check failed or shutdown is forced. Exiting without draining.")
        return
    while engine.requests:
        await asyncio.sleep(_DRAIN_LOOK_S)
    say("Gracefully exiting... All requests are finished.")


async def _run(engine: Engine) -> int:
    options, loop = engine.options, asyncio.get_running_loop()
    host = str(options.args["host"])
    bootstrap = Bootstrap(engine) if engine.role == "prefill" else None
    prefills = Prefills(engine) if engine.role == "decode" else None
    if bootstrap is not None:  # before the load, as the real one
        await _listen(bootstrap.application(), host, options.number("disaggregation_bootstrap_port"))
    engine.children.start(engine.settings.helper)
    tasks = [asyncio.create_task(engine.watch())]
    try:
        code = await _load(engine)
        if code:
            return code
        serving = Serving(engine, bootstrap, prefills)
        await _listen(Endpoints(engine, serving).application(), host, options.number("port"))
        tasks.append(asyncio.create_task(engine.run_batches()))
        engine.loaded = True
        if engine.role == "prefill":
            engine.publish()
        engine.status = "Up"
        say(f"Uvicorn running on http://{host}:{options.number('port')} (Press CTRL+C to quit)")
        say("The server is fired up and ready to roll!")
        # From here on; before, SIGTERM ends the process at once, as in the real one.
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.add_signal_handler(signal.SIGINT, stop.set)
        await _drain(engine, stop)
        return 0
    finally:
        for task in tasks:
            task.cancel()
        if prefills is not None:
            await prefills.close()


def _start(argv: list[str]) -> tuple[Options, Engine]:
    env = dict(os.environ)
    kernels = load_plugins(env, say)  # before the arguments, which a plugin may add to
    options = parse(argv)
    engine = Engine(options, read_settings(env), read_knob(env), env)
    engine.kernels = kernels
    return options, engine


class _NoPreface(logging.Filter):
    """The real router asks every new worker in HTTP/2 too; aiohttp logs a long traceback for each such preface."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BadHttpMessage))


def main() -> int:
    logging.getLogger("aiohttp.server").addFilter(_NoPreface())
    # The first line says what this is, whoever reads the log.
    say(f"simulation: no model, no GPU; SGLang's outside at version {VERSION}")
    try:
        options, engine = _start(sys.argv[1:])
    except BadFlag as error:
        print(f"launch_server.py: error: {error}", file=sys.stderr, flush=True)
        return 2
    except (BadSetting, BadKnob) as error:
        print(f"{_TRACEBACK}{error}", file=sys.stderr, flush=True)
        return 1
    say(f"server_args: {options.launch_command}; {engine.knob} blocks aimed at")
    try:
        code = asyncio.run(_run(engine))
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        traceback.print_exc()
        say(f"[Errno {error.errno}] {error}")
        code = 1
    finally:
        engine.children.end()
    return code


if __name__ == "__main__":
    sys.exit(main())

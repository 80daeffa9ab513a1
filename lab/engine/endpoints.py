# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an operator asks an engine, besides completions (reference: entrypoints/http_server.py of 0.5.23)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from .core import Engine
from .options import VERSION, shape
from .serving import Serving
from .settings import registered

_OPEN = ("/health", "/ready", "/metrics")
_STATUS = {"Starting": "starting", "Up": "ready", "UnHealthy": "unhealthy"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _authority(engine: Engine) -> Any:
    keys = {key for key in (engine.options.args["api_key"], engine.options.args["admin_api_key"]) if key}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if engine.options.args["api_key"] and request.method != "OPTIONS" and not request.path.startswith(_OPEN):
            word, _, key = request.headers.get("Authorization", "").partition(" ")
            if word.lower() != "bearer" or key.strip() not in keys:
                return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    return check


def _counting(engine: Engine) -> Any:
    active: dict[tuple[str, str], int] = {}

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = "/*" if resource is None else resource.canonical
        labels = {"endpoint": path, "method": request.method}
        key = (path, request.method)
        active[key] = active.get(key, 0) + 1
        engine.metrics.count("http_requests_total", 1, "", **labels)
        engine.metrics.gauge("http_requests_active", active[key], "", **labels)
        status = 500
        try:
            response = await handler(request)
            status = response.status
            return response
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            active[key] -= 1
            engine.metrics.gauge("http_requests_active", active[key], "", **labels)
            engine.metrics.count("http_responses_total", 1, "", status_code=str(status), **labels)

    return count


class Endpoints:
    def __init__(self, engine: Engine, serving: Serving) -> None:
        self._engine, self._serving = engine, serving

    def application(self) -> web.Application:
        app = web.Application(
            middlewares=[_authority(self._engine), _counting(self._engine)], client_max_size=512 * 1024 * 1024
        )
        get = {
            "/health": self._health,
            "/health_generate": self._health,
            "/ready": self._ready,
            "/ping": self._ready,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/v1/models": self._models,
            "/v1/loads": self._loads,
            "/metrics": self._metrics,
        }
        for path, handler in get.items():
            app.router.add_get(path, handler)
        for path, kind in (
            ("/v1/chat/completions", "chat"),
            ("/v1/completions", "completions"),
            ("/generate", "generate"),
        ):
            app.router.add_post(path, self._serving.handler(kind))
        for method in ("GET", "POST"):
            app.router.add_route(method, "/flush_cache", self._flush)
        app.router.add_post("/abort_request", self._abort)
        return app

    # --- health

    async def _health(self, _request: web.Request) -> web.Response:
        """A probe is answered by the scheduler alone: no peer, no transfer, so 200 says little about a pair."""
        engine = self._engine
        if engine.faults.get("lie_on_health"):
            return web.Response()
        if engine.stopping or engine.status == "Starting":
            return web.Response(status=503)
        begin = time.monotonic()
        answered = await engine.children.answer(engine.settings.health_timeout_s)
        if answered:
            await asyncio.sleep(max(0.0, engine.settings.health_s - (time.monotonic() - begin)))
            if engine.role == "decode":
                # Its probe is a request from a fake prefill, and counted as one (seen on the real pair).
                engine.metrics.observe("kv_transfer_bootstrap_ms", 0.9)
                engine.metrics.observe("kv_transfer_alloc_ms", 0.9)
        engine.status = "Up" if answered else "UnHealthy"
        return web.Response(status=200 if answered and not engine.stopping else 503)

    async def _ready(self, _request: web.Request) -> web.Response:
        """A look at the flag: it changes only when somebody asks /health."""
        engine = self._engine
        return web.Response(status=200 if engine.status == "Up" and not engine.stopping else 503)

    # --- what it is

    async def _model_info(self, _request: web.Request) -> web.Response:
        args = self._engine.options.args
        told = {
            "model_path": args["model_path"],
            "tokenizer_path": args["tokenizer_path"],
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
        }
        return web.json_response(told)

    async def _models(self, _request: web.Request) -> web.Response:
        args = self._engine.options.args
        name = args["served_model_name"]
        card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": name}
        return web.json_response(
            {"object": "list", "data": [{**card, "parent": None, "max_model_len": args["context_length"]}]}
        )

    async def _server_info(self, _request: web.Request) -> web.Response:
        """Asks the scheduler, without a timeout: hangs while that is wedged."""
        engine = self._engine
        await engine.children.answer()
        top, inner = shape("top"), shape("internal")
        args = {**engine.options.shown, "page_size": engine.page_size()}
        startup = {**args["startup_time"], "load_weight": engine.load_s, "scheduler_e2e": engine.load_s}
        internal: dict[str, Any] = {
            **args,
            **inner,
            "startup_time": startup,
            "effective_max_running_requests_per_dp": engine.options.number("max_running_requests"),
            "last_gen_throughput": engine.throughput,
            "memory_usage": {**inner["memory_usage"], "token_capacity": engine.capacity},
        }
        del internal["env_vars"]
        if engine.settings.expose_env:
            internal["env_vars"] = registered(engine.env)
        told = {
            **args,
            **top,
            "launch_command": engine.options.launch_command,
            "status": _STATUS[engine.status],
            "max_total_num_tokens": engine.capacity,
            "max_req_input_len": int(args["context_length"]) - 6,
            "internal_states": [internal],
            "version": VERSION,
        }
        return web.json_response(told)

    # --- load

    async def _loads(self, _request: web.Request) -> web.Response:
        """A look into shared memory: answers on a wedged engine too, with the time of the last sign of life."""
        engine = self._engine
        queues = engine.queues
        used = sum(stream.produced for stream in engine.running)
        load: dict[str, Any] = {
            "timestamp": engine.children.beat()[1],
            "dp_rank": 0,
            "num_running_reqs": len(engine.running),
            # Over the PD queues too, but not over what is on its way out of a prefill (load_inquirer.py of 0.5.23).
            "num_waiting_reqs": queues["bootstrap"] + queues["prealloc"] + queues["transfer"],
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": used,
            "num_total_tokens": used,
            "num_active_tokens": used,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": engine.capacity,
            "max_running_requests": engine.options.number("max_running_requests"),
            "token_usage": round(used / engine.capacity, 4),
            "gen_throughput": engine.throughput if engine.running else 0.0,
            "cache_hit_rate": 0.0,
            "utilization": -1.0 if engine.role == "prefill" else 0.0,
            "total_prefill_uncached_tokens": 0,
            "total_prefill_busy_us": 0,
            "decode_moments": None,
            "memory": engine.memory(),
            "disaggregation": {
                "mode": engine.role,
                "prefill_bootstrap_queue_reqs": queues["bootstrap"],
                "prefill_inflight_queue_reqs": queues["inflight"],
                "decode_prealloc_queue_reqs": queues["prealloc"],
                "decode_transfer_queue_reqs": queues["transfer"],
                "decode_retracted_queue_reqs": 0,
                "kv_transfer_speed_gb_s": engine.kv["speed_gb_s"],
                "kv_transfer_latency_ms": engine.kv["latency_ms"],
            },
            "queues": {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
        }
        now = datetime.now(timezone.utc).isoformat()
        return web.json_response(
            {"timestamp": now, "version": VERSION, "accelerator": None, "num_accelerators": 1, "loads": [load]}
        )

    async def _metrics(self, _request: web.Request) -> web.Response:
        engine = self._engine
        if not engine.options.args["enable_metrics"] or engine.faults.get("metrics_off"):
            return web.json_response({"detail": "Not Found"}, status=404)
        metrics = engine.metrics
        metrics.total("scheduler_process_cpu_seconds_total", engine.children.beat()[2])
        metrics.total("scheduler_idle_seconds_total", engine.idle_s)
        metrics.total("process_cpu_seconds_total", time.process_time(), "", component="tokenizer")
        metrics.gauge("max_total_num_tokens", engine.capacity)
        metrics.gauge("context_len", engine.options.number("context_length"))
        metrics.gauge("page_size", engine.page_size())
        metrics.gauge("num_pages", engine.capacity // engine.page_size())
        for phase in ("load_weight", "scheduler_e2e", "tokenizer_e2e"):
            metrics.gauge("startup_time_seconds", engine.load_s, "request", phase=phase)
        return web.Response(text=metrics.page(), content_type="text/plain")

    # --- admin

    async def _flush(self, _request: web.Request) -> web.Response:
        if self._engine.running:
            return web.Response(status=400, text="Failed to flush cache because there are running requests.\n")
        return web.Response(text="Cache flushed.\nPlease check backend logs for more details. (simulation)\n")

    async def _abort(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
        except ValueError:
            body = {}
        if body.get("abort_all"):
            self._serving.abort(None)
        elif body.get("rid"):
            self._serving.abort(str(body["rid"]))
        return web.Response()

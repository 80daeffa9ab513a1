# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The state of one engine, and its batch: one ticker makes a token for every running stream at each step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from .children import Children
from .metrics import Metrics
from .options import Options
from .plugins import Kernels
from .settings import Faults, Settings
from .speed import token_s


def say(text: str) -> None:
    """One line of the log, in the real one's form."""
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


class Stream:
    """One answer while it is made. `produced` grows; `changed` is set at each step and at the end."""

    __slots__ = ("begin", "changed", "first", "limit", "produced", "wanted")

    def __init__(self, wanted: int, limit: int) -> None:
        self.wanted = wanted  # tokens until the answer ends by itself
        self.limit = limit  # max_tokens
        self.produced = 0
        self.begin = time.monotonic()
        self.first = 0.0
        self.changed = asyncio.Event()

    @property
    def done(self) -> bool:
        return self.produced >= min(self.wanted, self.limit)

    @property
    def finish_reason(self) -> str:
        return "length" if self.limit <= self.wanted else "stop"


class Engine:
    def __init__(self, options: Options, settings: Settings, knob: int, env: Mapping[str, str]) -> None:
        self.options, self.settings, self.knob, self.env = options, settings, knob, env
        self.faults = Faults(settings.faults_path, options.role, settings.instance)
        self.children = Children()
        self.metrics = Metrics(options.role, str(options.args["served_model_name"]))
        self.instance = f"{os.getpid()}-{time.time_ns()}"  # what a real one's agent ids and ZMQ ports tell apart
        self.status = "Starting"  # Starting, Up or UnHealthy
        self.loaded = False
        self.stopping = False
        self.requests = 0  # in the server, as rid_to_state of the real one
        self.running: list[Stream] = []
        self.slots = asyncio.Semaphore(options.number("max_running_requests"))
        self.queues = dict.fromkeys(("bootstrap", "inflight", "prealloc", "transfer"), 0)
        self.kv = {"speed_gb_s": 0.0, "latency_ms": 0.0}
        self.throughput = 0.0
        self.started = time.monotonic()
        self.load_s = 0.0
        self.idle_s = 0.0
        self.steps = 0
        self.kernels: Kernels | None = None
        self._work = asyncio.Event()
        self._stopped_child = False
        self._failed_transfers = 0  # of the fault transfer_fail_times

    @property
    def role(self) -> str:
        return self.options.role

    def page_size(self) -> int:
        return int(self.faults.get("page_size") or self.options.number("page_size"))

    def transfer_fails(self) -> bool:
        """Whether a fault wants the transfer to fail that happens now; each call is one transfer."""
        times = int(self.faults.get("transfer_fail_times") or 0)
        if not times:
            self._failed_transfers = 0
        elif self._failed_transfers < times:
            self._failed_transfers += 1
            return True
        return bool(self.faults.get("transfer_fail"))

    # --- the batch

    def add(self, stream: Stream) -> None:
        self.running.append(stream)
        if self.kernels is not None:
            self.kernels.decode(len(self.running))
        self._work.set()

    def remove(self, stream: Stream) -> None:
        if stream in self.running:
            self.running.remove(stream)

    async def run_batches(self) -> None:
        """For ever. A step that comes late is not made up for by a shorter one, except for the timer's own delay."""
        due = 0.0
        window, made = time.monotonic(), 0
        while True:
            if not self.running:
                self._work.clear()
                idle = time.monotonic()
                await self._work.wait()
                self.idle_s += time.monotonic() - idle
                due = window = time.monotonic()
                made = 0
            step_s = token_s(self.settings.token_s, len(self.running), self.knob)
            now = time.monotonic()
            due = due + step_s if due + step_s > now else now
            await asyncio.sleep(due - now)
            while not self.children.responsive:
                await asyncio.sleep(0.1)
                due = time.monotonic()
            made += self._step()
            if self.steps % self.options.number("decode_log_interval") == 0:
                now = time.monotonic()
                self.throughput = made / max(now - window, 1e-6)
                window, made = now, 0
                self.publish()

    def _step(self) -> int:
        batch, now = self.running, time.monotonic()
        self.steps += 1
        for stream in batch:
            stream.produced += 1
            stream.first = stream.first or now
            stream.changed.set()
        self.running = [stream for stream in batch if not stream.done]
        self.metrics.count("realtime_tokens_total", len(batch), mode="decode")
        self.metrics.count("cuda_graph_passes_total", 1, mode="decode_none")
        return len(batch)

    def publish(self) -> None:
        """The gauges that the real decode refreshes each decode_log_interval steps only."""
        self.metrics.publish()
        self.metrics.gauge("num_running_reqs", len(self.running))
        self.metrics.gauge("num_queue_reqs", 0)
        self.metrics.gauge("gen_throughput", self.throughput)
        self.metrics.gauge("token_usage", 0.0)
        for name in ("num_retracted_reqs", "num_paused_reqs"):
            self.metrics.gauge(name, 0, pid=str(self.children.pid()))
        if self.role == "prefill":
            self.metrics.gauge("num_prefill_bootstrap_queue_reqs", self.queues["bootstrap"])
            self.metrics.gauge("num_prefill_inflight_queue_reqs", self.queues["inflight"])
        elif self.role == "decode":
            self.metrics.gauge("num_decode_prealloc_queue_reqs", self.queues["prealloc"])
            self.metrics.gauge("num_decode_transfer_queue_reqs", self.queues["transfer"])

    # --- faults and death

    async def watch(self) -> None:
        """A child's death ends the main process, as the real SubprocessWatchdog does; the fault `wedge` stops a child."""
        while True:
            dead = self.children.dead()
            if dead is not None:
                title, pid, code = dead
                say(f"Subprocess {title} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup...")
                say("Received sigquit from a child process. It usually means the child failed.")
                await asyncio.sleep(self.settings.crash_s)
                self.children.end()
                sys.stdout.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            self.wedge_if_told()
            await asyncio.sleep(0.2)

    def wedge_if_told(self) -> None:
        wedge = bool(self.faults.get("wedge")) and self.loaded
        if wedge != self._stopped_child:
            self._stopped_child = wedge
            self.children.signal(signal.SIGSTOP if wedge else signal.SIGCONT)

    def crash(self, error: str) -> None:
        """An exception in the scheduler: nothing catches it there, so the child ends."""
        say(f"Scheduler hit an exception: Traceback (most recent call last):\n  (simulation)\n{error}")
        self.children.signal(signal.SIGKILL)

    def memory(self) -> dict[str, Any]:
        return {"weight_gb": 0.001, "kv_cache_gb": 0.002, "graph_gb": 0.0, "token_capacity": self.capacity}

    @property
    def capacity(self) -> int:
        return self.options.number("max_total_tokens")

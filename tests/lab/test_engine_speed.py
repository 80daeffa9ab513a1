# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The knob's effect as a client measures it, and what a simulated engine costs the machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

ROOT = Path(__file__).resolve().parents[2]
from lab import ports, processes  # noqa: E402
from lab.engine.speed import KNOB, speed  # noqa: E402

pytestmark = pytest.mark.lab
STREAMS, TOKENS = 64, 80


def test_model() -> None:
    assert speed(64, 512) == pytest.approx(1.128) and speed(96, 512) == pytest.approx(1.057)
    assert {speed(streams, 256) for streams in (1, 64, 96, 300)} == {1.0}
    assert speed(64, 128) < 1 < speed(64, 384) < speed(64, 512) > speed(64, 1024) > 1


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def stream(session: aiohttp.ClientSession, url: str) -> int:
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": TOKENS, "stream": True}
    async with session.post(url + "/v1/chat/completions", json=body) as answer:
        data = await answer.read()
    return data.count(b'"content": "') - 1  # the opening has an empty one


async def measure(port: int, pid: int) -> tuple[float, float]:
    """Tokens per second and the share of a core."""
    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for _ in range(3000):
            try:
                async with session.get(url + "/health") as answer:
                    if answer.status == 200:
                        break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.03)
        begin, spent = time.monotonic(), cpu_s(pid)
        made = sum(await asyncio.gather(*(stream(session, url) for _ in range(STREAMS))))
        taken_s = time.monotonic() - begin
    assert made > 0.9 * STREAMS * TOKENS  # token by token; a busy machine may put two into one part
    return STREAMS * TOKENS / taken_s, (cpu_s(pid) - spent) / taken_s


def test_knob_and_cost(tmp_path: Path) -> None:
    me = processes.identity(os.getpid())
    assert me is not None
    first = ports.claim(me)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PDOPS_LAB_LOAD_S": "0.2", "PDOPS_LAB_HEALTH_S": "0.1"}
    command = [sys.executable, "-m", "lab.engine", "--port"]
    engines = {
        knob: subprocess.Popen(
            [*command, str(first + at)], cwd=tmp_path, env={**env, KNOB: knob}, stdout=subprocess.DEVNULL
        )
        for at, knob in enumerate(("256", "512"))
    }

    async def both() -> list[tuple[float, float]]:
        return await asyncio.gather(*(measure(first + at, one.pid) for at, one in enumerate(engines.values())))

    try:
        for _try in range(5):  # what a neighbour takes is taken from both, and the ratio shrinks
            (slow, cost), (fast, _) = asyncio.run(both())
            told = f"{slow:.0f} and {fast:.0f} tokens/s, ratio {fast / slow:.3f}, {100 * cost:.0f} % of a core"
            print(f"\n{STREAMS} streams: {told}")
            if 1.08 < fast / slow < 1.18:
                break
    finally:
        for one in engines.values():
            one.terminate()
            assert one.wait(60) == 0
        ports.release(first)
    assert 1.08 < fast / slow < 1.18
    assert cost < 0.3

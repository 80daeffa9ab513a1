# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The main process's side of its children: start, heartbeat, death, end.

They are plain processes and no children of Python's multiprocessing: of that, all that an operator can see in the real
engine is the resource tracker, a helper with the environment of the main process. It is the real one here too, and there
with PDOPS_LAB_HELPER=1 only: without it the main process is the best source of what an engine has, which playbooks must
cope with, and which their tests expect.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import signal
import subprocess
import sys
import time
from multiprocessing import resource_tracker

from .child import BEAT_S, HEART

SCHEDULER, DETOKENIZER = "sglang::scheduler", "sglang::detokenizer"


class Children:
    def __init__(self) -> None:
        descriptor = os.memfd_create("heart")
        os.ftruncate(descriptor, HEART.size)
        self._heart = mmap.mmap(descriptor, HEART.size)
        self._descriptor = descriptor
        self._all: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, helper: bool) -> None:
        if helper:
            resource_tracker.ensure_running()
        command = [sys.executable, "-m", "lab.engine.child"]
        own, heart = str(os.getpid()), self._descriptor
        self._all[SCHEDULER] = subprocess.Popen([*command, SCHEDULER, own, str(heart)], pass_fds=(heart,))
        self._all[DETOKENIZER] = subprocess.Popen([*command, DETOKENIZER, own])

    def pid(self, title: str = SCHEDULER) -> int:
        return self._all[title].pid

    def dead(self) -> tuple[str, int, int] | None:
        """Title, pid and exit code of a child that has ended."""
        for title, child in self._all.items():
            if child.poll() is not None:
                return title, child.pid, child.returncode
        return None

    def signal(self, number: int, title: str = SCHEDULER) -> None:
        self._all[title].send_signal(number)

    def end(self) -> None:
        for child in self._all.values():
            with contextlib.suppress(ProcessLookupError):
                child.kill()
        for child in self._all.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(5)

    # --- the heart

    def beat(self) -> tuple[int, float, float]:
        """Count, wall clock and CPU seconds of the scheduler's last heartbeat."""
        beats, wall, cpu = HEART.unpack_from(self._heart, 0)
        return int(beats), float(wall), float(cpu)

    @property
    def responsive(self) -> bool:
        """False as soon as the scheduler is stopped or dead. Its heart is looked at too, with patience for a busy machine."""
        try:
            with open(f"/proc/{self.pid()}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return state not in (b"T", b"t", b"Z", b"X") and time.time() - self.beat()[1] < 10 * BEAT_S

    async def answer(self, timeout_s: float | None = None) -> bool:
        """Wait for a heartbeat after now, as a request to the scheduler waits for its answer; False at the timeout."""
        first = self.beat()[0]
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.beat()[0] == first:
            if deadline is not None and time.monotonic() > deadline:
                return False
            await asyncio.sleep(BEAT_S / 4)
        return True

    async def until_responsive(self) -> None:
        while not self.responsive:
            await asyncio.sleep(BEAT_S)


def kill_self() -> None:
    """How the real main process ends after a child's death: systemd sees code=killed, status=9."""
    os.kill(os.getpid(), signal.SIGKILL)

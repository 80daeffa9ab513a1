# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Waits for a probe: starts it on the machine, looks now and then, prints a line per request and round, keeps a deadline.

The probe is a process of its own on the machine and goes on while a connection is
lost. What comes back is failed, never unreachable.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain

display = Display()

#: Seconds without a line after which one says what is waited for.
QUIET_S = 5.0
TICK_S = 0.5
RECONNECT_S = 1.0
BROKEN_ANSWERS = 3  # in a row: then the machine cannot run the module at all
#: Beyond the probe's own time: for looking at the queues, and for connecting again.
GRACE_S = 45.0


class ActionModule(ActionBase):
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        arguments = dict(self._task.args)
        try:
            timeout_s = float(arguments.get("timeout_s", 600))
        except (TypeError, ValueError):
            timeout_s = -1.0  # the module says what is wrong with it
        if self._task.check_mode or timeout_s < 0:
            result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
            return result
        name = str(arguments.get("name") or "probe")
        began = time.time()
        result.update(self._probe(arguments, task_vars, _Progress(name, timeout_s)))
        result = result_as_typed(result, context.CLIARGS.get("args", ()))
        return {**result, "kind": "probe", "instance": name, "began": began, "ended": time.time()}

    def _probe(
        self, arguments: dict[str, Any], task_vars: dict[str, Any] | None, progress: _Progress
    ) -> dict[str, Any]:
        resume: dict[str, Any] = {}
        lost, broken = "", 0
        while progress.spent_s() < progress.timeout_s + GRACE_S:
            try:
                with progress.ticking():
                    answer = self._execute_module(module_args={**arguments, "resume": resume}, task_vars=task_vars)
                lost = str(answer.get("msg", "no answer")) if answer.get("unreachable") else ""
            except AnsibleConnectionFailure as error:
                answer, lost = {}, str(error)
            if lost and not resume:
                # Nothing runs that would be waited for, or it ends by itself.
                return progress.failed({}, f"the machine is not reachable ({' '.join(lost.split())[:200]})")
            if lost:
                progress.lost(lost)
                self._reconnect()
                continue
            if "lines" not in answer:
                broken += 1
                if "module_stdout" not in answer or broken >= BROKEN_ANSWERS:
                    return {**answer, "failed": True}
                time.sleep(RECONNECT_S)
                continue
            broken = 0
            resume = {"name": answer["name"], "seen": answer["seen"]}
            progress.tell(answer["lines"])
            if answer["result"] is not None:
                return progress.ended(answer["result"])
        why = f"the machine is not reachable ({' '.join(lost.split())[:200]})" if lost else "it gave no result"
        return progress.failed({}, f"not ended within {progress.timeout_s:g} s: {why}")

    def _reconnect(self) -> None:
        time.sleep(RECONNECT_S)
        # The folder for module files may be gone after a reboot.
        self._connection._shell.tmpdir = None
        try:
            self._connection.reset()
        except Exception as error:  # whatever is wrong with it, the next call tells
            display.vvv(f"pd_probe: reset of the connection failed: {error}")


class _Progress:
    """Counts the time, prints, and words the end."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self.timeout_s = timeout_s
        self._begin = time.monotonic()
        self._next_line = self._begin + QUIET_S
        self._last = "asking for the model"
        self._lost_told = False
        self._lock = threading.Lock()

    def spent_s(self) -> float:
        return time.monotonic() - self._begin

    @contextlib.contextmanager
    def ticking(self) -> Iterator[None]:
        """Prints a line when nothing has been said for a while."""
        done = threading.Event()

        def tick() -> None:
            while not done.wait(TICK_S):
                with self._lock:
                    self._line_if_due()

        thread = threading.Thread(target=tick, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _print(self, text: str, color: str) -> None:
        display.display(plain(f"  {self._name}  {text}"), color=color)

    def _line_if_due(self) -> None:
        if time.monotonic() >= self._next_line and not self._lost_told:
            self._print(f"{self.spent_s():6.1f} s  waiting; last: {self._last}", "cyan")
            self._next_line = time.monotonic() + QUIET_S

    def tell(self, lines: list[Any]) -> None:
        """Lines of the probe: seconds since its begin, words, whether they are good news."""
        if self._lost_told:
            self._lost_told = False
            self._print(f"{self.spent_s():6.1f} s  connected again", "cyan")
        for seconds, words, good in lines:
            self._print(f"{seconds:6.1f} s  {words}", "green" if good else "red")
            self._last = words
        if lines:
            with self._lock:
                self._next_line = time.monotonic() + QUIET_S

    def lost(self, why: str) -> None:
        if not self._lost_told:
            self._lost_told = True
            words = " ".join(why.split())[:200]
            self._print(
                f"{self.spent_s():6.1f} s  connection lost, the probe goes on; trying again ({words})", "yellow"
            )

    def ended(self, found: dict[str, Any]) -> dict[str, Any]:
        if "error" in found:
            return self.failed({}, str(found["error"]))
        for line in found["table"]:
            display.display(plain(f"  {self._name}  {line}"))
        if found["verdict"] == "failed":
            return self.failed(found, found["said"])
        return {**found, "msg": f"{self._name}: {found['said']}", "changed": False}

    def failed(self, found: dict[str, Any], why: str) -> dict[str, Any]:
        return {**found, "failed": True, "changed": False, "msg": f"{self._name}: {why}"}

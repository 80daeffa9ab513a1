# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Waits for the gates of an instance: asks the machine slice by slice, prints live, keeps its own deadline.

The machine judges (the module of the same name); nothing here knows what a gate is.
A lost connection is no verdict: it is opened again until the deadline, and what
comes back then is failed, since Ansible runs no rescue for unreachable.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.action.pd_machine import OneModule
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain

display = Display()

# Seconds between two lines while nothing passes: soon at first, seldom later.
FIRST_LINE_S, LONGEST_LINE_S = 3.0, 30.0
TICK_S = 0.5
RECONNECT_S = 1.0
BROKEN_ANSWERS = 3  # in a row: then the machine cannot run the module at all
MARGIN_S = 0.5


class ActionModule(OneModule):
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        arguments = dict(self._task.args)
        if self._task.check_mode:
            result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
            return result
        try:
            timeout_s = float(arguments.get("timeout_s", 900))
        except (TypeError, ValueError):
            # The module says what is wrong with it.
            result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
            return result
        name = str(arguments.get("name") or (task_vars or {}).get("inventory_hostname", ""))
        began = time.time()
        result.update(self._climb(arguments, task_vars, _Progress(name, timeout_s)))
        return {**result, "kind": "gates", "instance": name, "began": began, "ended": time.time()}

    def _climb(
        self, arguments: dict[str, Any], task_vars: dict[str, Any] | None, progress: _Progress
    ) -> dict[str, Any]:
        got: dict[str, Any] = {}
        resume = arguments.get("resume")
        broken = 0
        lost = ""
        while True:
            left_s = progress.left_s()
            if left_s <= 0:
                return progress.late(got, lost)
            asked = {**arguments, "timeout_s": max(left_s, MARGIN_S), "resume": resume}
            try:
                # One request of a gate may take longer than a slice, and the lines go on meanwhile.
                with progress.ticking():
                    answer = self._execute_module(module_args=asked, task_vars=task_vars)
                lost = str(answer.get("msg", "no answer")) if answer.get("unreachable") else ""
            except AnsibleConnectionFailure as error:
                answer, lost = {}, str(error)
            if lost:
                progress.lost(lost)
                self._reconnect(min(RECONNECT_S, max(0.0, progress.left_s())))
                continue
            if "outcome" not in answer:
                # Refused by the module (msg, once and for all), or killed half-way and without an answer.
                broken += 1
                if "module_stdout" not in answer or broken >= BROKEN_ANSWERS:
                    return {**answer, "failed": True, "gates": got.get("gates", [])}
                time.sleep(RECONNECT_S)
                continue
            broken = 0
            got = answer
            resume = got.pop("resume", None)
            progress.tell(got)
            if got["outcome"] == "passed":
                return progress.passed(got)
            if got["outcome"] == "failed":
                return progress.failed(got)

    def _reconnect(self, pause_s: float) -> None:
        time.sleep(pause_s)
        # The folder for module files may be gone after a reboot.
        self._connection._shell.tmpdir = None
        try:
            self._connection.reset()
        except Exception as error:  # whatever is wrong with it, the next call tells
            display.vvv(f"pd_gate: reset of the connection failed: {error}")


class _Progress:
    """Counts the time, prints, and words the end."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._begin = time.monotonic()
        self._told = 0
        self._pause_s = FIRST_LINE_S
        self._next_line = self._begin + FIRST_LINE_S
        self._lost_told = False
        self._waiting: dict[str, Any] = {"gate": "", "said": "the machine is being asked"}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def ticking(self) -> Iterator[None]:
        """Prints lines that become due while the machine is asked."""
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

    def spent_s(self) -> float:
        return time.monotonic() - self._begin

    def left_s(self) -> float:
        return self._timeout_s - self.spent_s()

    def _print(self, gate: str, text: str, color: str) -> None:
        display.display(plain(f"  {self._name}  {gate:<10}  {text}"), color=color)

    def tell(self, got: dict[str, Any]) -> None:
        """A line for each gate that was decided since the last call, and now and then one for what is waited for."""
        if self._lost_told:
            self._lost_told = False
            self._print("", f"{self.spent_s():.1f} s: connected again", "cyan")
        decided = [gate for gate in got["gates"] if gate["result"] != "pending"]
        for gate in decided[self._told :]:
            color = {"passed": "green", "failed": "red"}.get(gate["result"], "yellow")
            self._print(gate["gate"], f"{gate['result']} in {gate['seconds']:.1f} s: {gate['said']}", color)
        if len(decided) > self._told:
            self._told = len(decided)
            self._pause_s = FIRST_LINE_S
            self._next_line = time.monotonic() + FIRST_LINE_S
        self._waiting = got["gates"][-1]
        if got["outcome"] == "pending":
            self._line_if_due()

    def _line_if_due(self) -> None:
        if time.monotonic() < self._next_line or self._lost_told:
            return
        said = f"{self.spent_s():.1f} s of at most {self._timeout_s:.4g} s: {self._waiting['said']}"
        self._print(self._waiting["gate"], said, "cyan")
        self._pause_s = min(self._pause_s * 2, LONGEST_LINE_S)
        self._next_line = time.monotonic() + self._pause_s

    def lost(self, why: str) -> None:
        if not self._lost_told:
            self._lost_told = True
            words = " ".join(why.split())[:200]
            self._print(
                "",
                f"{self.spent_s():.1f} s: connection lost, trying again until {self._timeout_s:g} s ({words})",
                "yellow",
            )

    def passed(self, got: dict[str, Any]) -> dict[str, Any]:
        got.pop("log_tail", None)
        got["seconds"] = round(self.spent_s(), 2)
        got["msg"] = (
            f"{self._name}: {', '.join(gate['gate'] for gate in got['gates'])} decided in {got['seconds']:.1f} s"
        )
        return got

    def failed(self, got: dict[str, Any]) -> dict[str, Any]:
        last = got["gates"][-1]
        words = {"failed": "failed", "not-observable": "is not observable, and is required,"}[last["result"]]
        return self._end(got, f"{self._name}: gate {last['gate']} {words} after {self.spent_s():.1f} s: {last['said']}")

    def late(self, got: dict[str, Any], lost: str) -> dict[str, Any]:
        last = got["gates"][-1] if got.get("gates") else None
        gate = f"gate {last['gate']}" if last else "the gates"
        said = f"last seen: {last['said']}" if last else "nothing was seen"
        first = (last.get("evidence") or {}).get("first_said") if last else None
        if first:
            said = f"first seen: {first}; {said}"
        if lost:
            said = f"the machine is not reachable ({' '.join(lost.split())[:200]}); {said}"
        text = (
            f"{self._name}: {gate} not passed after {self.spent_s():.1f} s of at most {self._timeout_s:.4g} s: {said}"
        )
        return self._end({"gates": [], "gate": None, "evidence": {}, "main": None, **got, "outcome": "failed"}, text)

    def _end(self, got: dict[str, Any], text: str) -> dict[str, Any]:
        # The log is in log_tail; in the sentence, which others repeat, it would hide what the sentence says.
        got.setdefault("log_tail", [])
        got.update(failed=True, msg=as_typed(text, context.CLIARGS.get("args", ())), seconds=round(self.spent_s(), 2))
        return got

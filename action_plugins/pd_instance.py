# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Prints what is waited for while an instance drains, and notes when the task began and ended."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.action.pd_machine import OneModule, cut_off
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import operator
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain

display = Display()

FIRST_LINE_S, LONGEST_LINE_S = 3.0, 30.0
RECONNECT_FOR_S, POLL_S = 60.0, 0.7


class ActionModule(OneModule):
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        del tmp
        arguments = {"actor": operator(), **self._task.args}
        name = str(arguments.get("instance") or arguments.get("unit") or "")
        began = time.time()
        done = threading.Event()
        told = threading.Thread(target=_tell, args=(name, arguments, done), daemon=True)
        if arguments.get("state", "status") != "status" and not self._task.check_mode:
            told.start()
        try:
            result.update(self._ask(name, arguments, task_vars))
        finally:
            done.set()
        if result.get("lost"):
            display.display(
                f"  {name}  killed after {result['seconds']:.1f} s with {result['lost']} requests, which are lost",
                color="yellow",
            )
        elif result.get("requests"):
            display.display(f"  {name}  {result['requests']} requests ended before it stopped", color="green")
        kind = {"started": "start", "stopped": "stop", "restarted": "restart"}.get(arguments.get("state", ""), "look")
        result = result_as_typed(result, context.CLIARGS.get("args", ()))
        return {**result, "kind": kind, "instance": name, "began": began, "ended": time.time()}

    def _ask(self, name: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Call the module; a connection that drops while something drains or starts is waited out.

        A start of what runs and a stop of what is stopped do nothing, so both may come twice; a restart may not. A machine that stays
        away is a failure.
        """
        wait_s = float((task_vars or {}).get("pd_reconnect_s", RECONNECT_FOR_S))
        twice = arguments.get("state") in ("started", "stopped", "status")
        deadline = time.monotonic() + (wait_s if twice else 0)
        while True:
            try:
                return self._execute_module(module_args=arguments, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                if time.monotonic() >= deadline:
                    return cut_off(name, error, task_vars)
                words = " ".join(str(error).split())[:200]
                display.display(plain(f"  {name}  connection lost, trying again ({words})"), color="yellow")
                time.sleep(POLL_S)
                # The folder for module files may be gone after a reboot.
                self._connection._shell.tmpdir = None
                with contextlib.suppress(Exception):  # whatever is wrong with it, the next call tells
                    self._connection.reset()


def _tell(name: str, arguments: dict[str, Any], done: threading.Event) -> None:
    """One line now and then, soon at first."""
    begin = time.monotonic()
    pause_s = FIRST_LINE_S
    stopping = arguments.get("state") in ("stopped", "restarted")
    what = f"to end its requests, at most {arguments.get('drain_s', 30)} s" if stopping else "to start"
    while not done.wait(pause_s):
        display.display(plain(f"  {name}  {time.monotonic() - begin:.1f} s: waiting for it {what}"), color="cyan")
        pause_s = min(pause_s * 2, LONGEST_LINE_S)

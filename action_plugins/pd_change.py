# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Says who leads a change, and watches a rollback that a machine's guard carries out."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible import context
from ansible.errors import AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.pdops.sglang.plugins.action.pd_machine import OneModule, cut_off
from ansible_collections.pdops.sglang.plugins.module_utils.as_typed import result_as_typed
from ansible_collections.pdops.sglang.plugins.module_utils.change.who import this_process, user_here
from ansible_collections.pdops.sglang.plugins.module_utils.plain_text import plain
from ansible_collections.pdops.sglang.plugins.module_utils.report.outage import seconds_to_expect

display = Display()

_POLL_S = 0.7
_RECONNECT_FOR_S = 60.0
#: After these a run tries every machine, whatever became of the one before, and tells them apart.
_OF_ALL = ("rollback", "status", "report")


class ActionModule(OneModule):
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if args.get("verb") == "begin":
            # The worker's parent is ansible-playbook itself: the process whose death ends the leading.
            args["leader"] = this_process(user_here(), os.getppid())
        events, members = args.pop("events", []), args.pop("all_instances", [])
        if args.get("verb") == "confirm" and events:
            args["outage_s"] = _outage_s(events, members)
        began = time.time()
        result.update(self._ask(args, task_vars))
        for line in result.get("guard", []):
            display.display(plain(f"  [guard] {line}"), color="cyan")
        if (
            args.get("verb") == "rollback"
            and "change" in result
            and not self._task.check_mode
            and not result.get("failed")
        ):
            result.update(self._watch(args, result, task_vars))
        result = result_as_typed(result, context.CLIARGS.get("args", ()))
        return {**result, "kind": str(args.get("verb", "")), "began": began, "ended": time.time()}

    def _ask(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Call the module; a dropped connection is waited out, since every verb may come twice, also at once.

        A machine that stays away fails the step that was asked of it; of several machines that put it back it is unreachable.
        """
        deadline = time.monotonic() + float((task_vars or {}).get("pd_reconnect_s", _RECONNECT_FOR_S))
        while True:
            try:
                return self._execute_module(module_args=args, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                if time.monotonic() >= deadline:
                    if args.get("verb") in _OF_ALL:
                        raise
                    machine = (task_vars or {}).get("change_machine") or self._task.delegate_to
                    return cut_off(str(machine or ""), error, task_vars)
                words = " ".join(str(error).split())[:200]
                display.display(plain(f"  [{args['verb']}] connection lost, trying again ({words})"), color="yellow")
                time.sleep(_POLL_S)
                self._reconnect()

    def _reconnect(self) -> None:
        # The folder for module files may be gone after a reboot.
        self._connection._shell.tmpdir = None
        try:
            self._connection.reset()
        except Exception as error:  # whatever is wrong with it, the next call tells
            display.vvv(f"pd_change: reset of the connection failed: {error}")

    def _watch(self, args: dict[str, Any], first: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Poll until the guard is done; a dropped connection is waited out. Returns failed when the rollback did not hold."""
        begin = time.monotonic()
        timeout = float(args.get("timeout", 1800))
        status_args = {key: args[key] for key in ("change_id", "instances", "state_dir") if key in args}
        status_args["verb"] = "status"
        # What the change had done before is history; only the way back is shown.
        shown = len(first.get("steps", []))
        state = first
        trouble = ""
        while True:
            steps = state.get("steps", [])
            for step in steps[shown:]:
                what = " ".join(part for part in (step["step"], step["instance"], step["said"]) if part)
                display.display(plain(f"  [rollback] {time.monotonic() - begin:5.1f} s  {what}"), color="yellow")
            shown = max(shown, len(steps))
            change = state.get("change", {})
            if change.get("state") in ("rolled-back", "rollback-failed", "confirmed", "superseded"):
                failed = change["state"] != "rolled-back"
                if not failed:
                    # This run tells it now, so the next one need not; a rollback that failed is worth telling twice.
                    told = {**status_args, "verb": "report", "ids": [change["id"]]}
                    self._execute_module(module_name="pdops.sglang.pd_change", module_args=told, task_vars=task_vars)
                return {
                    "failed": failed,
                    "changed": True,
                    "msg": change["reason"],
                    "said": change["reason"] if failed else "the old state is back, " + _restored(steps),
                    "change": {} if failed else change,
                    "steps": [] if failed else steps,
                }
            if time.monotonic() - begin > timeout:
                return {
                    "failed": True,
                    "msg": f"the rollback of {args['change_id']} was still going on after {timeout:.0f} s{trouble}; its guard goes on, see verify.yml.",
                }
            time.sleep(_POLL_S)
            try:
                state = self._execute_module(
                    module_name="pdops.sglang.pd_change", module_args=status_args, task_vars=task_vars
                )
                trouble = f" ({state.get('msg')})" if state.get("failed") else ""
                if state.get("guard_alive") is False and state["change"]["state"] == "rolling-back":
                    # The guard was killed at its work: the same verb starts another, which begins from the top.
                    self._execute_module(module_name="pdops.sglang.pd_change", module_args=args, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                trouble = f" ({error})"
                self._reconnect()
                state = {"steps": steps, "change": change}


def _outage_s(events: list[dict[str, Any]], members: list[dict[str, Any]]) -> float | None:
    """For how long the deployment did not answer, as the report is going to say."""
    try:
        # Plain data: what comes from templates carries tags, which the standard library need not know.
        plain_events, plain_members = json.loads(json.dumps([events, members], default=str))
        return seconds_to_expect(plain_events, plain_members)
    except Exception as error:  # whatever events hold: a change that is proved is confirmed
        display.vvv(f"pd_change: the outage is not known: {error}")
        return None


def _restored(steps: list[dict[str, Any]]) -> str:
    serving = [step["instance"] for step in steps if step["step"] == "serving"]
    stopped = [step["instance"] for step in steps if step["step"] == "stopped"]
    told = [f"{', '.join(serving)} serve again"] if serving else []
    told += [f"{', '.join(stopped)} do not run, as before"] if stopped else []
    return " and ".join(told) or "no instance had been touched"

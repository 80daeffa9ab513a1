# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A callback that keeps what the modules returned and when, so that tests can make stories of real runs."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: pdops_recorder
type: aggregate
short_description: Keeps results of pdops modules as JSON lines in PDOPS_RECORD
description: [Keeps results of pdops modules.]
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "pdops_recorder"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._began = time.time()

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._began = time.time()

    def _keep(self, result: Any, failed: bool) -> None:
        began, self._began = self._began, time.time()
        action = str(result._task.action).rpartition(".")[2]
        # Of a loop the items were kept already.
        if not action.startswith("pd_") or "results" in result._result:
            return
        plain = json.loads(json.dumps(dict(result._result), default=str))
        arguments = plain.pop("invocation", {}).get("module_args", {})
        kept = {"began": began, "ended": self._began, "failed": failed, "action": action, "result": plain}
        kept["asked"] = {name: arguments.get(name) for name in ("verb", "state", "instance", "name", "unit")}
        with open(os.environ["PDOPS_RECORD"], "a", encoding="utf-8") as record:
            record.write(json.dumps(kept) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._keep(result, failed=False)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._keep(result, failed=True)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._keep(result, failed=False)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._keep(result, failed=True)

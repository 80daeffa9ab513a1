# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Plugins, found and loaded as SGLang 0.5.23 does it (srt/plugins/__init__.py): by entry points, and errors are swallowed.

Of a plugin that hooks a kernel there is nothing here to hook. So of the entry point `pdops_kernels` the package is imported, its
knobs are read and its plans are made by its own code, and its own status record is written, with `"simulation": true`: what an
operator sees of it is true, and no kernel runs. A plugin of another name is imported and not run.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from .options import VERSION

GROUP, KERNELS = "sglang.srt.plugins", "pdops_kernels"
#: GPU of the story, as the package calls it.
MACHINE = "rtx-pro-6000"
_HEADS, _CAPS = 16, (128, 512)


class Kernels:
    """What stands for the package in this process: its record, and its plans once something is decoded."""

    def __init__(self, plugin: Any, env: Mapping[str, str]) -> None:
        try:
            self.knobs = plugin.read_knobs()
        except plugin.KnobError as error:  # the real one ends the process, too
            plugin.end_process(plugin.Status(env.get(plugin.STATUS_DIR)), str(error))
        self.status = plugin.Status(self.knobs.status_dir)
        self.status.write(
            state="hooked",
            sglang=VERSION,
            simulation=True,
            knobs=vars(self.knobs),
            plans=[],
            fallbacks={},
        )
        self._plugin, self._book = plugin, None
        self._buckets: set[int] = set()

    def decode(self, rows: int) -> None:
        """A batch of so many rows is decoded; the record follows when it is the first of its bucket."""
        bucket = 1 << max(rows - 1, 0).bit_length()
        if bucket in self._buckets:
            return
        self._buckets.add(bucket)
        if self._book is None:
            from importlib import import_module

            machine = import_module(f"{KERNELS}.machine").MACHINES[MACHINE]
            self._book = self._plugin.PlanBook(machine, self.knobs)
        book: Any = self._book
        book.plan(self._plugin.Shape("mla_packed", bucket, _HEADS, _CAPS))
        self.status.write(
            state="serving", machine=f"{book.machine.name} (simulation)", sms=book.machine.sms, plans=book.resolved()
        )


def load_plugins(env: Mapping[str, str], say: Callable[[str], None]) -> Kernels | None:
    """Load what SGLANG_PLUGINS lets in. Nothing is installed beside the lab itself, so without PYTHONPATH there is nothing."""
    if not env.get("PYTHONPATH"):
        return None
    allowed = {name.strip() for name in env.get("SGLANG_PLUGINS", "").split(",") if name.strip()}
    found: Kernels | None = None
    for point in entry_points(group=GROUP):
        if allowed and point.name not in allowed:
            say(f"Skipping plugin {point.name} (not in SGLANG_PLUGINS)")
            continue
        try:
            function = point.load()
            say(f"Loaded plugin {point.name} from group {GROUP}")
            if point.name == KERNELS:
                found = Kernels(sys.modules[function.__module__], env)
                say(f"Executed general plugin: {point.name} (simulation)")
        except Exception:
            say(f"Failed to load plugin {point.name} from group {GROUP}\n{traceback.format_exc().rstrip()}")
    return found

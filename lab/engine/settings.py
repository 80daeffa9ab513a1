# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the environment says: the lab's own settings, SGLang's timeouts, and the faults that a test switches on.

PDOPS_LAB_LOAD_S     time to load, default 2: until then the port is closed
PDOPS_LAB_HEALTH_S   least time of a /health, default 1 as the real one's
PDOPS_LAB_CRASH_S    from a child's death to the end of the main process, default 5
PDOPS_LAB_TOKEN_S    time per token of a single stream, default 0.02
PDOPS_LAB_HELPER     1: with the resource tracker of Python's multiprocessing, as the real one (children.py)
PDOPS_LAB_INSTANCE   name of this instance, where there are several of its role: faults may be for it alone
PDOPS_LAB_FAULTS     faults.json, may be absent; else faults.json in PDOPS_LAB_DIR; read again when it changes
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class BadSetting(Exception):
    """Message as the exception that ends the real program."""


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    """As the real registry: a value that is no number is ignored with a warning."""
    try:
        return float(env.get(name, default))
    except ValueError:
        print(f"UserWarning: Invalid value for {name}: {env[name]!r}, using default {default}", file=sys.stderr)
        return default


@dataclass(frozen=True)
class Settings:
    load_s: float
    health_s: float
    crash_s: float
    token_s: float
    faults_path: str | None
    instance: str | None
    health_timeout_s: float
    bootstrap_timeout_s: float
    waiting_timeout_s: float
    heartbeat_s: float
    heartbeat_failures: int
    helper: bool
    expose_env: bool
    force_shutdown: bool


def read_settings(env: Mapping[str, str]) -> Settings:
    """Raises BadSetting where the real engine does not start."""
    timeout = env.get("SGLANG_HEALTH_CHECK_TIMEOUT", "20")
    try:
        health_timeout_s = int(timeout)  # read at import, http_server.py line 218
    except ValueError:
        raise BadSetting(f"ValueError: invalid literal for int() with base 10: {timeout!r}") from None
    faults = env.get("PDOPS_LAB_FAULTS")
    if not faults and env.get("PDOPS_LAB_DIR"):
        faults = os.path.join(env["PDOPS_LAB_DIR"], "faults.json")
    truth = ("true", "1", "yes", "y")
    return Settings(
        load_s=_seconds(env, "PDOPS_LAB_LOAD_S", 2.0),
        health_s=_seconds(env, "PDOPS_LAB_HEALTH_S", 1.0),
        crash_s=_seconds(env, "PDOPS_LAB_CRASH_S", 5.0),
        token_s=_seconds(env, "PDOPS_LAB_TOKEN_S", 0.02),
        faults_path=faults or None,
        instance=env.get("PDOPS_LAB_INSTANCE") or None,
        health_timeout_s=health_timeout_s,
        bootstrap_timeout_s=_seconds(env, "SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", 300.0),
        waiting_timeout_s=_seconds(env, "SGLANG_DISAGGREGATION_WAITING_TIMEOUT", 300.0),
        heartbeat_s=max(2.0, _seconds(env, "SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL", 5.0)),
        heartbeat_failures=max(1, int(_seconds(env, "SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE", 2))),
        helper=env.get("PDOPS_LAB_HELPER") == "1",
        expose_env=env.get("SGLANG_EXPOSE_OWN_ENV_VARS", "").lower() in truth,
        force_shutdown=env.get("SGL_FORCE_SHUTDOWN", "").lower() in ("true", "1"),
    )


class Faults:
    """One part of faults.json, by role ("prefill", "decode", "router", "proxy"), read again when the file changes.

    What is said of the ``instance`` by name comes on top.
    """

    def __init__(self, path: str | None, role: str, instance: str | None = None) -> None:
        self._path, self._role, self._instance = path, role, instance
        self._seen: tuple[int, int, int] | None = None
        self._now: dict[str, Any] = {}

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            stat = os.stat(self._path)
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen == self._seen:
                return
            with open(self._path, encoding="utf-8") as file:
                whole = json.load(file)
            part = {**(whole.get(self._role) or {}), **(whole.get(self._instance) or {} if self._instance else {})}
            self._seen, self._now = seen, part
        except FileNotFoundError:
            self._seen, self._now = None, {}
        except (OSError, ValueError, AttributeError, TypeError):
            return  # half written: the next look sees it whole
        return

    def get(self, name: str) -> Any:
        """The value, or None when this fault is off."""
        self._read()
        value = self._now.get(name)
        return None if value is False else value


def registered(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that /server_info shows: registered ones only, so a misspelled name or a fork's own is missing."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registered_names.txt")
    with open(path, encoding="utf-8") as file:
        names = {line.strip() for line in file if not line.startswith("#")}
    return {name: value for name, value in sorted(env.items()) if name in names and "API_KEY" not in name}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What evidence about a knob holds for, read on a machine: engine, router, kernels, model, GPUs, driver and arguments.

The knobs themselves are no part of it, or a measurement would be unverified by the very change that it measured. Read-only; what
cannot be seen is said so, and then says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import threading
import time
from collections.abc import Iterable
from typing import Any, Optional

from ..deployment import Instance
from ..gates.api_key import read_key
from ..gates.engine_info import argument, server_info
from ..pdops_error import PdopsError
from ..processes import arguments, is_shell, read_environ
from ..secret_masking import mask_text
from ..services.choosing import manager_for
from . import packages
from .fingerprints import NOT_SEEN

#: Normalized names of distributions that decide how fast a pair is.
ENGINE = ("sglang", "torch", "triton", "nixl", "mooncake-transfer-engine")
#: What deploy_kernels.yml brings; a serve script puts it into PYTHONPATH.
DEPLOYED_KERNELS = "pdops-kernels"
KERNELS = ("sglang-kernel", "sgl-kernel", "flashinfer-python", "flashinfer-cubin", "deep-gemm", DEPLOYED_KERNELS)
ROUTER = ("sglang-router", "smg")
BUDGET_S = 20.0
_ANSWER_S = 3.0
_MOST_ARGUMENTS = 3000
_NVIDIA = "/proc/driver/nvidia"


def fingerprint(instances: Iterable[Instance], proc_nvidia: str = _NVIDIA) -> dict[str, str]:
    """Texts by name for the instances of one machine, as ``decode sglang`` to ``0.5.23, files as installed``.

    Instances of one role that are equal share a name; where they are not, the names of the instances stand in the text.
    """
    until_s = time.monotonic() + BUDGET_S
    known: dict[str, str] = {}  # by *.dist-info: two instances mostly share an environment
    by_role: dict[str, dict[str, dict[str, str]]] = {}
    here = list(instances)
    engines = Engines(here)
    for instance in here:
        by_role.setdefault(instance.role, {})[instance.name] = _instance(instance, engines, known, until_s)
    parts: dict[str, str] = {}
    for role, found in by_role.items():
        for name in sorted({name for one in found.values() for name in one}):
            values = {instance: one.get(name, NOT_SEEN) for instance, one in found.items()}
            if len(set(values.values())) == 1:
                parts[f"{role} {name}"] = next(iter(values.values()))
            else:
                parts[f"{role} {name}"] = "; ".join(
                    f"{instance}: {value}" for instance, value in sorted(values.items())
                )
    return {**parts, **_gpus(proc_nvidia)}


class Engines:
    """What engines tell of themselves, all asked at once: each answers only between two of its batches."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._told: dict[str, dict[str, Any]] = {}
        self._asked = {
            # A daemon: a wedged engine must not keep the module.
            item.name: threading.Thread(target=self._ask, args=(item,), daemon=True)
            for item in instances
            if item.role != "router"
        }
        for thread in self._asked.values():
            thread.start()

    def _ask(self, instance: Instance) -> None:
        self._told[instance.name] = _info(instance)

    def told(self, name: str) -> dict[str, Any]:
        """The answer of that engine; empty when it gave none."""
        self._asked[name].join()
        return self._told.get(name, {})


def _instance(instance: Instance, engines: Engines, known: dict[str, str], until_s: float) -> dict[str, str]:
    parts: dict[str, str] = {}
    pid, words = _engine_process(instance)
    told = mask_text(shlex.join(words[1:])) if len(words) > 1 else NOT_SEEN
    parts["arguments"] = (
        told if len(told) <= _MOST_ARGUMENTS else f"sha256 {hashlib.sha256(told.encode()).hexdigest()[:16]}"
    )
    if pid is not None:
        wanted = ROUTER if instance.role == "router" else (*ENGINE, *KERNELS)
        environ = read_environ(pid)
        # Else the stock kernels and ours would not differ: what one side does not name is no difference.
        if environ.whole and instance.role != "router":
            parts[DEPLOYED_KERNELS] = "none"
        folders = packages.site_folders(pid, words[0] if words else "", environ.values.get("PYTHONPATH", ""))
        for package in packages.find(folders, wanted):
            if package.folder not in known:
                known[package.folder] = packages.identity(package, until_s)
            parts[package.name] = known[package.folder]
    if instance.role != "router":
        info = engines.told(instance.name)
        parts["engine"] = str(info.get("version") or NOT_SEEN)
        parts["model"] = _model(
            str(argument(info, "model_path") or _option(words, "--model-path", "--model") or ""), info
        )
    return {name: value for name, value in parts.items() if value}


def _engine_process(instance: Instance) -> tuple[Optional[int], list[str]]:
    """The process that the serve script became, with its command line; a shell that only waits for it is passed over."""
    try:
        manager = manager_for(instance.manager, instance.supervisor_config)
        status = manager.status(instance.unit)
        if status.pid is None:
            return None, []
        pids = [status.pid, *sorted(pid for pid in manager.processes(instance.unit) if pid != status.pid)]
    except PdopsError:
        return None, []
    pid = next((pid for pid in pids if not is_shell(pid)), status.pid)
    return pid, arguments(pid)


def _info(instance: Instance) -> dict[str, Any]:
    try:
        key = read_key(instance.api_key_file) if instance.api_key_file else None
    except PdopsError:
        key = None
    found, _why, _status = server_info(instance.url, key, _ANSWER_S)
    return found or {}


def _option(words: list[str], *names: str) -> str:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else (words[at + 1] if at + 1 < len(words) else "")
    return ""


def _model(path: str, info: dict[str, Any]) -> str:
    """A path or a name; of a folder also what its files say (contents of weights are not read: their sizes are)."""
    if not path:
        return NOT_SEEN
    revision = argument(info, "revision")
    told = [path] + ([f"revision {revision}"] if revision else [])
    if os.path.isdir(path):
        digest = hashlib.sha256()
        for name in ("config.json", "model.safetensors.index.json", "generation_config.json"):
            try:
                with open(os.path.join(path, name), "rb") as file:
                    digest.update(file.read(1 << 26))
            except OSError:
                continue
        sizes = sorted(
            (entry.name, entry.stat().st_size)
            for entry in os.scandir(path)
            if entry.is_file() and entry.name.endswith((".safetensors", ".bin"))
        )
        digest.update(json.dumps(sizes).encode())
        told.append(f"files {digest.hexdigest()[:12]}")
    return mask_text(", ".join(told))


def _gpus(proc_nvidia: str) -> dict[str, str]:
    """Models and driver as the kernel's driver tells them; needs no program and no permission (nvidia-smi may hang)."""
    if not os.path.isdir(proc_nvidia):
        return {"gpu": "no NVIDIA driver", "driver": "no NVIDIA driver"}
    counts: dict[str, int] = {}
    try:
        for name in sorted(os.listdir(os.path.join(proc_nvidia, "gpus"))):
            with open(
                os.path.join(proc_nvidia, "gpus", name, "information"), encoding="utf-8", errors="replace"
            ) as file:
                model = re.search(r"^Model:\s*(.+?)\s*$", file.read(), re.MULTILINE)
            if model:
                counts[model[1]] = counts.get(model[1], 0) + 1
    except OSError:
        counts = {}
    try:
        with open(os.path.join(proc_nvidia, "version"), encoding="utf-8", errors="replace") as file:
            driver = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", file.read())
    except OSError:
        driver = None
    gpu = ", ".join(f"{count} x {model}" for model, count in sorted(counts.items()))
    return {"gpu": gpu or NOT_SEEN, "driver": driver[0] if driver else NOT_SEEN}

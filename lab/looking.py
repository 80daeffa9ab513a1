# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The verbs that look at a lab: status, logs, env."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from .folder import instance_name
from .layout import write
from .runner import Lab, LabError, get, info, say, tail

_SHOWN = ("SGLANG", "SGL_", "UCX", "CUDA")
_SECRET = re.compile(r"(^|_)(API_KEY|KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS?)($|_)")


def status(lab: Lab) -> int:
    """A line for each unit; 1 when one does not serve."""
    bad = 0
    for name, instance in [*lab["instances"].items(), *([("agent-proxy", lab["proxy"])] if "proxy" in lab else [])]:
        found = info(lab, instance["unit"])
        path = {"router": "/readiness"}.get(
            str(instance.get("role")), "/health" if "role" in instance else "/_proxy/status"
        )
        code = get(str(instance["url"]) + path, 25.0)[0]
        bad += code != 200
        print(
            f"  {name:<12} {found['statename']:<9} pid {found['pid']:<8} {instance['url']}{path} {code or 'no answer'}"
        )
    say(f"{lab['dir']}: " + ("all serve" if not bad else f"{bad} do not serve"))
    return 1 if bad else 0


def _instance(lab: Lab, role: str) -> dict[str, str]:
    found = lab.get("proxy") if role == "proxy" else lab["instances"][instance_name(lab, role)]
    if found is None:
        raise LabError(f"the lab in {lab['dir']} has no {role}")
    return dict(found)


def logs(lab: Lab, role: str, lines: int) -> int:
    path = _instance(lab, role)["log"]
    found = tail(path, lines)
    if not found:
        raise LabError(f"{path} is empty or not there")
    print("\n".join(found))
    return 0


def env(lab: Lab, role: str) -> int:
    """What the main process has in its environment, from the kernel; values of secrets are not shown."""
    unit = _instance(lab, role)["unit"]
    pid = int(info(lab, unit)["pid"])
    if not pid:
        raise LabError(
            f"{unit} does not run, so it has no environment: start it with python -m lab up --dir {lab['dir']}"
        )
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = os.fsdecode(file.read()).split("\0")
    except OSError as error:
        raise LabError(f"the environment of process {pid} ({unit}) cannot be read: {error.strerror}") from None
    shown = 0
    for entry in sorted(entries):
        name, sign, value = entry.partition("=")
        if sign and name.startswith(_SHOWN):
            shown += 1
            print(f"{name}={'********' if _SECRET.search(name) and value else value}")
    say(f"process {pid} of {unit} has {shown} SGLANG, UCX and CUDA names")
    return 0


def cut(lab: Lab, machines: Sequence[str], mend: bool) -> str:
    """Cut machines off or reach them again, and return the closing sentence. Nothing is done when one is unknown."""
    for machine in machines:
        if machine not in lab["cut"]:
            raise LabError(f"there is no machine {machine}; there are {', '.join(lab['cut'])}")
    for machine in (machines or lab["cut"]) if mend else machines:
        if mend:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(lab["cut"][machine])
        else:
            write(lab["cut"][machine], "")
    off = [machine for machine, path in lab["cut"].items() if os.path.exists(path)]
    return f"cut off: {', '.join(off)}" if off else "all machines are reached"

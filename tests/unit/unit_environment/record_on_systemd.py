#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Asks a real systemd what it makes of the cases beside this file; the answers are the tests' data.

Run as root on a throwaway host that systemd runs (it writes units below /run and /etc, starts them and removes them):
``python3 record_on_systemd.py < cases.json > recorded_systemd_VERSION.json``
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

WORK = "/run/pdops-record"
OF_EACH_RUN = (
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
)
SHOWN = "FragmentPath,DropInPaths,Environment,EnvironmentFiles,PassEnvironment,UnsetEnvironment,ExecStart,NeedDaemonReload,User"


def ask(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode("utf-8", "replace")


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def environ_of(output: str) -> dict[str, str] | None:
    if not os.path.exists(output):
        return None  # the unit was not started: what systemd says of it is in "status"
    with open(output, "rb") as file:
        entries = file.read().split(b"\0")
    text = [entry.decode("utf-8", "surrogateescape") for entry in entries if b"=" in entry]
    found = dict(entry.split("=", 1) for entry in text)
    return {name: value for name, value in found.items() if name not in OF_EACH_RUN}


def record(unit: str, files: dict[str, str]) -> dict[str, object]:
    output = os.path.join(WORK, "output")
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    for path, text in files.items():
        write(path, text.replace("@OUTPUT@", output))
    ask("systemctl", "daemon-reload")
    started = ask("systemctl", "start", unit)
    answer: dict[str, object] = {
        "environ": environ_of(output),
        "show": ask("systemctl", "show", "--no-pager", "-p", SHOWN, unit),
        "started": started.strip(),
    }
    ask("systemctl", "stop", unit)
    ask("systemctl", "reset-failed", unit)
    for path in files:
        os.unlink(path)
        if os.path.dirname(path).endswith(".d") and not os.listdir(os.path.dirname(path)):
            os.rmdir(os.path.dirname(path))
    return answer


def main() -> None:
    cases = json.load(sys.stdin)
    version = ask("systemctl", "--version").split("\n")[0]
    manager = "PDOPS_MANAGER=from the manager"
    ask("systemctl", "set-environment", manager, 'PDOPS_QUOTED=it\'s $5 "now"\n\\second\tline', "PDOPS_OVER=manager")
    told: dict[str, object] = {"systemd": version, "show-environment": ask("systemctl", "show-environment")}
    for name, text in cases["files"].items():
        path = f"{WORK}/case.env"
        unit = f"[Service]\nType=oneshot\nStandardOutput=file:@OUTPUT@\nEnvironmentFile={path}\nExecStart=/usr/bin/env -0\n"
        told["file " + name] = record(
            "pdops-record.service", {"/run/systemd/system/pdops-record.service": unit, path: text}
        )
    for name, case in cases["units"].items():
        told["unit " + name] = record(case["unit"], case["files"])
    json.dump(told, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()

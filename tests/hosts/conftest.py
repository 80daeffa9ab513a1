# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Tests on the hosts of a molecule scenario, which must be up: tools/molecule default converge, then verify."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
UNITS = {name: f"sglang-dsv4-{name}" for name in ("prefill", "decode", "router")}


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    rc: int
    text: str

    @property
    def recap(self) -> dict[str, int]:
        found = re.search(r"^dsv4 +: (.*)$", self.text, re.MULTILINE)
        assert found, self.text
        return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", found[1])}

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


class Machine:
    """One host of the scenario, asked over an ssh connection of the tests' own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.dir = folder
        self.name = name
        addresses = dict(line.split() for line in (folder / "addresses").read_text().splitlines())
        self.address = addresses[name]
        control = os.environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR", "/tmp")
        self.ssh = [
            "ssh", "-i", str(folder / "key"), "-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "BatchMode=yes",
            "-o", "ControlMaster=auto", "-o", f"ControlPath={control}/tests-%h", "-o", "ControlPersist=30",
            f"root@{self.address}",
        ]  # fmt: skip
        self.environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(folder / "inventory"),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def sh(self, command: str, check: bool = True, given: str = "") -> str:
        """Standard output of a shell command on the host; ``given`` is its standard input."""
        done = subprocess.run([*self.ssh, command], input=given.encode(), capture_output=True, timeout=120)
        if check:
            assert done.returncode == 0, f"{command}: {done.stdout.decode()}{done.stderr.decode()}"
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def write(self, path: str, text: str) -> None:
        self.sh(f"cat > {shlex.quote(path)}", given=text)

    def show(self, unit: str, name: str) -> str:
        return self.sh(f"systemctl show -p {name} --value {unit}")

    # --- playbooks, as an operator runs them

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, timeout_s: float = 240, **environment: str) -> Ran:
        process = self.start(*command, **environment)
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            raise AssertionError(f"{command} did not end within {timeout_s:.0f} s:\n{text}") from None
        return Ran(process.returncode, text)

    def play(self, playbook: str, *arguments: str, **environment: str) -> Ran:
        return self.run("ansible-playbook", playbook, *arguments, **environment)

    # --- the field's deployment

    def pids(self) -> dict[str, str]:
        return {name: self.show(unit, "MainPID") for name, unit in UNITS.items()}

    def running_knob(self) -> str | None:
        """What the decode's process really has."""
        pid = self.show(UNITS["decode"], "MainPID")
        for entry in self.sh(f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines():
            if entry.startswith(f"{KNOB}="):
                return entry.partition("=")[2]
        return None

    def serves(self) -> bool:
        body = json.dumps({"model": "dsv4", "prompt": "hello", "max_tokens": 4})
        asked = f"curl -s -m 20 -o /dev/null -w '%{{http_code}}' -H 'Content-Type: application/json' -d {shlex.quote(body)} http://127.0.0.1:8000/v1/completions"
        return self.sh(asked, check=False) == "200"

    def script(self, suffix: str = "") -> str:
        return self.sh(f"sha256sum < /root/serve_dsv4_decode.sh{suffix}")

    def changes(self) -> list[dict[str, Any]]:
        """Oldest first."""
        text = self.sh("for f in /var/lib/pdops/changes/2*.json; do cat $f; echo; echo ---; done", check=False)
        found = [json.loads(part) for part in text.split("\n---") if part.strip()]
        return sorted(found, key=lambda item: str(item["id"]))

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float = 90) -> Any:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                found = condition()
            except (ValueError, IndexError):  # half written, or not there yet
                found = None
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what} did not happen within {timeout_s:.0f} s; {json.dumps(self.changes(), indent=1)}")


@pytest.fixture(scope="session")
def gpu1() -> Machine:
    folder = os.environ.get("PDOPS_MOLECULE_DIR")
    if not folder or not (Path(folder) / "addresses").exists():
        pytest.skip("no hosts of a molecule scenario are up: run make molecule")
    return Machine(Path(folder), "gpu1")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The hosts of a scenario as the tests see them, and the field's deployment on one of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
FAULTS = "/opt/pdops-simulation/faults.json"
#: Where a deploy may have left something on a machine.
PLACES = "/opt/pdops /var/lib/pdops /root/serve_* /etc/systemd/system/sglang-* /etc/systemd/system/*/sglang-* /etc/systemd/system/*pdops*"
#: The guard waits for a step's time and a slack on top; the usual ones are a minute and more.
QUICK = ("-e", "change_step_budget_s=8", "-e", "change_lease_slack_s=2", "-e", "pd_load_timeout_s=14")


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    rc: int
    text: str

    @property
    def recap(self) -> dict[str, int]:
        return self.recap_of("dsv4")

    def recap_of(self, deployment: str) -> dict[str, int]:
        found = re.search(rf"^{deployment} +: (.*)$", self.text, re.MULTILINE)
        assert found, self.text
        return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", found[1])}

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def setting(value: str) -> tuple[str, ...]:
    """What set_knob.yml is given for the knob of the story on decode."""
    return ("-e", f"knob={KNOB}", "-e", f"value={value}", "-e", "instance=dsv4-decode")


class Machine:
    """One host of the scenario, asked over an ssh connection of the tests' own."""

    def __init__(self, folder: Path, name: str, deployment: str = "dsv4") -> None:
        self.dir = folder
        self.name = name
        self.units = {role: f"sglang-{deployment}-{role}" for role in ("prefill", "decode", "router")}
        addresses = dict(line.split() for line in (folder / "addresses").read_text().splitlines())
        self.address = addresses[name]
        control = os.environ.get("ANSIBLE_SSH_CONTROL_PATH_DIR", "/tmp")
        self.ssh = [
            "ssh", "-i", str(folder / "key"), "-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "BatchMode=yes",
            "-o", "ControlMaster=auto", "-o", f"ControlPath={control}/tests-%h", "-o", "ControlPersist=30",
            "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5",
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

    def bare(self) -> None:
        """As before the first deploy, so that tests can be repeated on a machine that stands."""
        self.sh(
            "systemctl disable --now --quiet 'sglang-*' 2>/dev/null; "
            f"rm -rf {PLACES}; systemctl daemon-reload; systemctl reset-failed",
            check=False,
        )

    @contextlib.contextmanager
    def full_disk(self, folder: str) -> Iterator[None]:
        """A disk with no room left in the place of a folder, with what the folder holds."""
        full = f"{folder}.full"
        self.sh(
            f"mkdir -p {full}; mount -t tmpfs -o size=2m none {full} && cp -a {folder}/. {full}/ && mount --bind {full} {folder} "
            f"&& {{ dd if=/dev/zero of={folder}/filler bs=4k status=none || true; }}"
        )
        try:
            yield
        finally:
            self.sh(f"umount {folder}; umount {full}; rmdir {full}")

    # --- the machine's power

    def power(self, *words: str, inside: tuple[str, ...] = ()) -> None:
        """A verb of podman on this host, or a command inside of it that needs no network."""
        summed = subprocess.run(["cksum"], input=f"{self.dir}\n", capture_output=True, text=True, check=True)
        environment = {**os.environ, "CONTAINERS_CONF": str(ROOT / "molecule/shared/containers.conf")}
        command = ["podman", *words, f"pdops-{summed.stdout.split()[0]}-{self.name}", *inside]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)

    @contextlib.contextmanager
    def dropping(self, *packets: str) -> Iterator[None]:
        """Packets that match one of these rules of iptables (a chain and what follows) are lost meanwhile."""
        done: list[str] = []
        try:
            for rule in packets:
                self.power("exec", inside=("iptables", "-I", *rule.split(), "-j", "DROP"))
                done.append(rule)
            yield
        finally:
            for rule in done:
                self.power("exec", inside=("iptables", "-D", *rule.split(), "-j", "DROP"))

    def booted(self) -> None:
        self.wait("ssh", lambda: self.sh("systemctl is-system-running --wait", check=False) == "running")

    def reboot(self) -> None:
        """systemd ends everything, and begins anew."""
        self.power("restart", "--time", "20")
        self.booted()

    def lose_power(self) -> None:
        self.power("kill", "--signal", "KILL")
        # The tests' own connection would wait for ever for a peer that is gone without a word.
        subprocess.run([*self.ssh[:-1], "-O", "exit", self.ssh[-1]], capture_output=True)

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
        return {name: self.show(unit, "MainPID") for name, unit in self.units.items()}

    def running_knob(self) -> str | None:
        """What the decode's process really has."""
        pid = self.show(self.units["decode"], "MainPID")
        for entry in self.sh(f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines():
            if entry.startswith(f"{KNOB}="):
                return entry.partition("=")[2]
        return None

    def serves(self, router: str = "http://127.0.0.1:8000") -> bool:
        body = json.dumps({"model": "dsv4", "prompt": "hello", "max_tokens": 4})
        asked = f"curl -s -m 20 -o /dev/null -w '%{{http_code}}' -H 'Content-Type: application/json' -d {shlex.quote(body)} {router}/v1/completions"
        return self.sh(asked, check=False) == "200"

    def script(self, suffix: str = "") -> str:
        return self.sh(f"sha256sum < /root/serve_dsv4_decode.sh{suffix}")

    def changes(self) -> list[dict[str, Any]]:
        """Oldest first."""
        text = self.sh("for f in /var/lib/pdops/changes/2*.json; do cat $f; echo; echo ---; done", check=False)
        found = [json.loads(part) for part in text.split("\n---") if part.strip()]
        return sorted(found, key=lambda item: str(item["id"]))

    def last_step(self) -> tuple[str, str]:
        """Step and instance that the newest change wrote last; ("", "") while there is none."""
        steps = self.changes()[-1]["steps"]
        return (steps[-1]["step"], steps[-1]["instance"]) if steps else ("", "")

    @contextlib.contextmanager
    def faults(self, role: str = "decode", **on: object) -> Iterator[None]:
        """Switches of the simulated engine of this role."""
        self.write(FAULTS, json.dumps({role: on}))
        try:
            yield
        finally:
            self.sh(f"rm -f {FAULTS}")

    def set_and_kill(self, value: str, when: Callable[[], Any]) -> dict[str, Any]:
        """Begin to set the knob, and kill the whole controller when ``when`` holds; the change, which is open."""
        known = len(self.changes())
        process = self.start("ansible-playbook", "set_knob.yml", *setting(value), *QUICK)
        came = False
        try:
            came = self.wait(
                "the moment to die", lambda: process.poll() is not None or (len(self.changes()) > known and when())
            )
        finally:
            ended = process.poll() is not None
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            assert came and not ended, f"the moment to die did not come:\n{text}"
        change = self.changes()[-1]
        assert len(self.changes()) == known + 1 and change["state"] == "open", text
        return change

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
        raise AssertionError(f"{what} did not happen within {timeout_s:.0f} s; {json.dumps(self.changes()[-1:])}")

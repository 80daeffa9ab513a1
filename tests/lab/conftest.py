# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A lab per test file, and playbooks run as an operator runs them: as processes, from the root of the repo."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import faults
from lab.runner import ask, rpc

from ..process_tree import kill_tree, standing
from ..reaper import bound, bound_lab, lab_ended

ROOT = Path(__file__).resolve().parents[2]
KNOB = "SGLANG_SM120_MMA_TARGET_CTAS"
LINE = f"export {KNOB}=512   # A/B: +12.8% at C64, +5.7% at C96\n"
#: Nothing drains for long. Leases and load timeouts stay as they are: they are for a machine that is busy, as this one may be.
QUICK = ("-e", "pd_drain_s=3")


def leases(step_s: int) -> tuple[str, ...]:
    """Leases after which a guard comes within a test's patience; a step of a living controller has to be done within them."""
    return (
        *("-e", f"change_step_budget_s={step_s}", "-e", "change_lease_slack_s=2"),
        *("-e", f"pd_load_timeout_s={step_s + 4}", *QUICK),
    )


@dataclass(frozen=True)
class Ran:
    """A playbook that has ended; ``text`` without colors and with wrapped lines joined."""

    rc: int
    text: str

    @property
    def recap(self) -> dict[str, int]:
        found = re.search(r"^lab +: (.*)$", self.text, re.MULTILINE)
        assert found, self.text
        return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", found[1])}

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


class Lab:
    """The lab of one test file."""

    def __init__(self, folder: Path) -> None:
        self.dir = folder
        self.inventory: str | None = None  # of a lab with other instances than one of each
        self.environment = {
            **os.environ,
            "PDOPS_LAB_DIR": str(folder),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_INVENTORY": str(ROOT / "inventory" / "lab"),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads((self.dir / "lab.json").read_text()))

    def lab(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lab", *arguments, "--dir", str(self.dir)],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if check:
            assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def story(self) -> None:
        """Fresh, in the story's state."""
        self.lab("up", "--story", "--load-time-s", "0.4", "--health-time-s", "0.2")

    def start(self, playbook: str, *arguments: str) -> subprocess.Popen[str]:
        return bound(
            subprocess.Popen(
                ["ansible-playbook", *(("-i", self.inventory) if self.inventory else ()), playbook, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )

    def fault(self, *words: str, role: str | None = None, clear: bool = False) -> None:
        """As ``python -m lab fault``, but at once: no process has to start before it is on."""
        faults.switch(self.told, role, words, clear)

    def play(self, playbook: str, *arguments: str, timeout_s: float = 600) -> Ran:
        process = self.start(playbook, *arguments)
        try:
            text, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            raise AssertionError(f"{playbook} did not end within {timeout_s:.0f} s:\n{text}") from None
        return Ran(process.returncode, text)

    @property
    def script(self) -> Path:
        return Path(self.told["instances"]["lab-decode"]["serve_script"])

    @property
    def backup(self) -> Path:
        return self.script.with_name(f"{self.script.name}.pretgt_revert_2025.bak")

    def pid(self, name: str) -> int:
        told = self.told
        info: Any = rpc(told).supervisor.getProcessInfo(told["instances"][name]["unit"])
        return int(info["pid"])

    def pids(self) -> dict[str, int]:
        return {name: self.pid(name) for name in self.told["instances"]}

    def running_knob(self, name: str = "lab-decode") -> str | None:
        """What the process really has, read by the test itself."""
        for entry in Path(f"/proc/{self.pid(name)}/environ").read_bytes().split(b"\0"):
            if entry.startswith(KNOB.encode() + b"="):
                return entry.partition(b"=")[2].decode()
        return None

    def serves(self) -> bool:
        return ask(self.told, "hello")[0] == 200

    def changes(self, machine: str = "") -> list[dict[str, Any]]:
        folder = self.dir / "state" / machine / "changes"
        found = [json.loads(path.read_text()) for path in folder.glob("[!.]*.json")] if folder.exists() else []
        return sorted(found, key=lambda item: item["id"])

    def entries(self) -> list[dict[str, Any]]:
        """Of the record, the oldest first, each with its id."""
        paths = sorted((self.dir / "evidence" / "lab").glob("*.json"))
        return [{**json.loads(path.read_text()), "id": path.stem.rpartition("-")[2]} for path in paths]

    def journal(self, *verbs: str, machine: str = "") -> list[dict[str, Any]]:
        """Lines of a machine's journal with one of the verbs."""
        text = (self.dir / "state" / machine / "journal.jsonl").read_text()
        return [row for row in map(json.loads, text.splitlines()) if row["verb"] in verbs]

    def expire(self, machine: str = "") -> None:
        """The newest change's time is over, as if its lease had been waited for: its guard acts."""
        change = self.changes(machine)[-1]
        path = self.dir / "state" / machine / "changes" / f"{change['id']}.json"

        def rewritten() -> bool:
            with self._locked((machine,)) as held:
                if not held:
                    return False
                record = json.loads(path.read_text())
                record["lease"]["deadline_s"] = 0
                new = path.with_name(f".{path.name}.of-the-test")
                new.write_text(json.dumps(record))
                new.chmod(0o600)
                new.replace(path)
                return True

        self.wait("that the lease can be rewritten", rewritten)

    @contextlib.contextmanager
    def _locked(self, machines: tuple[str, ...]) -> Iterator[bool]:
        """Whether all their stores, as far as there are any, are locked by this test now."""
        with contextlib.ExitStack() as stack:
            try:
                for machine in machines:
                    path = self.dir / "state" / machine / "lock"
                    if path.exists():
                        fcntl.flock(stack.enter_context(path.open("r+b")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except OSError:
                held = False
            yield held

    @contextlib.contextmanager
    def moment(
        self, process: subprocess.Popen[str], what: str, now: Callable[[], Any], *machines: str, timeout_s: float = 600
    ) -> Iterator[bool]:
        """Wait for a moment of a run, and hold the stores' locks in it: no step is noted, so none is taken, while this is held.

        False when the run has ended, or passed it by before the test came to look.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ended = process.poll() is not None
            if self._holds(now):  # looked at without the lock first, which the run waits for 10 s at most
                with self._locked(machines or ("",)) as held:
                    if held and self._holds(now):
                        yield True
                        return
            if ended:
                yield False
                return
            assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:.0f} s"
            time.sleep(0.02)

    def kill_at(
        self, process: subprocess.Popen[str], what: str, now: Callable[[], Any], *machines: str
    ) -> tuple[bool, str]:
        """Kill a whole controller at a moment of its run; whether it came to that, and what was printed."""
        with self.moment(process, what, now, *machines) as reached:
            if reached:
                return True, kill_tree(process)
        return False, process.communicate()[0]

    @contextlib.contextmanager
    def standing_at(
        self, process: subprocess.Popen[str], what: str, now: Callable[[], Any], *machines: str
    ) -> Iterator[None]:
        """The controller lives and holds no lock, and does nothing meanwhile."""
        with contextlib.ExitStack() as stack:
            with self.moment(process, what, now, *machines) as reached:
                assert reached, f"the run ended before {what} was seen:\n{process.communicate()[0]}"
                stack.enter_context(standing(process))
            yield

    @staticmethod
    def _holds(condition: Callable[[], Any]) -> Any:
        with contextlib.suppress(ValueError, FileNotFoundError, ProcessLookupError, IndexError):
            return condition()
        return None

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float = 300) -> Any:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self._holds(condition)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(
            f"{what} did not happen within {timeout_s:.0f} s; changes: {json.dumps(self.changes(), indent=1)}"
        )


#: Files that take a minute or more begin first, so that no worker is left alone with one at the end.
LONGEST = (
    "test_rolling.py",
    "test_five_machines.py",
    "test_deploy_kernels.py",
    "test_interrupted.py",
    "test_runbooks.py",
    "test_recover.py",
    "test_secrets.py",
    "test_restore.py",
    "test_story_record.py",
    "test_machines.py",
    "test_rollback.py",
    "test_decode_only.py",
    "test_gates.py",
    "test_installed.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    bound_lab(made.dir)
    try:
        yield made
    finally:
        made.lab("down", check=False)
        lab_ended(made.dir)


@pytest.fixture
def story(module_lab: Lab) -> Lab:
    """The lab, fresh in the story's state for this test."""
    module_lab.story()
    return module_lab

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The whole mission once more, from a bare machine to a restored knob, with the report of each step. Tests run in this order."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ...html_page import Page
from ...kernel_wheel import RAISES_IN_ENGINE, make_wheel
from ..field import KNOB, Machine, Ran

KERNELS = "/opt/pdops/kernels"
DECODE = ("-e", f"knob={KNOB}", "-e", "role=decode")
WITHOUT = r"policy auto: 1 rows x 16 heads in \d+ splits; no fallback"
WITH = r"policy target: 1 rows x 16 heads in 20 splits; no fallback"


@dataclass(frozen=True)
class State:
    """All that a step could alter on the machine."""

    scripts: str
    pids: tuple[str, ...]
    left: str
    changes: int


class Mission:
    """The machine, and the operator's folder with wheels of kernels, reports and record."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.wheels = machine.dir / "kernels"
        for made in ("kernels", "reports", "evidence", "inventory.intended"):
            if (machine.dir / made).exists():
                shutil.rmtree(machine.dir / made)
        machine.bare()
        self.first = make_wheel(self.wheels)
        #: The page of each step, by the id of its change.
        self.pages: dict[str, str] = {}

    def step(self, playbook: str, *arguments: str, outcome: str = "confirmed") -> Ran:
        """A step that ends as it should, and leaves a page that is whole in itself and tells of this change."""
        ran = self.machine.play(playbook, *arguments)
        assert ran.rc == (0 if outcome == "confirmed" else 2), ran.text
        change = self.machine.changes()[-1]
        assert change["state"] == outcome, ran.text
        path = Path(re.findall(r"^report: (.+\.html)$", ran.text, re.MULTILINE)[-1])
        source = path.read_text()
        page = Page(source)
        page.assert_whole()
        assert change["id"] in path.name and change["id"] in page.text
        assert change["summary"] in page.text and "Engines are simulated" in page.text
        assert (path.parent / "latest.html").read_text() == source
        assert change["id"] not in self.pages, "a step of its own"
        self.pages[change["id"]] = page.text
        return ran

    def kernels(self, wheel: Path, *arguments: str) -> tuple[str, ...]:
        """What deploy_kernels.yml is given."""
        return ("deploy_kernels.yml", "-e", f"kernel_wheel={wheel}", *arguments)

    def state(self) -> State:
        machine = self.machine
        return State(
            machine.sh("sha256sum /root/serve_* /etc/systemd/system/sglang-*.service"),
            tuple(machine.pids().values()),
            machine.sh(f"ls -A {KERNELS} /opt/pdops/cache/dsv4-decode /opt/pdops/run/kernels 2>&1", check=False),
            len(machine.changes()),
        )

    def running_path(self) -> str:
        pid = self.machine.show(self.machine.units["decode"], "MainPID")
        return self.machine.sh(f"tr '\\0' '\\n' < /proc/{pid}/environ | sed -n 's/^PYTHONPATH=//p'")

    def entries(self) -> list[dict[str, Any]]:
        """Of the record, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.machine.dir / "evidence/dsv4").glob("*.json"))]


@pytest.fixture(scope="module")
def mission(gpu12: Machine) -> Mission:
    return Mission(gpu12)


def test_deploy_from_a_bare_machine(mission: Mission) -> None:
    ran = mission.step("deploy.yml")
    assert mission.machine.serves() and mission.machine.running_knob() is None, ran.text
    assert mission.running_path() == ""


def test_kernels_are_deployed_and_serve(mission: Mission) -> None:
    ran = mission.step(*mission.kernels(mission.first))
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITHOUT}", ran.words), ran.text
    (page,) = list(mission.pages.values())[1:]
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITHOUT}", page)
    (folder,) = mission.machine.sh(f"ls {KERNELS}").split()
    assert folder.startswith("0.1.0-") and mission.running_path() == f"{KERNELS}/{folder}"
    assert mission.machine.serves()


def test_again_changes_nothing_and_a_deploy_leaves_the_kernels(mission: Mission) -> None:
    before = mission.state()
    for command, words in (
        (mission.kernels(mission.first), "nothing to deploy: decode has pdops_kernels 0.1.0"),
        (("deploy.yml",), "nothing to deploy"),
    ):
        ran = mission.machine.play(*command)
        assert ran.rc == 0 and ran.recap["changed"] == 0 and words in ran.words, ran.text
    assert mission.state() == before


@pytest.mark.parametrize(
    ("wheel", "given", "words"),
    [
        ({}, ("-e", f"kernel_sha256={'0' * 64}"), "so it is not the wheel that was meant"),
        (
            {"version": "0.9.1", "requires_python": ">=3.12"},
            (),
            "is Python 3.11.2, and pdops_kernels 0.9.1 needs >=3.12; nothing was changed",
        ),
        (
            {"version": "0.9.2", "edit": {"pdops_kernels/plan.py": "raise ValueError('no plan')\n"}},
            (),
            "the kernels failed their self-test, check import: importing it as SGLang does ended with ValueError: no plan; "
            "no script and no process was touched",
        ),
    ],
    ids=["another wheel than was meant", "a newer Python is needed", "fails its self-test"],
)
def test_a_bad_wheel_leaves_everything_as_it_was(
    mission: Mission, wheel: dict[str, Any], given: tuple[str, ...], words: str
) -> None:
    before = mission.state()
    ran = mission.machine.play(*mission.kernels(make_wheel(mission.wheels / "bad", **wheel), *given))
    assert ran.rc == 2 and words in ran.words, ran.text
    assert mission.state() == before and mission.machine.serves()


def test_a_full_disk_leaves_everything_as_it_was(mission: Mission) -> None:
    wheel = make_wheel(mission.wheels, "0.9.3")
    before = mission.state()
    with mission.machine.full_disk(KERNELS):
        ran = mission.machine.play(*mission.kernels(wheel))
        assert "/.pdops-half" not in mission.machine.sh(f"find {KERNELS}"), "nothing half-installed is left"
        assert mission.machine.sh(f"ls {KERNELS} | grep -c 0.9.3", check=False) == "0"
    assert ran.rc == 2 and f"{KERNELS}/0.9.3-" in ran.words, ran.text
    assert "could not be installed: no space is left" in ran.words
    assert "nothing of it is there, and nothing else was touched" in ran.words
    assert mission.state() == before and mission.machine.serves()


def test_what_sglang_swallows_is_seen_and_rolled_back(mission: Mission) -> None:
    """It holds in the self-test and raises in the engine, which serves its stock kernel then, and answers requests."""
    wheel = make_wheel(mission.wheels / "bad", "0.2.0", RAISES_IN_ENGINE)
    before, path = mission.state(), mission.running_path()
    ran = mission.step(*mission.kernels(wheel), "-e", "scope=decode", outcome="rolled-back")
    assert "gate kernels failed" in ran.words and "the stock kernel serves: no process wrote a record" in ran.words
    assert "the old state is back" in ran.words, ran.text
    assert "the stock kernel serves: no process wrote a record" in list(mission.pages.values())[-1]
    after = mission.state()
    assert after.scripts == before.scripts and ".pdops-half" not in after.left
    assert mission.running_path() == path and mission.machine.serves()


def test_upgrade_and_back(mission: Mission) -> None:
    before, path = mission.state().scripts, mission.running_path()
    better = make_wheel(mission.wheels, "0.3.0", {"pdops_kernels/plots.py": "# other plots\n"})
    ran = mission.step(*mission.kernels(better), "-e", "scope=decode")
    assert f"against {Path(path).name}" in ran.words and "~ pdops_kernels/plots.py" in ran.words, ran.text
    assert f"{KERNELS}/0.3.0-" in mission.running_path() and mission.machine.serves()
    ran = mission.step("rollback.yml")
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITHOUT}", ran.words), ran.text
    assert mission.state().scripts == before and mission.running_path() == path and mission.machine.serves()


def test_the_knob_is_set(mission: Mission) -> None:
    ran = mission.step("set_knob.yml", *DECODE, "-e", "value=512")
    assert mission.machine.running_knob() == "512"
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITH}", ran.words), ran.text
    measured = ("-e", f"knob={KNOB}", "-e", "load=C64", "-e", "effect=+12.8", "-e", "interval=10.9..14.7")
    ran = mission.machine.play("record.yml", "-e", "kind=measure", *measured)
    assert ran.rc == 0 and f"{KNOB}: 512 on dsv4-decode; verdict adopted" in ran.words, ran.text


def test_it_is_reverted_with_a_reason(mission: Mission) -> None:
    ran = mission.step("revert_knob.yml", *DECODE, "-e", "reason=suspicion", "-e", "scope=decode")
    assert mission.machine.running_knob() is None
    assert "costs: forgoing +12.8 % [+10.9, +14.7] at C64 (simulation); review by " in ran.words, ran.text
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITHOUT}", ran.words), "the kernels stay"
    assert "suspicion" in list(mission.pages.values())[-1]


def test_it_is_restored(mission: Mission) -> None:
    path = mission.running_path()
    ran = mission.step("restore_knob.yml", *DECODE)
    assert mission.machine.running_knob() == "512" and mission.running_path() == path
    assert re.search(f"0.1.0 serving \\(simulation\\), {WITH}", ran.words), ran.text


def test_all_of_it_serves_after_a_reboot(mission: Mission) -> None:
    mission.machine.reboot()
    verified = mission.machine.play("verify.yml")
    assert verified.rc == 0 and mission.machine.serves(), verified.text
    ran = mission.machine.play("status.yml")
    assert ran.rc == 0, ran.text
    assert re.search(f"kernels: 0.1.0 serving \\(simulation\\), {WITH}", ran.words), ran.text
    assert mission.machine.running_knob() == "512"


def test_the_record_tells_the_mission(mission: Mission) -> None:
    doc = mission.machine.dir / "reports" / "PERF.md"
    doc.write_text(f"# Decode\n\n<!-- pdops:begin knob knob={KNOB} -->\n<!-- pdops:end -->\n")
    ran = mission.machine.play(
        "record.yml", "-e", "kind=exonerate", "-e", f"knob={KNOB}", "-e", "cause=proxy",
        "-e", f"docs={doc}", "-e", "render=true", "-e", "show=fold",
    )  # fmt: skip
    assert ran.rc == 0, ran.text
    assert f"{KNOB}: 512 on dsv4-decode; verdict adopted, exonerated (proxy)" in ran.words, ran.text
    assert "adopted, exonerated (proxy)" in doc.read_text()
    entries = mission.entries()
    told = [(entry["verb"], entry.get("outcome", "confirmed")) for entry in entries if "verb" in entry]
    assert list(dict.fromkeys(told)) == [
        ("deploy", "confirmed"),
        ("kernels", "confirmed"),
        ("kernels", "rolled-back"),
        ("rollback", "undone"),
        ("set", "confirmed"),
        ("revert", "confirmed"),
        ("restore", "confirmed"),
    ]
    assert {entry.get("change_id") for entry in entries if "verb" in entry} == set(mission.pages)
    measured = next(entry for entry in entries if entry["kind"] == "measure")
    assert measured["fingerprint"]["decode pdops-kernels"].startswith("0.1.0-")
    assert "unverified" not in ran.words, "the same kernels serve after all of it"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""What may go wrong with the wheels of a deploy and the environment that is made of them, and with the folder of the record."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from module_utils.serving.wheel_set import read_wheels
from tests.unit.serving.test_wheels import wheel

from ..process_tree import kill_tree
from .conftest import ROOT
from .deploy_site import Site, bare, disk, nothing_written, site  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.lab, pytest.mark.long]

WHEELS = """\
all:
  children:
    prefill: &engines
      vars: {pd_python: null, pd_wheels: FOLDER/wheels, pd_base_python: BASE}
    decode: *engines
"""
LAST = "tiny-1.0-py3-none-any.whl"


class WithWheels(Site):
    """Both engines run from an environment of wheels; one of them brings what this very Python can import."""

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*super().arguments, "-i", str(self.folder / "wheels.yml"))

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def bare(self) -> None:
        super().bare()
        if (self.folder / "wheels").exists():
            shutil.rmtree(self.folder / "wheels")
        base = os.path.realpath(sys.executable)
        (self.folder / "wheels.yml").write_text(WHEELS.replace("FOLDER", str(self.folder)).replace("BASE", base))
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        wheel(self.folder / "wheels", "bridge", also={"bridge.pth": f"{packages}\n{ROOT}\n"})
        wheel(self.folder / "wheels", "many", also={f"many_{number}.py": "x = 1\n" for number in range(1500)})
        wheel(self.folder / "wheels")

    def steps(self) -> list[str]:
        return [row["step"] for row in self.lab.journal("serve_machine")]


#: What the fixture ``site`` makes.
SITE = WithWheels


def test_killed_while_wheels_are_carried_and_while_pip_runs(bare: WithWheels) -> None:
    for phase, begun in (("carried", "wheels/*/*.whl"), ("pip", "venv-*/lib/python*/site-packages/many_*")):
        process = bare.lab.start("deploy.yml", *bare.arguments)
        bare.lab.wait(phase, lambda begun=begun: any(bare.root.glob(begun)))
        kill_tree(process)  # with all that it runs on the machine, which goes on by itself otherwise
        assert nothing_written(bare) and not list(bare.root.glob("venv-*/pdops.json"))
    assert bare.steps() == ["begin", "begin"], "that both died is what the journal knows"
    ran = bare.deploy()
    assert ran.rc == 0 and "make anew (it is incomplete" in " ".join(bare.lab.journal("serve_machine")[-1]["tasks"]), (
        ran.text
    )
    assert bare.lab.serves() and bare.steps()[2:] == ["begin", "done"]
    assert {path.name for path in bare.root.iterdir() if path.name != ".pdops-venv.lock"} == {
        "run", "cache", "wheels", next(bare.root.glob("venv-*")).name,
    }  # fmt: skip
    assert os.listdir(bare.root / "wheels") == []
    again = bare.deploy()
    assert again.rc == 0 and again.recap["changed"] == 0 and len(bare.steps()) == 4, again.text


@pytest.mark.parametrize("room", ["size=6m", "nr_inodes=800"])
def test_a_disk_that_is_full_in_the_environment(bare: WithWheels, room: str) -> None:
    key = read_wheels(str(bare.folder / "wheels"), None, "d").key
    with disk(bare.root / f"venv-{key}", room):
        ran = bare.deploy()
        assert ran.rc == 2 and "No space left on device" in ran.words, ran.text
        assert "what serves was not touched, free space there and run again." in ran.words
        assert nothing_written(bare) and os.listdir(bare.root / f"venv-{key}") == []
    assert bare.steps() == ["begin", "failed"]


@pytest.mark.parametrize(
    "change", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes() + b"more")]
)
def test_wheels_that_change_between_the_plan_and_their_transport(
    bare: WithWheels, change: Callable[[Path], None]
) -> None:
    process = bare.lab.start("deploy.yml", *bare.arguments)
    with bare.lab.standing_at(process, "the beginning", lambda: bare.lab.journal("serve_machine")):
        change(bare.folder / "wheels" / LAST)
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2 and nothing_written(bare), text
    assert f"wheels/{LAST} was changed or taken away on the controller while this run was at work" in words, text
    assert bare.steps() == ["begin", "failed"]


def test_a_record_that_cannot_be_written_holds_nothing_up_and_is_written_by_the_next_run(bare: WithWheels) -> None:
    evidence = bare.lab.dir / "evidence"
    if evidence.exists():
        shutil.rmtree(evidence)
    with disk(evidence, "ro"):
        ran = bare.deploy()
        assert ran.rc == 0 and bare.lab.serves(), ran.text
        assert (
            f"the record was not written: the folder of the record {evidence}/lab could not be made: its file"
            in ran.words
        )
    assert bare.lab.entries() == []
    ran = bare.deploy()
    assert ran.rc == 0 and ran.recap["changed"] == 0 and bare.lab.entries(), ran.text
    assert {entry["change_id"] for entry in bare.lab.entries()} == {bare.lab.changes()[-1]["id"]}

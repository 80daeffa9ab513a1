# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The readers of unit files and environment files against what real systemd 252 and 257 made of the same files.

The answers were recorded by record_on_systemd.py on Debian 12 (252.39-1~deb12u2) and Debian 13 (257.13-1~deb13u1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.dropins import dropins_of
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.env_file import read_env_file
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.systemd_environment import (
    Machine,
    environment_of,
)

HERE = Path(__file__).parent
CASES = json.loads((HERE / "cases.json").read_text())
VERSIONS = (252, 257)
RECORDED = {version: json.loads((HERE / f"recorded_systemd_{version}.json").read_text()) for version in VERSIONS}
#: What systemd gives to every unit, and the manager's environment that the recorder had set.
OF_EVERY_UNIT = ("LANG", "PATH", "USER", "LOGNAME", "HOME", "SHELL")
OF_THE_MANAGER = ("PDOPS_MANAGER", "PDOPS_OVER", "PDOPS_QUOTED")


class Replayed(Machine):
    """The files of a case in a folder of the test, and systemctl as it answered."""

    def __init__(self, root: Path, version: int, case: dict[str, Any], recorded: dict[str, Any]) -> None:
        self.root = root
        self.version = version
        self.recorded = recorded
        for path, text in case["files"].items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode("utf-8", "surrogateescape"))
        (root / "run/pdops-record").mkdir(parents=True, exist_ok=True)

    def systemctl(self, *words: str) -> bytes:
        if words[0] == "show-environment":
            text = RECORDED[self.version]["show-environment"]
        elif words[0] == "--version":
            text = RECORDED[self.version]["systemd"] + "\n"
        else:
            text = self.recorded["show"]
        return str(text).encode("utf-8", "surrogateescape")

    def read(self, path: str) -> bytes:
        return (self.root / path.lstrip("/")).read_bytes()

    def matches(self, pattern: str) -> list[str]:
        found = super().matches(f"{self.root}{pattern}")
        return ["/" + str(Path(path).relative_to(self.root)) for path in found]

    def manager_environ(self) -> dict[str, str]:
        return {"container": "podman", "PATH": "of PID 1"}


def of_the_unit(environ: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in OF_EVERY_UNIT}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(CASES["files"]))
def test_an_environment_file_is_read_as_systemd_read_it(version: int, name: str) -> None:
    read = read_env_file(CASES["files"][name].encode("utf-8", "surrogateescape"), version)
    environ = RECORDED[version][f"file {name}"]["environ"]
    if environ is None:
        assert read.error
        return
    assert not read.error
    assert {item.name: item.value for item in read.assigned} == {
        key: value for key, value in environ.items() if key not in (*OF_EVERY_UNIT, *OF_THE_MANAGER)
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(CASES["units"]))
def test_a_unit_gets_what_systemd_gave_it(version: int, name: str, tmp_path: Path) -> None:
    case, recorded = CASES["units"][name], RECORDED[version][f"unit {name}"]
    machine = Replayed(tmp_path, version, case, recorded)
    found = environment_of(case["unit"], machine)
    if recorded["environ"] is None:
        assert any("does not start" in note for note in found.notes), found.notes
        return
    assert of_the_unit(dict(found.values)) == of_the_unit(recorded["environ"])
    assert found.complete
    assert not any("daemon-reload" in note for note in found.notes)
    # Every value of a unit file is found in that file, on a line that holds its name.
    for place in found.places:
        if place.kind in ("unit", "drop-in", "environment-file"):
            assert place.path and place.line, place
            lines = machine.read(place.path).decode("utf-8", "surrogateescape").split("\n")
            assert place.name in lines[place.line - 1], place
            assert place.state != "pending"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(CASES["units"]))
def test_drop_ins_are_found_in_the_order_in_which_systemd_read_them(version: int, name: str, tmp_path: Path) -> None:
    case, recorded = CASES["units"][name], RECORDED[version][f"unit {name}"]
    Replayed(tmp_path, version, case, recorded)
    (shown,) = (line for line in recorded["show"].split("\n") if line.startswith("DropInPaths="))
    found = [path[len(str(tmp_path)) :] for path in dropins_of(case["unit"], root=str(tmp_path))]
    assert found == shown.partition("=")[2].split()

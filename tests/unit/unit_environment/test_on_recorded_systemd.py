# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The readers of unit files and environment files against what real systemd 252 and 257 made of the same files.

The answers were recorded by record_on_systemd.py on Debian 12 (252.39-1~deb12u2) and Debian 13 (257.13-1~deb13u1).
Those called generated are some of 300 random ones, on all of which the readers agreed with both versions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.dropins import dropins_of
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.env_file import read_env_file
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.places import UnitEnvironment
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

    def dropins(self, unit: str) -> list[str]:
        return [path[len(str(self.root)) :] for path in dropins_of(unit, root=str(self.root))]

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
    assert found.command == "/usr/bin/env -0"
    assert not any("daemon-reload" in note for note in found.notes)
    # Every value of a unit file is found in that file, on a line that holds its name.
    for place in found.places:
        if place.kind in ("unit", "drop-in", "environment-file"):
            assert place.path and place.line, place
            lines = machine.read(place.path).decode("utf-8", "surrogateescape").split("\n")
            # A name may be written in escapes too.
            assert place.name in lines[place.line - 1] or "\\" in lines[place.line - 1], place
            assert place.state != "pending"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(CASES["units"]))
def test_drop_ins_are_found_in_the_order_in_which_systemd_read_them(version: int, name: str, tmp_path: Path) -> None:
    case, recorded = CASES["units"][name], RECORDED[version][f"unit {name}"]
    machine = Replayed(tmp_path, version, case, recorded)
    (shown,) = (line for line in recorded["show"].split("\n") if line.startswith("DropInPaths="))
    assert machine.dropins(case["unit"]) == shown.partition("=")[2].split()


class Locked(Replayed):
    """Environment files that only root may read, to another user."""

    def read(self, path: str) -> bytes:
        if path.startswith("/run/pdops-record/"):
            raise PermissionError(13, "Permission denied", path)
        return super().read(path)


def locked(name: str, root: Path) -> UnitEnvironment:
    case = CASES["units"][name]
    return environment_of(case["unit"], Locked(root, 257, case, RECORDED[257][f"unit {name}"]))


def test_a_file_that_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    found = locked("file over environment", tmp_path)
    assert not found.complete
    assert found.files == {"/run/pdops-record/x.env": "not readable"}
    assert "not readable (Permission denied)" in found.unread[0]
    # The file may set B too: nothing that comes before it is sure, though its place is known.
    assert not {"A", "B"} & set(found.values)
    place = found.winner("B")
    assert place is not None
    assert (place.value, place.state) == ("unit", "doubted")


def test_what_comes_after_a_file_that_cannot_be_read_is_sure(tmp_path: Path) -> None:
    found = locked("unset beats file", tmp_path)
    assert found.taken_off == {"A"}
    assert "A" not in found.values


def test_what_waits_for_a_daemon_reload_is_named_and_does_not_count(tmp_path: Path) -> None:
    case, recorded = CASES["units"]["drop-ins in order"], dict(RECORDED[257]["unit drop-ins in order"])
    recorded["show"] = recorded["show"].replace("NeedDaemonReload=no", "NeedDaemonReload=yes")
    machine = Replayed(tmp_path, 257, case, recorded)
    folder = tmp_path / "etc/systemd/system/pdops-record.service.d"
    (folder / "60-new.conf").write_text("[Service]\nEnvironment=A=new NEW=1\n")
    (folder / "50-b.conf").write_text("[Service]\n\nEnvironment=A=edited\n")
    found = environment_of(case["unit"], machine)
    assert found.values["A"] == "etc50"  # what systemd has loaded; no file holds it any more
    assert "NEW" not in found.values
    winner = found.winner("A")
    assert winner is not None
    assert (winner.path, winner.told) == (None, "systemd's reading of the unit")
    pending = {(place.name, place.value, place.path, place.line) for place in found.places if place.state == "pending"}
    edited, new = (f"/etc/systemd/system/pdops-record.service.d/{name}.conf" for name in ("50-b", "60-new"))
    assert pending == {("A", "edited", edited, 3), ("A", "new", new, 2), ("NEW", "1", new, 2)}
    assert any("daemon-reload" in note and new in note for note in found.notes)

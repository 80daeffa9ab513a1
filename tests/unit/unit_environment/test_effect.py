# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What becomes of a knob that a unit and a serve script both know; bash itself is the judge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.effect import Effect, running_remark
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.places import (
    Layers,
    Place,
    UnitEnvironment,
)

KNOB = "SGLANG_LOG_MS"
END = "exec python3 -m sglang.launch_server\n"


def given(values: dict[str, str], unread: tuple[str, ...] = ()) -> UnitEnvironment:
    layers = Layers()
    for name, value in values.items():
        layers.add(Place(name, value, "unit", "/etc/systemd/system/decode.service", 7))
    return UnitEnvironment(layers.places, layers.values(), unread)


def run(script: str, values: dict[str, str], folder: Path) -> str | None:
    """The knob as the engine gets it: python3 is a program that shows its environment."""
    (folder / "python3").write_text("#!/bin/sh\nexec /usr/bin/env -0\n")
    (folder / "python3").chmod(0o755)
    (folder / "serve.sh").write_text(script)
    environ = {"PATH": f"{folder}:/usr/bin:/bin", **values}
    done = subprocess.run(["bash", str(folder / "serve.sh")], env=environ, capture_output=True, check=True)
    found = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if "=" in entry)
    return found.get(KNOB)


#: Script, what the unit gives, who decides, and the codes of the remarks.
CASES = {
    "the script alone": (f"export {KNOB}=1\n", {}, "script", []),
    "the unit alone": ("", {KNOB: "2"}, "unit", []),
    "nobody": ("", {}, "nowhere", []),
    "the script wins": (f"export {KNOB}=1\n", {KNOB: "2"}, "script", ["shadowed"]),
    "the default lets the unit win": (f"export {KNOB}=${{{KNOB}:-1}}\n", {KNOB: "2"}, "script", ["from-unit"]),
    "the default without the unit": (f"export {KNOB}=${{{KNOB}:-1}}\n", {}, "script", []),
    "the default of an empty value": (f"export {KNOB}=${{{KNOB}:-1}}\n", {KNOB: ""}, "script", ["with-unit"]),
    "the default of an unset name only": (f"export {KNOB}=${{{KNOB}-1}}\n", {KNOB: ""}, "script", ["from-unit"]),
    "assigned by default": (f": ${{{KNOB}:=1}}\nexport {KNOB}\n", {KNOB: "2"}, "unit", []),
    "added to": (f"export {KNOB}=${KNOB},x\n", {KNOB: "2"}, "script", ["with-unit"]),
    "another name's value": (f"export {KNOB}=${{MS:-1}}\n", {"MS": "3"}, "script", []),
    "taken off": (f"unset {KNOB}\n", {KNOB: "2"}, "nowhere", ["taken-off"]),
    "assigned without export": (f"{KNOB}=5\n", {KNOB: "2"}, "script", ["shadowed"]),
    "overridden in the script": (f"export {KNOB}=1\nexport {KNOB}=3\n", {KNOB: "2"}, "script", ["shadowed", "overridden"]),
    "commented out": (f"#export {KNOB}=1\n", {KNOB: "2"}, "unit", ["commented"]),
    "a value with blanks and quotes": (f"export {KNOB}=${{{KNOB}:-1}}\n", {KNOB: "a 'b' \"c\" $d `e` \\"}, "script", ["from-unit"]),
    "a value with a line end": (f"export {KNOB}=${{{KNOB}:-1}}\n", {KNOB: "a\nb"}, "script", ["from-unit"]),
    "in front of the engine": (f"export {KNOB}=1\n", {KNOB: "2"}, "script", ["shadowed"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_bash_agrees(name: str, tmp_path: Path) -> None:
    script, values, decided, codes = CASES[name]
    script = "#!/bin/bash\n" + script + END
    knob = Effect(script.encode(), given(values)).knob(KNOB, "/srv/serve.sh")
    assert knob.value == run(script, values, tmp_path)
    assert (knob.decided, [code for code, _said in knob.remarks]) == (decided, codes)


def test_lines_are_those_of_the_script() -> None:
    script = f"#!/bin/bash\nexport A=1\nexport {KNOB}=${{{KNOB}:-1}}\n{END}".encode()
    knob = Effect(script, given({KNOB: "2", "Z": "1", "A": "0"})).knob(KNOB, "/srv/serve.sh")
    assert knob.place == "/srv/serve.sh:3"
    assert knob.remarks == (("from-unit", "the script takes the value of /etc/systemd/system/decode.service:7"),)


def test_a_condition_is_left_to_the_run() -> None:
    script = f"#!/bin/bash\nif [ -e /x ]; then\n  export {KNOB}=1\nfi\n{END}".encode()
    knob = Effect(script, given({KNOB: "2"})).knob(KNOB, "/srv/serve.sh")
    assert (knob.value, knob.decided, knob.place) == (None, "run", "/srv/serve.sh:3")
    assert "conditional" in dict(knob.remarks)


def test_an_unread_file_leaves_open_what_it_may_set() -> None:
    unread = ("/etc/x.env is not readable (Permission denied); it may set any knob",)
    for script, value, decided in (
        (f"export {KNOB}=1\n", "1", "script"),
        (f"export {KNOB}=${{{KNOB}:-1}}\n", None, "run"),
        ("", None, "run"),
    ):
        knob = Effect((script + END).encode(), given({}, unread)).knob(KNOB, "/srv/serve.sh")
        assert (knob.value, knob.decided) == (value, decided), script
        assert ("not-readable" in dict(knob.remarks)) is (decided == "run")


def test_which_knobs_are_shown() -> None:
    environment = given({"FROM_UNIT": "1", "PATH": "/bin", "LC_ALL": "C"})
    inherited = Place("HOME_OF_ALL", "1", "manager")
    environment = UnitEnvironment((*environment.places, inherited), {**environment.values, "HOME_OF_ALL": "1"})
    script = f"export {KNOB}=1\n# export OLD=1\nif x; then export MAYBE=1; fi\n{END}export DEAD=1\n"
    assert Effect(script.encode(), environment).names() == sorted(["FROM_UNIT", KNOB, "OLD", "MAYBE", "DEAD"])


@pytest.mark.parametrize(
    ("value", "seen", "code"),
    [
        ("1", {"state": "set", "value": "1", "evidence": ""}, None),
        ("1", {"state": "set", "value": "2", "evidence": ""}, "stale"),
        ("1", {"state": "absent", "value": None, "evidence": ""}, "stale"),
        ("1", {"state": "unknown", "value": None, "evidence": "no process"}, "not-observable"),
        ("1", {"state": "set", "value": "1", "evidence": "", "engine_changed_it_to": "9"}, "engine-changed"),
        (None, {"state": "set", "value": "2", "evidence": ""}, "stale"),
        (None, {"state": "absent", "value": None, "evidence": ""}, None),
    ],
)
def test_what_the_process_has(value: str | None, seen: dict[str, str | None], code: str | None) -> None:
    script = (f"export {KNOB}={value}\n" if value else "") + END
    remark = running_remark(Effect(script.encode(), given({})).knob(KNOB, "/srv/serve.sh"), seen)
    assert (remark[0] if remark else None) == code

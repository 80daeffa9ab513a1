# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""status.yml against the lab: where each knob comes from, what runs, and nothing touched."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from lab.runner import rpc

from .conftest import KNOB, Lab, Ran

pytestmark = pytest.mark.lab

SECRETS = ("hf_neverShownAnywhere", "token-of-the-program")
UNIT = "sglang-dsv4-decode"
# Lines for the decode's script: the unit has the say over the first, and loses the second.
LINES = f"""\
export SGLANG_LOG_MS=${{SGLANG_LOG_MS:-7}}
export SGLANG_CACHE_DIR={{cache}}
export HF_TOKEN={SECRETS[0]}
# export SGLANG_WAS_HERE=1
if [ -e /nonexistent ]; then export SGLANG_MAYBE=1; fi
"""
PROGRAM = f'environment=SGLANG_LOG_MS="3",SGLANG_CACHE_DIR=/elsewhere,SGLANG_OF_UNIT=1,API_TOKEN={SECRETS[1]}\n'


def tree(folder: Path) -> dict[str, str]:
    """Everything of the lab that status could have changed."""
    kept = [*folder.glob("serve/*"), *folder.glob("state/**/*"), folder / "supervisord.conf"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept if path.is_file()}


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """Decode runs with an environment of its program and knobs of all kinds in its script."""
    module_lab.story()
    config = module_lab.dir / "supervisord.conf"
    text = config.read_text()
    config.write_text(text.replace(f"[program:{UNIT}]\n", f"[program:{UNIT}]\n{PROGRAM}"))
    script = module_lab.script.read_text()
    found = re.search(r"SGLANG_CACHE_DIR=(\S+)", script)
    assert found
    module_lab.script.write_text(script.replace("\nexec ", "\n" + LINES.replace("{cache}", found[1]) + "exec ", 1))
    supervisor = rpc(module_lab.told).supervisor
    supervisor.stopProcess(UNIT)
    supervisor.reloadConfig()
    supervisor.removeProcessGroup(UNIT)
    supervisor.addProcessGroup(UNIT)
    supervisor.startProcess(UNIT)
    module_lab.wait("decode", module_lab.serves)
    return module_lab


def knob_lines(ran: Ran, name: str) -> list[str]:
    """The row of a knob and the remarks below it."""
    rows = [re.sub(r"^ *\[lab\] {1,3}", "", line) for line in ran.text.split("\n") if re.match(r" *\[lab\]", line)]
    start = next(index for index, row in enumerate(rows) if row.split()[:1] == [name])
    end = next(index for index in range(start + 1, len(rows) + 1) if index == len(rows) or rows[index][:1] != " ")
    return [" ".join(row.split()) for row in rows[start:end]]


def test_every_place_is_told_and_nothing_is_touched(lab: Lab) -> None:
    before, pids = tree(lab.dir), lab.pids()
    ran = lab.play("status.yml", "-l", "lab-decode", "-vvvv")
    assert ran.rc == 0, ran.text
    script = lab.script.read_text().split("\n")
    line = {
        name: script.index(text) + 1
        for name, text in (("default", LINES.split("\n")[0]), ("was", "# export SGLANG_WAS_HERE=1"))
    }
    config = str(lab.dir / "supervisord.conf")
    at = Path(config).read_text().split("\n").index(PROGRAM.strip()) + 1
    assert knob_lines(ran, "SGLANG_LOG_MS") == [
        f"SGLANG_LOG_MS =3 line {line['default']} in effect",
        f"the script takes the value of {config}:{at}",
    ]
    assert knob_lines(ran, "SGLANG_OF_UNIT") == [f"SGLANG_OF_UNIT =1 {config}:{at} in effect"]
    assert f"{config}:{at} sets it too, but the script wins" in knob_lines(ran, "SGLANG_CACHE_DIR")
    assert knob_lines(ran, "SGLANG_WAS_HERE")[1] == f"commented out in line {line['was']}"
    assert "exported under a condition in line" in " ".join(knob_lines(ran, "SGLANG_MAYBE"))
    assert knob_lines(ran, "HF_TOKEN")[0].startswith("HF_TOKEN =********")
    assert knob_lines(ran, "API_TOKEN")[0].startswith("API_TOKEN =********")
    assert re.search(rf"lab-decode \(decode\): {UNIT} is active, pid {lab.pid('lab-decode')} for ", ran.text)
    assert "no version stored yet" in ran.text
    assert "lab-prefill (prefill)" not in ran.text
    for secret in SECRETS:
        assert secret not in ran.text
    assert "changed=0" in ran.text
    assert (tree(lab.dir), lab.pids()) == (before, pids)


def test_one_knob_with_its_past_and_what_the_process_has(lab: Lab) -> None:
    ran = lab.play("status.yml", "--check", "-e", f"knob={KNOB}", "-e", "role=decode")
    assert ran.rc == 0, ran.text
    assert knob_lines(ran, KNOB) == [
        f"{KNOB} not set running: not set",
        f"backup {lab.backup.name} has =512",
    ]
    before = lab.script.read_text()
    try:
        lab.script.write_text(before.replace("\nexec ", f"\nexport {KNOB}=512\nexec ", 1))
        lines = knob_lines(lab.play("status.yml", "-e", f"knob={KNOB}", "-e", "instance=lab-decode"), KNOB)
    finally:
        lab.script.write_text(before)
    assert lines[0].startswith(f"{KNOB} =512 line ")
    assert lines[0].endswith("running: not set")
    assert lines[1] == "the process runs without it"


def test_what_is_down_or_unreadable_is_said_beside_the_rest(lab: Lab) -> None:
    supervisor = rpc(lab.told).supervisor
    supervisor.stopProcess(UNIT)
    script = Path(lab.told["instances"]["lab-router"]["serve_script"])
    away = script.with_name("away")
    script.rename(away)
    try:
        ran = lab.play("status.yml")
    finally:
        away.rename(script)
        supervisor.startProcess(UNIT)
    assert ran.rc == 0, ran.text
    assert re.search(rf"{UNIT} is inactive, no process \(", ran.text)
    assert f"{script} does not exist" in ran.words
    assert "lab-prefill (prefill): sglang-dsv4-prefill is active" in ran.text

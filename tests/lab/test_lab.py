# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The lab's own verbs: what an operator types, right and wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import faults, ports, processes
from lab.__main__ import main
from lab.folder import LabError, short_folder
from lab.runner import rpc
from lab.shape import Shape

from .conftest import ROOT, Lab

pytestmark = pytest.mark.lab
QUICK = ("--load-time-s", "0.3", "--health-time-s", "0.1")
UNITS = {member.name: member.unit for member in Shape().members}


def run(lab: Lab, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "lab", *words],
        cwd=ROOT,
        env=lab.environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def running(module_lab: Lab) -> Iterator[Lab]:
    """Up, for tests that leave it whole."""
    module_lab.lab("up", *QUICK)
    yield module_lab


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


def up_alone(lab: Lab) -> subprocess.Popen[str]:
    """So slow that it is at work until somebody ends it."""
    return subprocess.Popen(
        [sys.executable, "-m", "lab", "up", "--load-time-s", "300"],
        cwd=ROOT,
        env=lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


# --- up and down


def test_what_is_down_is_started_and_an_orphan_is_one(running: Lab) -> None:
    code, said = run(running, "orphan", "decode")
    assert code == 1 and "is taken: stop the decode first" in said
    told = running.told
    prefill, script = running.pid("lab-prefill"), running.script
    secret = "export SGLANG_ADMIN_API_KEY=never-shown HF_TOKEN=nor-this UCX_LOG_LEVEL=warn\n"
    script.write_text(script.read_text().replace("exec ", secret + "exec ", 1))
    rpc(told).supervisor.stopProcess(UNITS["lab-decode"])
    assert run(running, "env", "decode")[0] == 1
    code, said = run(running, "orphan", "decode")
    assert code == 0, said
    orphan = int(said.split()[2])
    url = told["instances"]["lab-decode"]["url"]
    assert processes.listens(orphan, int(url.rpartition(":")[2]))
    assert get(url + "/health") == b"" and json.loads(get(url + "/server_info"))["model_path"] == "/models/older"
    code, said = run(running, "up")
    assert code == 1 and f"is held by process {orphan}, which is not {UNITS['lab-decode']}" in said
    with contextlib.suppress(xmlrpc.client.Fault):  # it has given up already
        rpc(told).supervisor.stopProcess(UNITS["lab-decode"])
    os.kill(orphan, signal.SIGTERM)
    code, said = run(running, "up")
    assert code == 0 and f"but for {UNITS['lab-decode']}: starting what is down" in said
    assert running.pid("lab-prefill") == prefill and running.serves()
    already = f"lab: is up already in {running.dir}, at {told['instances']['lab-router']['url']}\n"
    assert run(running, "up") == (0, already)
    code, said = run(running, "env", "decode")
    assert code == 0 and "UCX_LOG_LEVEL=warn\n" in said and "SGLANG_ADMIN_API_KEY=********\n" in said
    assert "never-shown" not in said and "nor-this" not in said and "PATH" not in said
    assert f"process {running.pid('lab-decode')} of" in said


def test_logs(running: Lab) -> None:
    assert "proxy:" in run(running, "logs", "proxy")[1]
    for name in ("prefill", "decode"):
        assert "ready to roll" in run(running, "logs", name, "-n", "1")[1]
        text = Path(running.told["instances"][f"lab-{name}"]["log"]).read_text()
        assert "simulation: no model" in text and "BadHttpMessage" not in text


def test_a_lab_that_comes_up_again_keeps_scripts_state_and_ports(running: Lab) -> None:
    before = running.told
    script = running.script
    edited = script.read_text().replace("FLASHMLA_BACKEND=triton", "FLASHMLA_BACKEND=edited")
    script.write_text(edited)
    kept = running.dir / "state" / "kept"
    kept.write_text("by pdops")
    assert run(running, "down")[0] == 0
    me = processes.identity(os.getpid())
    assert me is not None
    other = ports.claim(me)  # kept for the lab that is down
    ports.release(other)
    assert other != int(before["instances"]["lab-prefill"]["url"][-5:])
    code, said = run(running, "up", *QUICK)
    assert code == 0 and "goes on with the scripts and the state" in said
    assert running.told == before | {"supervisor_socket": running.told["supervisor_socket"]}
    assert script.read_text() == edited and kept.read_text() == "by pdops"
    assert "FLASHMLA_BACKEND=edited" in running.lab("env", "decode")
    # A supervisord that was killed: what it left is ended and everything starts again.
    mark = json.loads((running.dir / "processes.json").read_text())
    os.kill(mark["supervisord"][0], signal.SIGKILL)
    code, said = run(running, "status")
    assert code == 1 and "does not answer" in said and "lab up --dir" in said and said.count("\n") == 1
    # Its ports in other hands: nothing is touched. (The dead one's programs still listen, so they go first.)
    assert run(running, "down")[0] == 0
    ports.hand_over(mark["first_port"], me)
    code, said = run(running, "up", *QUICK)
    assert code == 1 and "--fresh" in said and f"belong to process {os.getpid()}" in said
    code, said = run(running, "up", "--fresh", *QUICK)
    assert code == 0 and running.script.read_text() != edited and not kept.exists()
    assert running.told["instances"]["lab-prefill"]["url"] != before["instances"]["lab-prefill"]["url"]
    ports.release(mark["first_port"])


def test_one_up_at_a_time_and_down_ends_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "fresh")
    lab.environment["TMPDIR"] = str(tmp_path / ("long" * 30))  # a socket's path may have 107 bytes
    Path(lab.environment["TMPDIR"]).mkdir()
    first = up_alone(lab)
    try:
        lab.wait("the lock", (lab.dir / "lock").read_text)
        code, said = run(lab, "up")
        assert code == 1 and f"another `up` (process {first.pid}) is at work" in said and said.count("\n") == 1
        lab.wait("the supervisord", (lab.dir / "lab.json").exists)
        socket = lab.told["supervisor_socket"]
        assert socket.startswith("/tmp/pdops-lab-") and stat.S_IMODE(os.stat(os.path.dirname(socket)).st_mode) == 0o700
        for room in ("", "serve", "logs", "work", "cache", "state"):
            assert stat.S_IMODE((lab.dir / room).stat().st_mode) == 0o700
        code, said = run(lab, "down")
        assert code == 0 and f"process {first.pid}" in said
        assert first.wait(120) == 143 and not os.path.exists(os.path.dirname(socket))
        assert not processes.own([str(lab.dir / "work")], [])
    finally:
        if first.poll() is None:
            first.kill()
        run(lab, "down")
        first.communicate()


def test_short_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = short_folder()
    try:
        assert (os.path.dirname(made) == str(tmp_path)) == (len(str(tmp_path)) < 65)
    finally:
        os.rmdir(made)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    made = short_folder()
    os.rmdir(made)
    assert made.startswith("/tmp/")


# --- wrong input


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["up", "--load-time-s", "abc"], 2, "a number of seconds from 0 to 600, not 'abc'"),
        (["up", "--load-time-s", "nan"], 2, "a number of seconds from 0 to 600, not 'nan'"),
        (["up", "--health-time-s", "-1"], 2, "a number of seconds from 0 to 600, not '-1'"),
        (["agent", "--rounds", "0"], 2, "a whole number from 1, not '0'"),
        (["logs", "decode", "-n", "x"], 2, "a whole number from 1, not 'x'"),
        (["logs", "decode"], 1, "no lab is up in"),
        (["up", "--dir", "FILE"], 1, "is a file, and a lab needs a folder"),
        (["down", "--dir", "FILE/below"], 1, "is a file, and a lab needs a folder"),
        (["status", "--dir", "FILE"], 1, "is a file, and a lab needs a folder"),
        (["up", "--prefills", "3", "--decodes", "3"], 1, "12 ports are needed and a lab has 10: take fewer instances"),
        (["up", "--machines", "4"], 1, "4 machines for 3 instances: take fewer"),
        (["up", "--name", "A b"], 1, "take small letters, digits and dashes, a letter first"),
    ],
)
def test_wrong_words(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # in this process
    file, none = tmp_path / "file", tmp_path / "none"
    file.write_text("")
    words = [word.replace("FILE", str(file)) for word in words]
    try:
        found = main(words if "--dir" in words else [*words, "--dir", str(none)])
    except SystemExit as ended:
        found = int(ended.code or 0)
    assert found == code and sentence in capsys.readouterr().err.splitlines()[-1]
    assert not none.exists() and file.read_text() == ""


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine")
    code, said = run(Lab(tmp_path), "up")
    assert code == 1 and "not empty and not a lab's" in said and os.listdir(tmp_path) == ["letter"]


# --- faults


def switch(file: Path, *words: str, role: str | None = None, clear: bool = False) -> Any:
    faults.switch({"faults_file": str(file)}, role, words, clear)
    return json.loads(file.read_text())


def test_several_faults_and_one_cleared(tmp_path: Path) -> None:
    file = tmp_path / "faults.json"
    assert switch(file, "page_size=64", "wedge", "slow_load", "1.5") == {
        "decode": {"page_size": 64, "wedge": True, "slow_load": 1.5}
    }
    assert switch(file, "wedge_after=0")["proxy"] == {"wedge_after": 0}
    assert switch(file, "refuse_start_with", "A=b=c", role="prefill")["prefill"] == {"refuse_start_with": {"A": "b=c"}}
    assert switch(file, "wedge", "refuse_start_with", clear=True) == {
        "decode": {"page_size": 64, "slow_load": 1.5},
        "proxy": {"wedge_after": 0},
    }
    assert switch(file, role="proxy", clear=True) == {"decode": {"page_size": 64, "slow_load": 1.5}}
    assert switch(file, clear=True) == {}


@pytest.mark.parametrize(
    ("words", "role", "sentence"),
    [
        (["page_size=0"], None, "needs a whole number from 1, not '0'"),
        (["page_size"], None, "needs a whole number from 1, not ''"),
        (["slow_load=-1"], None, "from 0 to 600, not '-1'"),
        (["slow_load=nan"], None, "from 0 to 600, not 'nan'"),
        (["slow_load", "wedge"], None, "from 0 to 600, not ''"),
        (["wedge=1"], None, "takes no value"),
        (["wedge", "no_such"], None, "there is no fault 'no_such'"),
        (["wedge_after=1"], "decode", "is for --role proxy"),
        (["refuse_start_with=A"], None, "needs NAME=VALUE"),
    ],
)
def test_wrong_faults_switch_nothing(tmp_path: Path, words: list[str], role: str | None, sentence: str) -> None:
    file = tmp_path / "faults.json"
    file.write_text("{}")
    with pytest.raises(LabError, match=sentence):
        switch(file, *words, role=role)
    assert file.read_text() == "{}"

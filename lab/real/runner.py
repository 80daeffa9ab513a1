# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Starts and ends the real pair behind the real router."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from supervisor.xmlrpc import SupervisorTransport

from . import files, ports, processes

ROOT = Path(__file__).resolve().parents[2]
REAL_PYTHON = ROOT / ".cache" / "real-venv" / "bin" / "python"
MODEL = ROOT / ".cache" / "real-model"
MARK = "processes.json"  # in the folder of a lab: it is ours to write over, and what it started
WRITTEN = ("serve", "logs", "work", "cache", "state", "supervisord.conf", "supervisord.pid", "lab.json", MARK)
DRAIN_S = 15.0


Lab = dict[str, Any]


class LabError(Exception):
    """One sentence: what, where, what to do."""


def say(text: str) -> None:
    print(f"real lab: {text}", flush=True)


# --- what is there


def read_mark(folder: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return None
    except ValueError:
        raise LabError(f"{folder}/{MARK} is damaged: remove the folder once nothing of it runs") from None


def is_up(mark: dict[str, Any]) -> bool:
    return mark["supervisord"] is not None and processes.alive(processes.Identity(*mark["supervisord"]))


def read_lab(folder: str) -> Lab:
    with open(os.path.join(folder, "lab.json"), encoding="utf-8") as file:
        return dict(json.load(file))


def get(url: str, timeout_s: float = 5.0, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    """Status and body; (0, why) when there is no answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        if body is None:
            connection.request("GET", parts.path)
        else:
            connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error).encode()
    finally:
        connection.close()


def ask(lab: Lab, text: str, timeout_s: float = 60.0) -> tuple[int, bytes]:
    """One completion through the router."""
    question = {
        "model": lab["model"],
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 8,
        "temperature": 0,
    }
    return get(lab["instances"]["lab-router"]["url"] + "/v1/chat/completions", timeout_s, question)


# --- up


def make_model() -> str:
    if not (MODEL / "config.json").exists():
        say("writing the tiny model (once)")
        made = subprocess.run(
            [str(REAL_PYTHON), str(Path(__file__).with_name("make_model.py")), str(MODEL)],
            check=False,
            capture_output=True,
            text=True,
        )
        if made.returncode != 0:
            raise LabError(f"the model could not be made in {MODEL}:\n{made.stderr.strip()}")
    return str(MODEL)


def empty(folder: str) -> None:
    """A fresh folder for a lab; only what a lab wrote is removed."""
    if os.path.exists(folder) and os.listdir(folder) and not os.path.exists(os.path.join(folder, MARK)):
        raise LabError(f"{folder} is not empty and not a lab's: name another folder with --dir")
    os.makedirs(folder, exist_ok=True)
    for name in WRITTEN:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def write_mark(layout: files.Layout, supervisord: processes.Identity | None) -> None:
    data = {"supervisord": supervisord, "short": layout.short, "first_port": layout.first_port}
    files.write(layout.at(MARK), json.dumps(data) + "\n")


def up(folder: str) -> Lab:
    """Returns when a completion through the router came back. LabError, and nothing runs, if not."""
    folder = os.path.realpath(folder)
    mark = read_mark(folder)
    if mark is not None and is_up(mark):
        say(f"{folder} is up; starting what is down")
        return serve(folder)
    if not REAL_PYTHON.exists():
        raise LabError(f"{REAL_PYTHON.parents[1]} is not there; make test-real makes it (2.7 GB)")
    if mark is not None:
        down(folder)
    model = make_model()
    empty(folder)
    me = processes.identity(os.getpid())
    assert me is not None
    try:
        first = ports.claim(me)
    except ports.NoPorts as error:
        raise LabError(str(error)) from None
    layout = files.Layout(
        folder=folder,
        short=tempfile.mkdtemp(prefix="pdops-real-"),
        first_port=first,
        python=str(REAL_PYTHON),
        router_python=sys.executable,
        model=model,
        shims=str(Path(__file__).with_name("shims")),
        libraries=str(REAL_PYTHON.parents[1] / "libraries"),
    )
    try:
        write_mark(layout, None)
        files.write_all(layout)
        supervisord = start_supervisord(layout)
        write_mark(layout, supervisord)
        ports.hand_over(first, supervisord)
        files.write_lab_json(layout, "lab")
        return serve(folder)
    except BaseException:
        down(folder)
        raise


def start_supervisord(layout: files.Layout) -> processes.Identity:
    """In a session of its own, with an environment that holds nothing of this shell's SGLang or Python."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    with open(layout.at("logs", "supervisord.out"), "w") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", layout.config],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=layout.work,
            start_new_session=True,
        )
    found = processes.identity(child.pid)
    deadline = time.monotonic() + 15
    while found is not None and child.poll() is None and time.monotonic() < deadline:
        if os.path.exists(layout.socket):
            return found
        time.sleep(0.05)
    raise LabError(f"supervisord did not start: {Path(layout.at('logs', 'supervisord.out')).read_text().strip()}")


def rpc(lab: Lab) -> xmlrpc.client.ServerProxy:
    transport = SupervisorTransport(None, None, "unix://" + lab["supervisor_socket"])
    return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)


def serve(folder: str) -> Lab:
    """Start what is down, prefill and decode together, and wait until all three serve."""
    lab = read_lab(folder)
    instances = lab["instances"]
    begin = time.monotonic()
    for name in ("lab-prefill", "lab-decode"):
        start(lab, name)
    for name in ("lab-prefill", "lab-decode"):
        wait(lab, name, begin, lambda url: get(url + "/health")[0] == 200)
    start(lab, "lab-router")
    wait(lab, "lab-router", begin, lambda url: get(url + "/readiness")[0] == 200)
    wait(lab, "lab-router", begin, lambda _url: ask(lab, "hello")[0] == 200, "answers")
    say(f"{folder} serves at {instances['lab-router']['url']} after {time.monotonic() - begin:.0f} s")
    return lab


def start(lab: Lab, name: str) -> None:
    unit = lab["instances"][name]["unit"]
    try:
        rpc(lab).supervisor.startProcess(unit, False)
    except xmlrpc.client.Fault as fault:
        if "ALREADY_STARTED" not in fault.faultString:
            raise LabError(f"supervisord did not start {unit}: {fault.faultString}") from None


def wait(lab: Lab, name: str, begin: float, good: Callable[[str], bool], word: str = "is up") -> None:
    instance = lab["instances"][name]
    told = time.monotonic()
    while True:
        if good(instance["url"]):
            say(f"{name} {word} after {time.monotonic() - begin:.1f} s")
            return
        found: Any = rpc(lab).supervisor.getProcessInfo(instance["unit"])
        state = found["statename"]
        spent = time.monotonic() - begin
        if state in ("EXITED", "FATAL", "STOPPED") or spent > lab["load_timeout_s"]:
            tail = "\n".join(Path(instance["log"]).read_text(errors="replace").splitlines()[-30:])
            raise LabError(f"{name} ({state}) does not serve after {spent:.0f} s; the end of its log:\n{tail}")
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"{spent:.0f} s of at most {lab['load_timeout_s']}: waiting for {name}")
        time.sleep(0.25)


# --- down


def down(folder: str) -> None:
    """End everything that runs for this lab, the guards of its changes included, and prove it."""
    folder = os.path.realpath(folder)
    mark = read_mark(folder)
    if mark is None:
        say(f"no lab in {folder}")
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "lab.json"))
    work, state = os.path.join(folder, "work"), os.path.join(folder, "state")
    # supervisord first and by itself: it ends its programs in order, and would start what dies under it.
    supervisord = [processes.Identity(*mark["supervisord"])] if mark["supervisord"] is not None else []
    guards = processes.own([], [state])
    left = processes.end(guards + supervisord, DRAIN_S)
    ended = len(guards + supervisord)
    # Then what has lost its parent: a killed engine's children, programs of a supervisord that was killed.
    for _ in range(3):
        found = processes.own([work], [state])
        if not found:
            break
        ended += len(found)
        left = processes.end(found, 5.0)
    if left:
        raise LabError(f"processes {', '.join(str(one.pid) for one in left)} of {folder} did not end after SIGKILL")
    ports.release(mark["first_port"])
    shutil.rmtree(mark["short"], ignore_errors=True)
    mark["supervisord"] = None
    files.write(os.path.join(folder, MARK), json.dumps(mark) + "\n")
    say(f"{folder} is down, nothing of it runs" if ended else f"{folder} was down already")

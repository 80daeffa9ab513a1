# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Starts and ends a lab: supervisord with prefill, decode, router and, for the simulation, a client-side proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from supervisor.xmlrpc import SupervisorTransport

from . import layout as files
from . import ports, processes
from .folder import (
    LOCK,
    MARK,
    Lab,
    LabError,
    check_folder,
    claim_folder,
    empty,
    end_other_up,
    is_up,
    locked,
    read_lab,
    read_mark,
    router_url,
    say,
    short_folder,
)

__all__ = [
    "ROOT", "Lab", "LabError", "ask", "check_folder", "down", "get", "info", "is_up", "read_lab", "read_mark", "router_url",
    "rpc", "say", "serve", "tail", "up",
]  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]
DRAIN_S = 15.0
_STOPPED = ("EXITED", "FATAL", "STOPPED")


def get(url: str, timeout_s: float = 5.0, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
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


def ask(lab: Lab, text: str, timeout_s: float = 60.0, tokens: int = 8) -> tuple[int, bytes]:
    """One completion through the router."""
    question = {
        "model": lab["model"],
        "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens,
        "temperature": 0,
    }
    return get(router_url(lab) + "/v1/chat/completions", timeout_s, question)


# --- up


def write_mark(layout: files.Layout, supervisord: processes.Identity | None) -> None:
    data = {
        "supervisord": supervisord,
        "short": layout.short,
        "first_port": layout.first_port,
        "engine": layout.engine,
        "shape": layout.shape.as_dict(),
    }
    files.write(layout.at(MARK), json.dumps(data) + "\n")


def up(
    folder: str,
    make: Callable[[str, str, int], files.Layout],
    scripts: Callable[[files.Layout], Mapping[str, str]],
    with_proxy: bool,
    fresh: bool = True,
) -> Lab:
    """Start a lab and return when a completion through its router came back.

    ``make(folder, short, first_port)`` gives the layout. ``fresh``: with new scripts and an empty state; otherwise
    what runs goes on, and what a lab that is down had (scripts, state, ports) is kept.
    LabError if it does not serve. Nothing runs then, unless it ran before.
    """
    folder = os.path.realpath(folder)
    claim_folder(folder)
    with locked(folder, "up"):
        mark = read_mark(folder)
        if mark is not None and is_up(mark) and not fresh:
            start_rest(read_lab(folder))
            return read_lab(folder)
        if mark is not None:
            _down(folder, mark)
        again = mark is not None and not fresh and os.path.isdir(os.path.join(folder, "serve"))
        if not again:
            empty(folder)
        layout = make(folder, short_folder(), _ports(folder, mark if again else None))
        try:
            if again and mark is not None and mark.get("engine", layout.engine) != layout.engine:
                raise LabError(
                    f"{folder} holds a lab of {mark['engine']} engines: --fresh starts anew, --dir names another"
                )
            if again and mark is not None and mark.get("shape", layout.shape.as_dict()) != layout.shape.as_dict():
                raise LabError(f"{folder} holds a lab of another shape: --fresh starts anew, --dir names another")
            write_mark(layout, None)
            files.write_files(layout, scripts(layout), with_proxy)
            supervisord = start_supervisord(layout)
            write_mark(layout, supervisord)
            ports.hand_over(layout.first_port, supervisord, folder)
            files.write_lab_json(layout, with_proxy)
            if again:
                say(f"goes on with the scripts and the state in {folder} (--fresh starts anew)")
            serve(folder)
        except BaseException:
            shutil.rmtree(layout.short, ignore_errors=True)
            found = read_mark(folder)
            if found is not None:
                _down(folder, found)
            raise
    return read_lab(folder)


def _ports(folder: str, mark: Mapping[str, Any] | None) -> int:
    """The block of the lab that was here (mark), whose scripts name its ports, or a new one."""
    me = processes.identity(os.getpid())
    if me is None:
        raise LabError("/proc is not mounted, so processes cannot be told apart")
    try:
        if mark is None:
            return ports.claim(me, folder)
        ports.claim_again(mark["first_port"], me, folder)
    except ports.NoPorts as error:
        if mark is None:
            raise LabError(str(error)) from None
        raise LabError(
            f"{error}, and the scripts in {folder}/serve name them: end what has them, or start anew with --fresh"
        ) from None
    return int(mark["first_port"])


def start_supervisord(layout: files.Layout) -> processes.Identity:
    """In a session of its own, with an environment that holds nothing of this shell's SGLang or Python."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment.update(layout.settings)
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


def info(lab: Lab, unit: str) -> dict[str, Any]:
    """What supervisord says of a unit."""
    try:
        found: Any = rpc(lab).supervisor.getProcessInfo(unit)
    except (OSError, http.client.HTTPException) as error:
        raise _dead(lab, error) from None
    return dict(found)


def _dead(lab: Lab, error: Exception) -> LabError:
    return LabError(
        f"supervisord of {lab['dir']} does not answer ({error}): start it again with python -m lab up --dir {lab['dir']}"
    )


def _units(lab: Lab) -> list[str]:
    units = [instance["unit"] for instance in lab["instances"].values()]
    return [*units, lab["proxy"]["unit"]] if "proxy" in lab else units


def start_rest(lab: Lab) -> None:
    """A lab that is up: start what is down, leave the rest as it is, and say which."""
    down = [unit for unit in _units(lab) if info(lab, unit)["statename"] != "RUNNING"]
    router = router_url(lab)
    if not down:
        say(f"is up already in {lab['dir']}, at {router}")
        return
    say(f"is up in {lab['dir']} but for {', '.join(down)}: starting what is down")
    serve(lab["dir"])


def serve(folder: str) -> None:
    """Start what is down, all together, and wait until a completion comes back through the router.

    The router waits for its workers by itself, so nothing is won by starting it after them.
    """
    lab = read_lab(folder)
    begin = time.monotonic()
    for unit in _units(lab):
        start(lab, unit)
    # A look at a flag, where /health would take a second each time; the completion at the end proves more than both.
    for name, instance in lab["instances"].items():
        ready = "/readiness" if instance["role"] == "router" else "/ready"
        wait(lab, name, begin, partial(_answers, ready))
    router = next(name for name, instance in lab["instances"].items() if instance["role"] == "router")
    engines = len(lab["instances"]) - 1
    if engines > 2:  # of a pair the answer says as much
        wait(lab, router, begin, lambda url: _workers(url) >= engines, "knows its workers")
    wait(lab, router, begin, lambda _url: ask(lab, "hello")[0] == 200, "answers")
    say(f"{lab['engine']} engines serve at {router_url(lab)} after {time.monotonic() - begin:.1f} s ({lab['dir']})")


def _answers(path: str, url: str) -> bool:
    return get(url + path)[0] == 200


def _workers(url: str) -> int:
    """How many a router calls healthy."""
    try:
        return int(json.loads(get(url + "/readiness")[1])["healthy_workers"])
    except (ValueError, KeyError, TypeError):
        return 0


def start(lab: Lab, unit: str) -> None:
    try:
        rpc(lab).supervisor.startProcess(unit, False)
    except xmlrpc.client.Fault as fault:
        if "ALREADY_STARTED" not in fault.faultString:
            raise LabError(f"supervisord did not start {unit}: {fault.faultString}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _dead(lab, error) from None


def tail(path: str, lines: int) -> list[str]:
    """The last lines of a log; none when it is not there."""
    try:
        return Path(path).read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []


def wait(lab: Lab, name: str, begin: float, good: Callable[[str], bool], word: str = "is up") -> None:
    """Until the unit's own process listens on its port and the answer is good. LabError with the end of its log."""
    instance = lab["instances"][name]
    port = urlsplit(instance["url"]).port or 0
    told = time.monotonic()
    while True:
        found = info(lab, instance["unit"])
        if found["pid"] and processes.listens(found["pid"], port) and good(instance["url"]):
            say(f"{name} {word} after {time.monotonic() - begin:.1f} s")
            return
        spent = time.monotonic() - begin
        # BACKOFF: it ended at once, and supervisord tries again. In vain, if somebody else has the port.
        stranger = processes.listener(port) if found["statename"] in (*_STOPPED, "BACKOFF") else None
        if stranger is not None:
            raise LabError(
                f"{name} cannot serve: port {port} is held by process {stranger}, which is not {instance['unit']}; "
                "end it first"
            )
        if found["statename"] in _STOPPED or spent > lab["load_timeout_s"]:
            end = "\n".join(tail(instance["log"], 30))
            raise LabError(
                f"{name} ({found['statename']}) does not serve after {spent:.0f} s; the end of its log:\n{end}"
            )
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"{spent:.0f} s of at most {lab['load_timeout_s']}: waiting for {name}")
        time.sleep(0.1)


# --- down


def down(folder: str) -> None:
    """End everything that runs for this lab, the guards of its changes included, and prove it.

    Scripts, state and ports are kept for the next `up`. An `up` that is at work is ended first.
    """
    folder = os.path.realpath(folder)
    check_folder(folder)
    if not os.path.exists(os.path.join(folder, LOCK)) and read_mark(folder) is None:
        say(f"no lab in {folder}")
        return
    end_other_up(folder)
    with locked(folder, "down", wait_s=60.0):
        mark = read_mark(folder)
        if mark is None:
            say(f"no lab in {folder}")
            return
        ended = _down(folder, mark)
    say(f"{folder} is down, nothing of it runs" if ended else f"{folder} was down already")


def _down(folder: str, mark: dict[str, Any]) -> int:
    """How many processes were ended."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "lab.json"))
    work, state = os.path.join(folder, "work"), os.path.join(folder, "state")
    states = [state, *(entry.path for entry in os.scandir(state) if entry.is_dir())] if os.path.isdir(state) else []
    # supervisord first and by itself: it ends its programs in order, and would start what dies under it.
    supervisord = [processes.Identity(*mark["supervisord"])] if mark["supervisord"] is not None else []
    guards = processes.own([], states)
    first = [one for one in (*guards, *supervisord) if processes.alive(one)]
    left = processes.end(first, DRAIN_S)
    ended = len(first)
    # Then what has lost its parent: a killed engine's children, programs of a supervisord that was killed.
    for _ in range(3):
        found = processes.own([work], states)
        if not found:
            break
        ended += len(found)
        left = processes.end(found, 5.0)
    if left:
        raise LabError(f"processes {', '.join(str(one.pid) for one in left)} of {folder} did not end after SIGKILL")
    ports.keep(mark["first_port"], folder)
    shutil.rmtree(mark["short"], ignore_errors=True)
    mark["supervisord"] = None
    files.write(os.path.join(folder, MARK), json.dumps(mark) + "\n")
    return ended

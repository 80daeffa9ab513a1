# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A probe that runs on while the controller looks at it now and then.

A kept connection cannot live over several calls of a module, so the probe is a process of its own. It
ends by itself: at the probe's own deadline, or when nobody has looked for a minute.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from typing import Any, Dict, List, Mapping, Optional

from ..pdops_error import PdopsError
from ..processes import ProcessId, is_alive, read_process
from .plan import Plan
from .probing import run

_PREFIX = "pdops-probe-"
_NAME = re.compile(re.escape(_PREFIX) + r"[A-Za-z0-9_]+\Z")
_LINES, _RESULT, _PID, _LOOKED, _TAKEN = "lines", "result.json", "pid", "looked", "taken"
_ALONE_S = 60.0
_TAKEN_S = 5.0  # the answer with the result may be lost with a connection
_MARGIN_S = 30.0
_TICK_S = 0.1


def _path(name: str, *parts: str) -> str:
    return os.path.join(tempfile.gettempdir(), name, *parts)


def _write(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def start(plan: Plan) -> str:
    """Start the probe in a process of its own; returns the name by which ``look`` finds it. Nothing of it holds a key."""
    _clear_dead()
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    name = os.path.basename(folder)
    for file in (_LINES, _LOOKED):
        open(os.path.join(folder, file), "w").close()
    child = os.fork()
    if child == 0:
        try:
            _detach()
            _work(plan, folder)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return name


def _clear_dead() -> None:
    """Remove what probes left that were killed while nobody looked at them any more; one that lives ends by itself then."""
    for name in os.listdir(tempfile.gettempdir()):
        try:
            folder = _owned(name)
            if time.time() - os.stat(os.path.join(folder, _LOOKED)).st_mtime > _ALONE_S and not _alive(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, PdopsError):
            continue


def _detach() -> None:
    """Twice forked, in a session of its own, with no file of the module: Ansible waits for its output to close."""
    os.setsid()
    os.chdir("/")
    if os.fork() > 0:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, 256)


def _work(plan: Plan, folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    me = read_process(os.getpid())
    _write(os.path.join(folder, _PID), f"{os.getpid()} {me.started_ticks if me is not None else 0}")
    begin = time.monotonic()
    threading.Thread(target=_end_alone, args=(folder, begin + plan.timeout_s + _MARGIN_S), daemon=True).start()

    def tell(line: str, good: bool) -> None:
        with open(os.path.join(folder, _LINES), "a", encoding="utf-8") as file:
            file.write(json.dumps([round(time.monotonic() - begin, 2), line, good]) + "\n")

    try:
        result: Dict[str, Any] = run(plan, tell)
    except PdopsError as error:
        result = {"error": str(error)}
    except Exception as error:  # the one who looks must hear of it
        result = {"error": f"the probe broke ({type(error).__name__}: {error})"}
    _write(os.path.join(folder, _RESULT), json.dumps(result))
    # Nobody may come for it.
    deadline = time.monotonic() + _ALONE_S
    while time.monotonic() < deadline:
        time.sleep(_TICK_S * 5)
        if os.path.exists(os.path.join(folder, _TAKEN)):
            deadline = min(deadline, time.monotonic() + _TAKEN_S)
    # Who came for the result may be taking the folder away too, and a probe that has its result has not failed.
    shutil.rmtree(folder, ignore_errors=True)


def _end_alone(folder: str, deadline: float) -> None:
    while True:
        time.sleep(1.0)
        try:
            alone = time.time() - os.stat(os.path.join(folder, _LOOKED)).st_mtime > _ALONE_S
        except OSError:
            alone = True
        if alone or time.monotonic() > deadline:
            # Whatever becomes of the folder, this process must end now: nobody waits for it any more.
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(1)


def _owned(name: str) -> str:
    """The folder; PdopsError for what is no folder of a probe of ours."""
    folder = _path(name)
    try:
        fine = bool(_NAME.match(name)) and os.lstat(folder).st_uid == os.getuid() and not os.path.islink(folder)
    except OSError:
        fine = False
    if not fine:
        raise PdopsError(f"the probe {name!r} is not there any more: its time was over, or its machine started anew")
    return folder


def _lines(folder: str, seen: int) -> List[Any]:
    with open(os.path.join(folder, _LINES), encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines()[seen:] if line.endswith("]")]


def _alive(folder: str) -> bool:
    try:
        with open(os.path.join(folder, _PID), encoding="ascii") as file:
            pid, ticks = file.read().split()
        return is_alive(ProcessId(int(pid), int(ticks)))
    except FileNotFoundError:
        return time.time() - os.stat(folder).st_mtime < 5  # it is just being made
    except (OSError, ValueError):
        return False


def look(given: Mapping[str, Any], slice_s: float) -> Dict[str, Any]:
    """New lines (``[[seconds, line, good news], ...]``) and, once it is there, the ``result``; waits at most ``slice_s`` for either."""
    name, seen = str(given.get("name", "")), int(given.get("seen", 0))
    deadline = time.monotonic() + slice_s
    folder = _owned(name)
    while True:
        os.utime(os.path.join(folder, _LOOKED))
        alive = _alive(folder)
        result: Optional[Any] = None
        if os.path.exists(os.path.join(folder, _RESULT)):
            with open(os.path.join(folder, _RESULT), encoding="utf-8") as file:
                result = json.load(file)
        lines = _lines(folder, seen)
        if result is not None:
            open(os.path.join(folder, _TAKEN), "w").close()
            return {"lines": lines, "seen": seen + len(lines), "result": result}
        if not alive:
            # The sentence below is what counts; a leftover of a killed process is private and small.
            shutil.rmtree(folder, ignore_errors=True)
            raise PdopsError("the probe's process is gone without a result: was it killed?")
        if lines or time.monotonic() >= deadline:
            return {"lines": lines, "seen": seen + len(lines), "result": None}
        time.sleep(_TICK_S)

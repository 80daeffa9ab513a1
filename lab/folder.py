# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The folder of a lab: whose it is, what was started for it (processes.json), and who is at work on it (lock)."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import processes

MARK = "processes.json"  # it is ours to write over, and what it started
LOCK = "lock"
WRITTEN = (
    "serve",
    "logs",
    "work",
    "cache",
    "state",
    "cut",
    "root",
    "intended",
    "evidence",
    "inventory.json",
    "faults.json",
    "supervisord.conf",
    "supervisord.pid",
    "lab.json",
    MARK,
)
Lab = dict[str, Any]
#: Of a socket's path the kernel takes 107 bytes, and supervisord binds it with its pid behind the name at first.
_SOCKET_BYTES, _LONGEST_NAME = 107, "/supervisor.sock.4194304"


class LabError(Exception):
    """One sentence: what, where, what to do."""


def say(text: str) -> None:
    print(f"lab: {text}", flush=True)


def check_folder(folder: str) -> None:
    """LabError when this cannot be, or become, the folder of a lab."""
    place = folder
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise LabError(f"{place} is a file, and a lab needs a folder: name another with --dir")


def read_mark(folder: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(folder, MARK), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return None
    except ValueError:
        raise LabError(f"{folder}/{MARK} is damaged: remove the folder once nothing of it runs") from None


def is_up(mark: Mapping[str, Any]) -> bool:
    return mark["supervisord"] is not None and processes.alive(processes.Identity(*mark["supervisord"]))


def read_lab(folder: str) -> Lab:
    folder = os.path.realpath(folder)
    try:
        with open(os.path.join(folder, "lab.json"), encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        raise LabError(f"no lab is up in {folder}; start it: python -m lab up --dir {folder}") from None
    except ValueError:
        raise LabError(f"{folder}/lab.json is damaged: python -m lab down --dir {folder}, then up") from None


def instance_name(lab: Mapping[str, Any], word: str) -> str:
    """The instance that a word means: its name, or what is behind the lab's name in it (decode, decode-2)."""
    for name in (word, f"{lab['name']}-{word}"):
        if name in lab["instances"]:
            return name
    raise LabError(f"this lab has no {word}; there are {', '.join(lab['instances'])}")


def router_url(lab: Mapping[str, Any]) -> str:
    return str(next(one["url"] for one in lab["instances"].values() if one["role"] == "router"))


def claim_folder(folder: str) -> None:
    """It is there and a lab's afterwards, or LabError. What is somebody else's is not touched."""
    check_folder(folder)
    if os.path.exists(folder):
        if set(os.listdir(folder)) - {LOCK} and not os.path.exists(os.path.join(folder, MARK)):
            raise LabError(f"{folder} is not empty and not a lab's: name another folder with --dir")
        if os.stat(folder).st_uid == os.getuid():
            os.chmod(folder, 0o700)
    else:
        os.makedirs(folder, mode=0o700)


def empty(folder: str) -> None:
    """Remove what a lab wrote, and nothing else."""
    for name in WRITTEN:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def short_folder() -> str:
    """A folder of our own (0700) for what needs a short path; in /tmp where TMPDIR is too long for a socket."""
    made = tempfile.mkdtemp(prefix="pdops-lab-")
    if len(os.fsencode(made + _LONGEST_NAME)) <= _SOCKET_BYTES:
        return made
    os.rmdir(made)
    return tempfile.mkdtemp(prefix="pdops-lab-", dir="/tmp")


# --- one at a time


def _holder(folder: str) -> tuple[processes.Identity, str] | None:
    """Who is at work on a folder, and at which verb."""
    try:
        with open(os.path.join(folder, LOCK), encoding="utf-8") as file:
            pid, ticks, verb = json.load(file)
    except (OSError, ValueError, TypeError):
        return None
    return processes.Identity(pid, ticks), str(verb)


@contextlib.contextmanager
def locked(folder: str, verb: str, wait_s: float = 0.0) -> Iterator[None]:
    """Only one command at a time changes a lab. The kernel frees the lock when its process ends, however it ends."""
    deadline = time.monotonic() + wait_s
    descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    with open(descriptor, "r+", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    other = _holder(folder)
                    who = f"another `{other[1]}` (process {other[0].pid})" if other else "another command"
                    raise LabError(
                        f"{who} is at work on {folder}: wait until it is done, or end it with `down`"
                    ) from None
                time.sleep(0.05)
        file.truncate(0)
        json.dump([*(processes.identity(os.getpid()) or (0, 0)), verb], file)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def end_other_up(folder: str) -> None:
    """Ask an `up` that is at work on this folder to end; it takes down what it started."""
    other = _holder(folder)
    if other is not None and other[1] == "up" and processes.alive(other[0]):
        say(f"ending the `up` that is at work on {folder} (process {other[0].pid})")
        processes.send(other[0], signal.SIGTERM)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A virtual environment from wheels that lie on the machine already; nothing is fetched from anywhere.

``wanted`` is a mapping: ``path`` of the environment, ``base_python`` that makes it, ``wheels`` (what
:meth:`.wheel_set.WheelSet.as_dict` gives), and ``source``, the folder on the machine where the wheels are.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..pdops_error import PdopsError
from ..store.atomic import write_private
from ..store.lock import locked
from ..store.obstacles import why_not_made

#: Written last: without it an environment is a half one.
MARK = "pdops.json"
#: Beside an environment, as long as it is a half one: what a run that was killed left, and nothing else, may be removed.
_HALF = ".pdops-half-"
#: Seconds. Wheels that a killed run had carried go when they are older; no other run carries for so long.
_ABANDONED_S = 86400.0
#: Seconds. An engine with its wheels of CUDA is many gigabytes to unpack.
_INSTALL_S = 3600.0


def missing(wanted: Mapping[str, Any]) -> str:
    """What is to be done, as half a sentence; '' when the environment is complete and its interpreter runs.

    :raises PdopsError: it could not be made on this machine
    """
    path, base = str(wanted["path"]), str(wanted["base_python"])
    wheels = wanted["wheels"]
    if os.path.exists(os.path.join(path, MARK)) and _runs(os.path.join(path, "bin", "python")):
        return ""
    if not _runs(base):
        raise PdopsError(f"{base} does not run on this machine; install python3, or correct pd_base_python.")
    if not _pip_wheel(wheels) and not _runs(base, "-m", "ensurepip", "--version"):
        raise PdopsError(
            f"{base} of this machine cannot make a virtual environment: install its Debian package (apt install python3-venv), "
            "or put a pip-*.whl into the folder pd_wheels."
        )
    against = why_not_made(os.path.join(path, MARK))
    if against:
        raise PdopsError(f"{path} could not be made: {against}.")
    told = ", ".join(wheels["install"][:6]) + (", ..." if len(wheels["install"]) > 6 else "")
    what = "make" if not os.path.lexists(path) else "make anew (it is incomplete, or its Python is gone)"
    return f"{what} {path} from {len(wheels['files'])} wheels of the controller ({told})"


def lacking(wheels: Mapping[str, Any], folder: str) -> list[str]:
    """Names of wheels that ``folder`` on this machine does not have with their content."""
    return [item["name"] for item in wheels["files"] if digest_of(os.path.join(folder, item["name"])) != item["sha256"]]


def make(wanted: Mapping[str, Any]) -> None:
    """Make the environment; a half one of an earlier run is made anew, and one that nobody wants any more is removed. Of one that
    fails nothing is left but its wheels. Two at once, of two deployments, wait for each other.

    :raises PdopsError: a wheel is missing or damaged, or venv or pip failed; the sentence has pip's last words
    """
    path = str(wanted["path"])
    root, name = os.path.split(path)
    with locked(os.path.join(root, ".pdops-venv.lock"), f"make {path}", _INSTALL_S):
        half = os.path.join(root, f"{_HALF}{name}")
        _remove_halves(root, but=half)
        if missing(wanted):
            absent = lacking(wanted["wheels"], str(wanted["source"]))
            if absent:
                raise PdopsError(
                    f"{wanted['source']} does not have {absent[0]} as this run saw it on the controller: it was damaged on its way, or changed "
                    "there meanwhile; what serves was not touched, run again."
                )
            write_private(half, b"")
            try:
                _make(wanted)
            except PdopsError:
                # Nobody can use it, and it may be what has filled the disk.
                shutil.rmtree(path, ignore_errors=True)
                raise
            finally:
                with suppress(OSError):
                    os.unlink(half)
        _remove_wheels(str(wanted["source"]))


def _remove_halves(root: str, but: str) -> None:
    """Environments that a killed run left half: under the lock nobody else makes one."""
    for half in glob.glob(os.path.join(glob.escape(root), f"{_HALF}*")):
        path = os.path.join(root, os.path.basename(half)[len(_HALF) :])
        if half == but:
            continue
        if not os.path.exists(os.path.join(path, MARK)):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            os.unlink(half)


def _remove_wheels(source: str) -> None:
    """They are as large as the environment, and the controller has them; those beside it that a killed run left, too."""
    here = os.path.dirname(source)
    for path in [source, *(os.path.join(here, name) for name in _names(here))]:
        newest = max((_changed_at(os.path.join(path, name)) for name in (".", *_names(path))), default=0.0)
        if path == source or time.time() - newest > _ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _changed_at(path: str) -> float:
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return time.time()  # it changes at this moment


def _make(wanted: Mapping[str, Any]) -> None:
    path, wheels, source = str(wanted["path"]), wanted["wheels"], str(wanted["source"])
    failed, python = f"{path} could not be made", os.path.join(path, "bin", "python")
    # pip is put in by itself: venv would hide why it could not.
    _do(failed, [str(wanted["base_python"]), "-m", "venv", "--clear", "--without-pip", path], 300.0)
    carried = _pip_wheel(wheels)
    if not carried:
        _do(failed, [python, "-I", "-m", "ensurepip", "--upgrade", "--default-pip"], 300.0)
    # A wheel of pip can be run as it is.
    pip = [python, os.path.join(source, carried, "pip")] if carried else [python, "-m", "pip"]
    options = ["--no-index", "--find-links", source, "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    _do(f"{path} could not be filled", [*pip, "install", *options, *wheels["install"]], _INSTALL_S)
    content = {"wheels": wheels["key"], "install": wheels["install"], "base_python": wanted["base_python"]}
    write_private(os.path.join(path, MARK), (json.dumps(content, indent=1) + "\n").encode(), 0o644)


def _pip_wheel(wheels: Mapping[str, Any]) -> str:
    return next((str(item["name"]) for item in wheels["files"] if str(item["name"]).startswith("pip-")), "")


def _runs(*command: str) -> bool:
    words = [*command] if len(command) > 1 else [command[0], "-c", "pass"]
    try:
        return (
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _do(what: str, command: Sequence[str], timeout_s: float) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    old = os.umask(0o022)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**environment, "PIP_CONFIG_FILE": os.devnull},
        )
    except subprocess.TimeoutExpired:
        raise PdopsError(
            f"{what} within {timeout_s:.0f} s ({' '.join(command[:4])} ...); look at the machine's disk."
        ) from None
    finally:
        os.umask(old)
    if done.returncode != 0:
        why, full = _why_it_ended(done.stderr, done.stdout)
        cure = "free space there" if full else "put that right"
        told = (" / ".join(why) or f"exit code {done.returncode}").rstrip(".")
        tail = (done.stderr or done.stdout).splitlines()[-4:]
        raise PdopsError(f"{what}: {told}; what serves was not touched, {cure} and run again.", log_tail=tail)


def _why_it_ended(stderr: str, stdout: str) -> tuple[list[str], bool]:
    """The lines that tell why, and whether a disk was full. pip tells on stdout what it was at, and may end with a traceback."""
    lines = [[line.strip() for line in text.splitlines() if line.strip()] for text in (stderr, stdout)]
    full = [line for line in (*lines[0], *lines[1]) if "No space left on device" in line or "[Errno 28]" in line]
    last = lines[0] or lines[1]
    errors = [line for line in last if line.startswith("ERROR")]
    raised = last[-1:] if any(line.startswith("Traceback ") for line in last) else last[-4:]
    return full[-1:] or errors[-2:] or raised, bool(full)


def digest_of(path: str) -> str:
    """The sha256 of a file; '' when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            for block in iter(lambda: source.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()

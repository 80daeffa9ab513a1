# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A virtual environment from wheels that lie on the machine already; nothing is fetched from anywhere.

``wanted`` is a mapping: ``path`` of the environment, ``base_python`` that makes it, ``wheels`` (what
:meth:`.wheel_set.WheelSet.as_dict` gives), and ``source``, the folder on the machine where the wheels are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ..pdops_error import PdopsError
from ..store.atomic import write_private
from ..store.lock import locked

#: Written last: without it an environment is a half one.
MARK = "pdops.json"
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
    told = ", ".join(wheels["install"][:6]) + (", ..." if len(wheels["install"]) > 6 else "")
    what = "make" if not os.path.lexists(path) else "make anew (it is incomplete, or its Python is gone)"
    return f"{what} {path} from {len(wheels['files'])} wheels of the controller ({told})"


def lacking(wheels: Mapping[str, Any], folder: str) -> list[str]:
    """Names of wheels that ``folder`` on this machine does not have with their content."""
    return [item["name"] for item in wheels["files"] if _sha256(os.path.join(folder, item["name"])) != item["sha256"]]


def make(wanted: Mapping[str, Any]) -> None:
    """Make the environment; a half one of an earlier run is made anew. Two at once, of two deployments, wait for each other.

    :raises PdopsError: a wheel is missing or damaged, or venv or pip failed; the sentence has pip's last words
    """
    path = str(wanted["path"])
    with locked(os.path.join(os.path.dirname(path), ".pdops-venv.lock"), f"make {path}", _INSTALL_S):
        if missing(wanted):
            _make(wanted)
        # They are as large as the environment, and the controller has them.
        shutil.rmtree(str(wanted["source"]), ignore_errors=True)


def _make(wanted: Mapping[str, Any]) -> None:
    path, wheels, source = str(wanted["path"]), wanted["wheels"], str(wanted["source"])
    absent = lacking(wheels, source)
    if absent:
        raise PdopsError(
            f"{source} lacks {absent[0]} as it is on the controller; run again to carry it over once more."
        )
    carried = _pip_wheel(wheels)
    without_pip = ["--without-pip"] if carried else []
    _do(f"{path} could not be made", [str(wanted["base_python"]), "-m", "venv", "--clear", *without_pip, path], 300.0)
    python = os.path.join(path, "bin", "python")
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
        last = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()][-4:]
        full = any("No space left on device" in line or "[Errno 28]" in line for line in last)
        cure = "free space there" if full else "put that right"
        told = (" / ".join(last) or f"exit code {done.returncode}").rstrip(".")
        raise PdopsError(f"{what}: {told}; what serves was not touched, {cure} and run again.", log_tail=last)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            for block in iter(lambda: source.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()

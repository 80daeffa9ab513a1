# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Unit files of systemd: checked before they are written, made known and enabled after."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence

from ..pdops_error import PdopsError

_COMMAND_S = 120.0


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
            env=environment,
        )
    except FileNotFoundError:
        raise PdopsError(
            f"{command[0]} is not in PATH on this machine; install systemd, or set pd_service_manager."
        ) from None
    except subprocess.TimeoutExpired:
        raise PdopsError(
            f"{' '.join(command[:2])} did not answer within {_COMMAND_S:.0f} s: systemd on this machine hangs."
        ) from None


def _words(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"


def findings(name: str, content: bytes) -> list[str]:
    """What ``systemd-analyze verify`` has against a unit file, a line each. Nothing is installed.

    Lines about other units of the machine are passed over; it loads those that the file depends on.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="pdops-verify-") as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(content)
            done = _run("systemd-analyze", "--man=no", "verify", path)
    except OSError as error:
        raise PdopsError(
            f"{name} could not be checked before it is written, since no file can be made in a temporary folder of this machine "
            f"({error.strerror}); nothing was written, free some space in /tmp or make it writable."
        ) from None
    lines = [line.strip() for line in done.stderr.splitlines() if name in line or folder in line]
    if done.returncode != 0 and not lines:
        lines = done.stderr.strip().splitlines()[-2:] or [_words(done)]
    return [line.replace(f"{folder}/", "") for line in lines]


def is_enabled(name: str) -> bool:
    """Whether the unit starts at boot; False for one that is not there."""
    return _run("systemctl", "is-enabled", "--quiet", name).returncode == 0


def reload_units() -> None:
    """Have systemd read unit files anew. It does not touch running units."""
    done = _run("systemctl", "daemon-reload")
    if done.returncode != 0:
        raise PdopsError(f"systemctl daemon-reload was refused: {_words(done)}.")


def forget(names: Sequence[str]) -> None:
    """Units whose files are gone: their failures are not shown any more. Those that did not fail have nothing to reset."""
    for name in names:
        _run("systemctl", "reset-failed", name)


def enable(name: str) -> None:
    done = _run("systemctl", "--no-reload", "enable", name)
    if done.returncode != 0:
        raise PdopsError(f"systemctl enable {name} was refused: {_words(done)}.")


def disable(names: Sequence[str]) -> None:
    """Units that are not there are no trouble."""
    for name in names:
        done = _run("systemctl", "--no-reload", "disable", name)
        if done.returncode != 0 and "does not exist" not in done.stderr and "not found" not in done.stderr:
            raise PdopsError(f"systemctl disable {name} was refused: {_words(done)}.")

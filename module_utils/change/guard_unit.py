# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The guard as a unit of systemd that survives a reboot: ``pdops-guard@CHANGE.service``.

The template is the same for every change; a drop-in of the change names its program and the serve units before which it
starts at boot. Written for systemd 239 and later (``RestartPreventExitStatus`` is older, ``Type=exec`` is not used).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence

from ..pdops_error import PdopsError
from ..services.unit_words import quoted
from ..store.atomic import write_private
from .record import check_id

UNIT_FOLDER = "/etc/systemd/system"
_WANTED_BY = "multi-user.target.wants"

#: What the guard exits with when there is nothing left to do: systemd must not start it again then.
EXIT_ENDED, EXIT_ROLLBACK_FAILED = 0, 3

TEMPLATE_NAME = "pdops-guard@.service"
TEMPLATE = f"""\
# Written by pdops. Guards one change: puts the old serve scripts back unless the change is confirmed in time.
# A drop-in pdops-guard@CHANGE.service.d says where its program is; it goes when the change has ended.
[Unit]
Description=pdops guard of change %i
StartLimitIntervalSec=0

[Service]
Type=simple
ExecStart=/bin/false
Restart=always
RestartSec=1
RestartPreventExitStatus={EXIT_ENDED} {EXIT_ROLLBACK_FAILED}
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def unit_of(change_id: str) -> str:
    return f"pdops-guard@{check_id(change_id)}.service"


def drop_in(interpreter: Sequence[str], state_dir: str, change_id: str, units: Iterable[str]) -> str:
    """``ExecStartPre`` puts the files back after a boot, before the serve units start; starts and stops of units would
    wait for each other there, so they are left to the guard itself."""
    given = [*interpreter, "--state-dir", state_dir, "--change", change_id]
    verb = len(interpreter)

    def line(name: str) -> str:
        return " ".join(quoted(word) for word in [*given[:verb], name, *given[verb:]])

    names = " ".join(sorted({unit if "." in unit else f"{unit}.service" for unit in units}))
    mounts = state_dir.replace("%", "%%").replace('"', '\\"')
    return (
        f'[Unit]\nBefore={names}\nRequiresMountsFor="{mounts}"\n\n'
        f"[Service]\nExecStartPre=-{line('files')}\nExecStart=\nExecStart={line('guard')}\n"
    )


def _write(path: str, content: str, written: list[str]) -> None:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as there:
        if there.read() == content:
            return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_private(path, content.encode(), 0o644)
    written.append(path)


def install(interpreter: Sequence[str], state_dir: str, change_id: str, units: Iterable[str]) -> list[str]:
    """Put the template, the drop-in and the link that enables it in place; return the paths that were written.

    Raises OSError or :class:`PdopsError` where units cannot be written (not root, a read-only /etc).
    """
    unit = unit_of(change_id)
    written: list[str] = []
    template = os.path.join(UNIT_FOLDER, TEMPLATE_NAME)
    _write(template, TEMPLATE, written)
    _write(
        os.path.join(UNIT_FOLDER, f"{unit}.d", "change.conf"),
        drop_in(interpreter, state_dir, change_id, units),
        written,
    )
    link = os.path.join(UNIT_FOLDER, _WANTED_BY, unit)
    if not os.path.islink(link):
        os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
        os.symlink(template, link)
        written.append(link)
    return written


def remove(change_id: str) -> None:
    """Take the drop-in and the link away; whatever is not there is no trouble. The unit that runs now ends by itself."""
    unit = unit_of(change_id)
    for path in (os.path.join(UNIT_FOLDER, _WANTED_BY, unit), os.path.join(UNIT_FOLDER, f"{unit}.d", "change.conf")):
        with contextlib.suppress(OSError):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(UNIT_FOLDER, f"{unit}.d"))


def start(interpreter: Sequence[str], state_dir: str, change_id: str, units: Iterable[str]) -> list[str]:
    """Install and start the guard's unit; start it again when it is there. Returns the paths that were written.

    Raises :class:`PdopsError` when systemd refuses, OSError as :func:`install`.
    """
    written = install(interpreter, state_dir, change_id, units)
    commands = [["systemctl", "daemon-reload"]] if written else []
    unit = unit_of(change_id)
    commands += [["systemctl", "reset-failed", unit], ["systemctl", "start", unit]]
    for command in commands:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode != 0 and command[1] != "reset-failed":
            raise PdopsError(
                f"the guard of change {change_id} could not be started: {' '.join(command)}: {done.stderr.strip()}"
            )
    return written

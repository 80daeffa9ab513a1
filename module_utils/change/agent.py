# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Packs pdops' own code as a zipapp on the machine, so that a guard outlives the module that starts it.

The sources come from wherever this very code was imported from: the file that Ansible sent, the
repo, or another agent. Nothing has to be copied to the machine beforehand.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from types import ModuleType

from ..pdops_error import PdopsError
from ..store.atomic import read_own
from ..store.store import Store
from . import agent_main, guard_unit  # noqa: F401 - what is imported is packed

_PACKAGE = "pdops_agent"
_MAIN = (
    f"import sys\nfrom {_PACKAGE}.change.agent_main import main\n"
    f"def serve(*given):\n    from {_PACKAGE}.change import guard\n    return guard.serve(*given)\n"
    "sys.exit(main(sys.argv[1:], serve))\n"
)


def _source(module: ModuleType) -> str:
    loader = module.__spec__.loader if module.__spec__ else None
    get_source = getattr(loader, "get_source", None)
    text = get_source(module.__name__) if get_source else None
    if text is None and not hasattr(module, "__path__") and getattr(module, "__file__", None):
        with open(str(module.__file__), encoding="utf-8") as source:
            text = source.read()
    return str(text or "")


def pack() -> bytes:
    """The zipapp: every module of this package that is imported now. Same sources, same bytes."""
    root = __name__.rsplit(".", 2)[0]
    files = {"__main__.py": _MAIN}
    for name, module in sorted(sys.modules.items()):
        if name != root and not name.startswith(root + "."):
            continue
        inner = name[len(root) + 1 :].replace(".", "/")
        if hasattr(module, "__path__"):
            path = f"{_PACKAGE}/{inner}/__init__.py" if inner else f"{_PACKAGE}/__init__.py"
            files[path] = _source(module) if inner else ""
        else:
            files[f"{_PACKAGE}/{inner}.py"] = _source(module)
    if f"{_PACKAGE}/change/guard.py" not in files:
        raise PdopsError(
            "the agent cannot be packed: its guard is not imported; this is a fault in pdops, please report it."
        )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted(files.items()):
            info = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o600 << 16
            archive.writestr(info, text)
    return packed.getvalue()


def install(store: Store) -> str:
    """Write the agent to ``agent/<sha256>.pyz`` unless it is there; return its path."""
    content = pack()
    path = os.path.join(store.state_dir, "agent", f"{hashlib.sha256(content).hexdigest()}.pyz")
    try:
        if read_own(path) == content:
            return path
    except OSError:
        pass
    store.write_state(path, content)
    return path


def start_guard(store: Store, agent: str, change_id: str, under_systemd: bool, units: Iterable[str] = ()) -> list[str]:
    """Start the guard so that neither the end of this module nor of the login session ends it; return what is to be told.

    Under systemd it becomes a unit that comes back after a reboot, before ``units`` start, or a transient one where no
    unit can be installed: a detached child of an ssh session would be killed with the session's scope where logind has
    ``KillUserProcesses=yes``.
    """
    program = [sys.executable, "-I", agent]
    command = [*program, "guard", "--state-dir", store.state_dir, "--change", change_id]
    if under_systemd:
        try:
            written = guard_unit.start(program, store.state_dir, change_id, units)
            # The files of this one change come and go with it; only what stays is told.
            return [f"wrote {path}" for path in written if path.endswith(f"/{guard_unit.TEMPLATE_NAME}")]
        except (OSError, PdopsError) as error:
            guard_unit.remove(change_id)
            why = str(error)
        unit = f"pdops-guard-{change_id}"
        command = ["systemd-run", "--quiet", "--collect", f"--unit={unit}", "--property=KillMode=process", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise PdopsError(
                f"the guard of change {change_id} could not be started: {done.stderr.strip()}; nothing was changed."
            )
        return [f"the guard of change {change_id} would not survive a reboot: {why}"]
    log = os.path.join(store.state_dir, "agent", "guard.log")
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise PdopsError(f"{log} cannot be opened ({error.strerror}); move it away, nothing was changed.") from None
    try:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
    except OSError as error:
        raise PdopsError(
            f"the guard of change {change_id} could not be started: {error}; nothing was changed."
        ) from None
    finally:
        os.close(descriptor)
    return []

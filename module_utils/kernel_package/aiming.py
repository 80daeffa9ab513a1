# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What one instance needs to serve with a kernel package: its Python, the folders, and the knobs of its script; reads only."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .. import knobs as knob_rules
from ..deployment import Instance
from ..pdops_error import PdopsError
from ..services.base import UnitStatus
from ..services.choosing import manager_for
from ..store.atomic import read_regular
from ..store.backups import MOST_BYTES
from ..store.obstacles import why_not_made
from ..unit_environment.effect import Effect
from ..unit_environment.report import unit_environment
from .compiled import cache_name
from .engine_python import Told, ask, check_python, find_python
from .selection import CACHE, FIXED, PATH, PLUGINS, Wanted, knobs_for, selected


@dataclass(frozen=True)
class Asked:
    """:ivar package: ``name``, ``version``, ``sha256``, ``folder`` (the name), ``requires_python`` and ``requires`` of the wheel
    :ivar root: where packages are; ``cache_root`` and ``status_root``: where each instance has its folders
    :ivar arch: compute capability of the GPUs, as 120
    :ivar compiles: whether kernels are compiled here; not for a simulated engine, whose Python has no Triton
    """

    instance: Instance
    package: Mapping[str, Any]
    root: str
    cache_root: str
    status_root: str
    arch: int
    compiles: bool
    python: Optional[str] = None
    user: Optional[str] = None
    more: Mapping[str, Optional[str]] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return os.path.join(self.root, str(self.package["folder"]))


@dataclass(frozen=True)
class Aim:
    """``knobs`` are those that the script is to have; ``environment`` is all that it gives to the engine then, without secrets."""

    told: Told
    folder: str
    cache: Optional[str]
    status: str
    knobs: Mapping[str, Optional[str]]
    environment: Mapping[str, Optional[str]]
    selected_now: Optional[str]
    owner: Optional[tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        """Without the environment, which only checks need."""
        return {
            "python": self.told.as_dict(),
            "folder": self.folder,
            "cache": self.cache,
            "status": self.status,
            "knobs": dict(self.knobs),
            "selected_now": self.selected_now,
        }


def aim(asked: Asked) -> Aim:
    """Look at script, unit and process of the instance, and at the Python that serves.

    :raises PdopsError: the Python is not known or cannot serve the package, or what PYTHONPATH is now only a run tells
    """
    name, path = asked.instance.name, asked.instance.serve_script
    if not os.path.lexists(path):
        raise PdopsError(
            f"{name}: {path} is not there, and a serve script is what selects kernels; deploy the instance first, or correct "
            "pd_serve_script. Nothing was changed."
        )
    script = read_regular(path, MOST_BYTES)
    environment = unit_environment(asked.instance)
    effect = Effect(script, environment)
    now: dict[str, Optional[str]] = {}
    for knob in (PATH, PLUGINS):
        found = effect.knob(knob, path)
        if found.decided == "run" and (found.exports or environment.complete):
            raise PdopsError(
                f"{name}: what {knob} is, only a run of {path} tells ({found.place}); write its value out there, so that "
                "it can be kept beside the package."
            )
        now[knob] = found.value
    status = _status(asked.instance)
    python = find_python(name, script, status, asked.python)
    given: dict[str, Optional[str]] = {
        knob: value for knob, value in environment.values.items() if not knob_rules.is_secret(knob)
    }
    given.update(
        {
            knob: export.value
            for knob, export in effect.alone.active().items()
            if export.value is not None and not knob_rules.is_secret(knob)
        }
    )
    told = ask(python, {**given, **FIXED, **asked.more, PATH: now[PATH]}, key=asked.compiles)
    check_python(told, asked.package, asked.compiles)
    if asked.compiles and not told.key:
        raise PdopsError(
            f"{told.path}: triton {told.triton} cannot be imported, so nothing could be compiled; mend it first."
        )
    cache = os.path.join(asked.cache_root, name, "triton", cache_name(told, str(asked.package["version"]), asked.arch))
    wanted = Wanted(asked.folder, cache, os.path.join(asked.status_root, name), asked.more)
    knobs = knobs_for(wanted, now)
    # Only what the wanted knobs leave as it is: an own cache of before is not filled any more.
    whole = {**{knob: value for knob, value in given.items() if knob != CACHE}, **knobs}
    return Aim(told, asked.folder, cache, wanted.status, knobs, whole, selected(now[PATH]), _owner(asked, status))


def _status(instance: Instance) -> Optional[UnitStatus]:
    try:
        return manager_for(instance.manager, instance.supervisor_config).status(instance.unit)
    except PdopsError:
        return None


def _owner(asked: Asked, status: Optional[UnitStatus]) -> Optional[tuple[int, int]]:
    """Whom the engine's folders belong to: who runs it now, else ``pd_user``."""
    if status is not None and status.main is not None:
        try:
            found = os.stat(f"/proc/{status.main.pid}")
            return found.st_uid, found.st_gid
        except OSError:
            pass
    if not asked.user:
        return None
    try:
        entry = pwd.getpwnam(asked.user)
    except KeyError:
        raise PdopsError(f"there is no user {asked.user} on this machine; make it, or correct pd_user.") from None
    return entry.pw_uid, entry.pw_gid


def asked_from(instance: Instance, options: Mapping[str, Any], checks: Sequence[str]) -> Asked:
    """Of the options of the module ``kernel_selftest``.

    :raises PdopsError: a folder is not absolute, or the architecture is none
    """
    for option in ("root", "cache_root", "status_root"):
        if not os.path.isabs(str(options[option])):
            raise PdopsError(f"{instance.name}: {option} is {options[option]!r}; give an absolute path on the machine.")
    arch = int(options["arch"])
    if not 70 <= arch <= 999:
        raise PdopsError(
            f"{instance.name}: pd_gpu_arch is {arch}; write the compute capability without its point, as 120."
        )
    more: dict[str, Optional[str]] = {}
    for name, value in (options.get("knobs") or {}).items():
        knob_rules.refuse_secret(knob_rules.check_name(str(name)))
        more[str(name)] = None if value is None else knob_rules.check_value(str(name), value)
    return Asked(
        instance=instance,
        package=dict(options["package"]),
        root=str(options["root"]),
        cache_root=str(options["cache_root"]),
        status_root=str(options["status_root"]),
        arch=arch,
        compiles=bool({"compile", "device", "bench"} & set(checks)),
        python=options.get("python") or None,
        user=options.get("user") or None,
        more=more,
    )


def check_room(asked: Asked, found: Aim) -> None:
    """Refuse an instance whose folders (for the plugin's records, for what is compiled) are missing and could not be made.

    :raises PdopsError: with what is against it
    """
    for path in (found.status, found.cache if asked.compiles else None):
        against = why_not_made(path) if path and not os.path.isdir(path) else ""
        if against:
            raise PdopsError(f"{asked.instance.name}: {path} could not be made: {against}. Nothing was changed.")

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The state of the instances on one machine, with every place of every knob; read-only, secrets masked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, Optional

from .. import knobs
from ..change.book import Book
from ..deployment import Instance
from ..gates.effective import observe_knobs
from ..kernel_package.selection import PATH, STATUS
from ..kernel_package.serving_now import kernels_of
from ..pdops_error import PdopsError
from ..script_views import masked_beside, masked_value
from ..scripts.reading import read_script
from ..services.base import ServiceManager, UnitStatus
from ..services.choosing import manager_for
from ..store.atomic import read_regular
from ..store.backups import MOST_BYTES
from ..store.sources import sources_of
from ..store.store import Store
from . import supervisor_environment, systemd_environment
from .effect import Effect, Knob, Remark, running_remark
from .places import UnitEnvironment


def unit_environment(instance: Instance) -> UnitEnvironment:
    """By the instance's service manager. What cannot be asked is told in ``unread``, never taken for empty."""
    try:
        if instance.manager == "supervisor":
            return supervisor_environment.environment_of(instance.unit, instance.supervisor_config)
        return systemd_environment.environment_of(instance.unit)
    except PdopsError as error:
        return UnitEnvironment(unread=(f"the unit's environment is not known: {error}",))


def status_of(instances: Sequence[Instance], state_dir: str, knob: Optional[str]) -> dict[str, Any]:
    """Reports by instance, and the open change of this machine.

    :arg knob: one name, to be looked for even where nothing sets it; None takes the script's and the unit's
    """
    store = Store(state_dir)
    book = Book(store)
    reports: dict[str, Any] = {}
    for instance in instances:
        try:
            reports[instance.name] = _report(instance, store, knob)
        except PdopsError as error:
            reports[instance.name] = {"role": instance.role, "error": str(error)}
    open_change = book.open_for([instance.as_dict() for instance in instances])
    return {"instances": reports, "open_change": book.summary(open_change) if open_change else None}


def _report(instance: Instance, store: Store, wanted: Optional[str]) -> dict[str, Any]:
    manager: Optional[ServiceManager] = None
    status: Optional[UnitStatus] = None
    try:
        manager = manager_for(instance.manager, instance.supervisor_config)
        status = manager.status(instance.unit)
    except PdopsError as error:
        trouble_of_unit = str(error)
    report: dict[str, Any] = {
        "role": instance.role,
        "unit": {
            "name": instance.unit,
            "state": status.state if status else "unknown",
            "detail": status.detail if status else trouble_of_unit,
            "pid": status.pid if status else None,
            "age_s": status.since_s if status else None,
        },
    }
    environment = unit_environment(instance)
    script: Optional[bytes] = None
    trouble = None
    try:
        script = read_regular(instance.serve_script, MOST_BYTES)
    except PdopsError as error:
        trouble = str(error)
    effect = Effect(script or b"", environment)
    names = effect.names() if wanted is None else [wanted]
    if manager is not None and status is not None and names:
        seen = observe_knobs(manager, instance.unit, status, instance.url, names, instance.role)
    else:
        seen = {
            name: {"state": "unknown", "value": None, "evidence": "the unit's state is not known"} for name in names
        }
    hide = _Hider(script or b"", environment)
    report["script"] = {
        "path": instance.serve_script,
        "error": trouble,
        "sha256": hashlib.sha256(script).hexdigest() if script is not None else None,
        **_versions(instance.serve_script, script, store),
        "findings": [
            {"line": item.line, "code": item.code, "said": hide.text(item.sentence)} for item in effect.alone.findings
        ],
    }
    report["kernels"] = kernels_of(
        effect.knob(PATH, instance.serve_script).value,
        effect.knob(STATUS, instance.serve_script).value,
        manager.processes(instance.unit) if manager is not None and status is not None and status.main else (),
    )
    notes = list(environment.notes)
    known = (os.path.basename(instance.serve_script), os.path.basename(os.path.realpath(instance.serve_script)))
    if environment.command and not any(name in environment.command for name in known):
        notes.append(
            f"{instance.unit} does not run {instance.serve_script}, but: {environment.command}; check pd_serve_script"
        )
    report["environment"] = {
        "complete": environment.complete,
        "files": dict(environment.files),
        "unread": list(environment.unread),
        "notes": [hide.text(note) for note in notes],
    }
    former = _former(instance.serve_script, store, wanted) if wanted else []
    if wanted and not former and wanted not in effect.names():
        close = knobs.near_name(wanted, effect.names())
        what = "nothing here" if environment.complete else "nothing that can be read"
        former = [("unknown", f"{what} sets it or ever did" + (f"; did you mean {close}?" if close else ""))]
    report["knobs"] = [
        _row(effect, effect.knob(name, instance.serve_script), seen[name], instance.serve_script, hide, former)
        for name in names
    ]
    return report


class _Hider:
    """Masks by the name, and whatever the script or the unit's environment calls a secret wherever else it stands."""

    def __init__(self, script: bytes, environment: UnitEnvironment) -> None:
        secrets = "\n".join(
            f"{place.name}='{place.value}'"
            for place in environment.places
            if place.value and knobs.is_secret(place.name) and "'" not in place.value
        )
        self._contents = [script, secrets.encode("utf-8", "replace")]

    def text(self, text: str) -> str:
        return masked_beside(self._contents, text)

    def value(self, name: str, value: Optional[str]) -> Optional[str]:
        if value is None:
            return None
        if knobs.is_secret(name):
            return knobs.MASK
        return self.text(value.encode("utf-8", "replace").decode())


def _row(
    effect: Effect, knob: Knob, seen: dict[str, Any], path: str, hide: _Hider, former: Sequence[Remark]
) -> dict[str, Any]:
    remarks = [*knob.remarks, *former]
    first = running_remark(knob, seen)
    if first is not None:
        remarks.insert(0, first)
    places = [
        {
            "kind": place.kind,
            "path": place.path,
            "line": place.line,
            "value": hide.value(place.name, place.value),
            "state": place.state,
        }
        for place in knob.unit_places
    ]
    places += [
        {
            "kind": "script",
            "path": path,
            "line": effect.line(export),
            "value": hide.value(export.name, export.value),
            "state": export.state,
        }
        for export in knob.exports
    ]
    return {
        "name": knob.name,
        "value": hide.value(knob.name, knob.value),
        "decided": knob.decided,
        "place": knob.place,
        "running": {**seen, "value": hide.value(knob.name, seen["value"])},
        "remarks": [{"code": code, "said": hide.text(said)} for code, said in remarks],
        "places": places,
    }


def _former(path: str, store: Store, name: str) -> list[Remark]:
    """What stored versions and backups of the script say of a name, the newest first."""
    told = []
    for source in sources_of(path, store).found:
        value = masked_value([source.content], name, read_script(source.content).value(name))
        if value is not None:
            told.append(("former", f"{source.told} has ={value}"))
    return told


def _versions(path: str, script: Optional[bytes], store: Store) -> dict[str, Any]:
    """The newest stored version, and whether the script still is that one."""
    versions = store.versions(path)
    newest = versions[0] if versions else None
    same = newest is not None and script is not None and newest.sha256 == hashlib.sha256(script).hexdigest()
    return {
        "version": {"sha256": newest.sha256, "label": newest.label, "time": newest.time, "actor": newest.actor}
        if newest
        else None,
        "is_newest": same,
    }

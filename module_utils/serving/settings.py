# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a machine needs beside the serve script to run one instance, from inventory variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Optional

from ..deployment import Instance
from ..managed.options import check_word
from ..mistakes import Mistakes
from ..pdops_error import PdopsError
from .wheel_set import WheelSet

#: The variables that are read here, beside those of :mod:`..managed.launch_line`.
VARIABLES = (
    "pd_serve_root",
    "pd_wheels",
    "pd_wheels_install",
    "pd_base_python",
    "pd_cache_root",
    "pd_cache_version",
    "pd_key_files",
    "pd_user",
    "pd_unit_numa",
    "pd_unit_cpus",
    "pd_numactl",
    "pd_longest_generation_s",
    "pd_service_options",
    "pd_serve_template",
    "pd_unit_template",
)
CACHE_KNOB = "SGLANG_CACHE_DIR"
UNIT_FOLDER = "/etc/systemd/system"
#: After the drain SGLang gives its schedulers 15 s to end and 60 s more to what is left (0.5.23, ``tokenizer_manager.py``).
_AFTER_DRAIN_S = 75
_LIST_OF_NUMBERS = re.compile(r"\d+(?:-\d+)?(?:[ ,]+\d+(?:-\d+)?)*\Z")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?\Z")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}\Z")
_DIRECTIVE = re.compile(r"[A-Z][A-Za-z0-9]+\Z")
#: Directives of ``[Service]`` that come from elsewhere, and what to use.
_OWNED = {
    "ExecStart": "pd_serve_script",
    "User": "pd_user",
    "WorkingDirectory": "pd_serve_root",
    "TimeoutStopSec": "pd_longest_generation_s and pd_drain_s",
    "NUMAPolicy": "pd_unit_numa",
    "NUMAMask": "pd_unit_numa",
    "CPUAffinity": "pd_unit_cpus",
    "KillMode": "a template of your own (with any other mode the schedulers are killed before they drain)",
    "Type": "a template of your own (the gates prove more than a type does)",
    "Environment": "pd_knobs, which are proved to be in effect",
    "EnvironmentFile": "pd_knobs, which are proved to be in effect",
}
#: They deny the GPUs: each switches systemd to a list of devices (systemd.exec(5)).
_NO_GPU = ("PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow")


@dataclass(frozen=True)
class KeyFile:
    """A file of keys: ``source`` on the controller, ``path`` on the machine."""

    source: str
    path: str


@dataclass(frozen=True)
class Serving:
    """One instance, and what its machine has for it. Folders and files are on the machine, times in seconds.

    :ivar wheels: the set that its virtual environment is made of; None when that is somebody else's affair
    :ivar cache: folder of compiled kernels, for engines; None when the knobs name one
    :ivar unit_path: where its unit file goes; None when systemd does not run it
    :ivar caches: all cache folders that the instance writes into, its own and what its knobs name
    """

    instance: Instance
    deployment: str
    root: str
    venv: Optional[str]
    wheels: Optional[WheelSet]
    base_python: str
    cache: Optional[str]
    run: str
    keys: tuple[KeyFile, ...]
    user: str
    unit_path: Optional[str]
    numa: Optional[str]
    cpus: Optional[str]
    stop_s: int
    options: tuple[tuple[str, str], ...]
    serve_template: Optional[str]
    unit_template: Optional[str]
    gpus: tuple[str, ...] = ()
    listens: tuple[tuple[str, str, int], ...] = ()
    caches: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        data = asdict(self)
        data.update(
            instance=self.instance.as_dict(),
            wheels=self.wheels.as_dict() if self.wheels else None,
            keys=[asdict(item) for item in self.keys],
        )
        return data


def serving_of(instance: Instance, variables: Mapping[str, Any], wheels: Optional[WheelSet], folder: str) -> Serving:
    """The settings of one instance; values are checked here, clashes between instances in :mod:`.clashes`.

    :param wheels: the set of ``pd_wheels``, read already
    :param folder: the inventory's, from which relative paths on the controller count
    :raises PdopsError: a variable is wrong, or contradicts another one; the sentence names the instance and both
    """
    who, systemd = instance.name, instance.manager == "systemd"
    wrong = Mistakes()

    def absolute(name: str) -> Optional[str]:
        found: Optional[str] = wrong.take(lambda: _absolute(who, variables, name), None)
        return found

    def text(name: str) -> Optional[str]:
        found: Optional[str] = wrong.take(lambda: _text(who, variables, name), None)
        return found

    root = absolute("pd_serve_root") or "/opt/pdops"
    if len(root) < 2:
        wrong.add(f"{who}: pd_serve_root is {root!r}; give a folder of its own, for example /opt/pdops.")
    venv = absolute("pd_venv")
    if wheels and venv:
        wrong.add(
            f"{who}: pd_wheels makes a virtual environment whose name comes from its content, and pd_venv names another; give one of them."
        )
    user = text("pd_user") or "root"
    if not _USER.match(user):
        wrong.add(f"{who}: pd_user is {user!r}; it must be the name of a user on the machine.")
    if user != "root" and f"{os.path.normpath(instance.serve_script)}/".startswith("/root/"):
        wrong.add(f"{who}: pd_user is {user}, who cannot read below /root, and pd_serve_script is there; move it.")
    numa = wrong.take(lambda: _numbers(who, variables, "pd_unit_numa"), None)
    cpus = wrong.take(lambda: _numbers(who, variables, "pd_unit_cpus"), None)
    wrong.take(lambda: _check_pinning(who, variables, numa, cpus, systemd), None)
    mine = variables.get("pd_knobs") or {}
    pair = variables.get("pd_pair_knobs") or {} if instance.role != "router" else {}
    given = [source[CACHE_KNOB] for source in (pair, mine) if isinstance(source, Mapping) and source.get(CACHE_KNOB)]
    version = text("pd_cache_version") or (wheels.key if wheels else "1")
    if not _VERSION.match(version):
        wrong.add(f"{who}: pd_cache_version is {version!r}; it must be usable as the name of a folder.")
    cache_root = absolute("pd_cache_root") or f"{root}/cache"
    cache = f"{cache_root}/{who}/{version}" if instance.role != "router" and not given else None
    base_python = absolute("pd_base_python") or "/usr/bin/python3"
    keys = wrong.take(lambda: _keys(who, variables.get("pd_key_files"), folder), ())
    longest_s = wrong.take(lambda: _seconds(who, variables), 0.0)
    options = wrong.take(lambda: _options(who, variables.get("pd_service_options")), ())
    serve_template, unit_template = text("pd_serve_template"), text("pd_unit_template")
    wrong.refuse()
    return Serving(
        instance=instance,
        deployment=str(variables.get("pd_deployment") or ""),
        root=root,
        venv=f"{root}/venv-{wheels.key}" if wheels else venv,
        wheels=wheels,
        base_python=base_python,
        cache=cache,
        run=f"{root}/run/{who}",
        keys=keys,
        user=user,
        unit_path=f"{UNIT_FOLDER}/{unit_name(instance.unit)}" if systemd else None,
        numa=numa,
        cpus=cpus,
        stop_s=int(longest_s + instance.drain_s + _AFTER_DRAIN_S),
        options=options,
        serve_template=serve_template,
        unit_template=unit_template,
        caches=tuple(str(item) for item in ([cache] if cache else given)),
    )


def unit_name(unit: str) -> str:
    """``sglang-decode`` is ``sglang-decode.service``."""
    return unit if unit.endswith(".service") else f"{unit}.service"


def controller_path(folder: str, given: str) -> str:
    """A path on the controller, from the inventory's folder on when it is relative."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(given)))


def _check_pinning(
    who: str, variables: Mapping[str, Any], numa: Optional[str], cpus: Optional[str], systemd: bool
) -> None:
    by_unit = [name for name, value in (("pd_unit_numa", numa), ("pd_unit_cpus", cpus)) if value]
    by_launch = [name for name in ("pd_numactl", "pd_numa_node") if variables.get(name) is not None]
    if by_unit and by_launch:
        raise PdopsError(
            f"{who}: {by_unit[0]} pins by the unit and {by_launch[0]} by the launch, and the stricter of them would win silently; keep one."
        )
    if len(by_launch) == 2:
        raise PdopsError(
            f"{who}: pd_numactl and pd_numa_node (with which SGLang calls numactl itself) pin twice; keep one."
        )
    if by_unit and not systemd:
        raise PdopsError(f"{who}: {by_unit[0]} needs systemd, and {who} runs under supervisor; take pd_numactl.")


def _keys(who: str, given: object, folder: str) -> tuple[KeyFile, ...]:
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        raise PdopsError(
            f"{who}: pd_key_files is no list; write src (on the controller) and dest (on the machine) of each."
        )
    wrong, found = Mistakes(), []
    for item in given:
        found.append(wrong.take(partial(_key, who, item, folder), None))
    wrong.refuse()
    return tuple(found)


def _key(who: str, given: object, folder: str) -> KeyFile:
    if not isinstance(given, Mapping) or set(given) != {"src", "dest"}:
        raise PdopsError(f"{who}: pd_key_files must have src and dest for each file and nothing else.")
    dest = check_word(f"{who}: dest of pd_key_files", given["dest"])
    if not os.path.isabs(dest):
        raise PdopsError(f"{who}: pd_key_files has dest {dest!r}; it must be an absolute path on the machine.")
    source = controller_path(folder, check_word(f"{who}: src of pd_key_files", given["src"]))
    if not os.path.isfile(source):
        raise PdopsError(f"{who}: pd_key_files names {source}, and there is no such file on the controller.")
    return KeyFile(source, os.path.normpath(dest))


def _options(who: str, given: object) -> tuple[tuple[str, str], ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise PdopsError(f"{who}: pd_service_options is no mapping; write names and values, as in MemoryMax: 400G.")
    found: list[tuple[str, str]] = []
    for name, value in given.items():
        if not isinstance(name, str) or not _DIRECTIVE.match(name):
            raise PdopsError(f"{who}: pd_service_options has {name!r}, which is no directive of systemd.")
        if name in _OWNED:
            raise PdopsError(f"{who}: pd_service_options has {name}, which comes from {_OWNED[name]}.")
        if name in _NO_GPU:
            raise PdopsError(
                f"{who}: pd_service_options has {name}, which would deny the engine its GPUs; leave it out."
            )
        for item in value if isinstance(value, (list, tuple)) else [value]:
            text = ("yes" if item else "no") if isinstance(item, bool) else check_word(f"{who}: {name}", item)
            if text.endswith("\\"):
                raise PdopsError(f"{who}: the value of {name} ends in a backslash, which joins it with the next line.")
            found.append((name, text))
    return tuple(found)


def _seconds(who: str, variables: Mapping[str, Any]) -> float:
    value = variables.get("pd_longest_generation_s", 300)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 86400:
        raise PdopsError(f"{who}: pd_longest_generation_s is {value!r}; it must be seconds between 0 and 86400.")
    return float(value)


def _numbers(who: str, variables: Mapping[str, Any], name: str) -> Optional[str]:
    value = variables.get(name)
    if value is None or value == "":
        return None
    items: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    text = ",".join(check_word(f"{who}: {name}", item) for item in items)
    if not _LIST_OF_NUMBERS.match(text):
        raise PdopsError(f"{who}: {name} is {value!r}; give numbers and ranges, as in 0-31,64-95.")
    return text


def _absolute(who: str, variables: Mapping[str, Any], name: str) -> Optional[str]:
    text = _text(who, variables, name)
    if text and (not os.path.isabs(text) or os.path.normpath(text) != (text.rstrip("/") or "/")):
        raise PdopsError(f"{who}: {name} is {text!r}; it must be an absolute path on the machine, without dots.")
    return (text.rstrip("/") or "/") if text else None


def _text(who: str, variables: Mapping[str, Any], name: str) -> Optional[str]:
    value = variables.get(name)
    return None if value is None or value == "" else check_word(f"{who}: {name}", value)

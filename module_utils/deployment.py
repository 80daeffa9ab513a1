# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a deployment is made of: instances, their machines, and the order in which they stop and start."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

from .pdops_error import PdopsError

ROLES = ("prefill", "decode", "router")
MANAGERS = ("systemd", "supervisor")

#: Start order. Prefill first: decode resolves the prefill's bootstrap server, and the router
#: says healthy before either serves (reference/sglang-pd.md E.2; sglang#33740, sglang#16903).
START_ORDER = ("prefill", "decode", "router")

#: A load of a big model from cold storage; an instance may say otherwise (`pd_load_timeout_s`).
DEFAULT_LOAD_TIMEOUT_S = 900.0
DEFAULT_DRAIN_S = 30.0
DEFAULT_STATE_DIR = "/var/lib/pdops"


@dataclass(frozen=True)
class Instance:
    """One engine or router service, as pdops needs to know it.

    ``url`` is the instance's own HTTP address as seen *from its machine*; ``machine`` is equal for
    instances that share a machine, and so is ``state_dir``, where pdops keeps what it knows there. Times are in seconds.
    """

    name: str
    role: str
    unit: str
    serve_script: str
    url: str
    machine: str
    manager: str = "systemd"
    supervisor_config: str | None = None
    bootstrap_port: int | None = None
    metrics_url: str | None = None
    api_key_file: str | None = None
    load_timeout_s: float = DEFAULT_LOAD_TIMEOUT_S
    drain_s: float = DEFAULT_DRAIN_S
    state_dir: str = DEFAULT_STATE_DIR

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _role(name: str, groups: Iterable[str], variables: Mapping[str, Any]) -> str:
    given = variables.get("pd_role")
    if given is not None:
        if str(given) not in ROLES:
            raise PdopsError(f"{name}: pd_role is {given!r}; it must be prefill, decode or router.")
        return str(given)
    found = [role for role in ROLES if role in set(groups)]
    if len(found) != 1:
        what = "none of" if not found else "more than one of"
        raise PdopsError(
            f"{name} is in {what} the groups prefill, decode and router; put it in exactly one of them in the inventory."
        )
    return found[0]


def _seconds(name: str, variables: Mapping[str, Any], key: str, default: float) -> float:
    value = variables.get(key, default)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise PdopsError(f"{name}: {key} is {value!r}; it must be a number of seconds.") from None
    if not 0 <= seconds <= 86400:
        raise PdopsError(f"{name}: {key} is {value!r}; it must be between 0 and 86400 seconds.")
    return seconds


def _port(name: str, key: str, value: Any) -> int:
    try:
        port = int(value)
    except (TypeError, ValueError):
        port = 0
    if not 1 <= port <= 65535:
        raise PdopsError(f"{name}: {key} is {value!r}; it must be a port between 1 and 65535.")
    return port


def _url(name: str, key: str, value: Any) -> str:
    text = str(value)
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise PdopsError(f"{name}: {key} is {text!r}; it must look like http://127.0.0.1:30001.")
    return text.rstrip("/")


def _absolute(name: str, key: str, value: Any) -> str:
    path = str(value)
    if not os.path.isabs(path):
        raise PdopsError(f"{name}: {key} is {path!r}; it must be an absolute path on the machine.")
    return path


def _state_dir(name: str, value: Any) -> str:
    """A path of the machine, or one in the home of its user."""
    return str(value) if str(value).startswith("~") else _absolute(name, "pd_state_dir", value)


def instance_from_variables(name: str, variables: Mapping[str, Any]) -> Instance:
    """Make an :class:`Instance` of an inventory host's variables (``pd_*``).

    Raises :class:`PdopsError` naming the host and the variable that is missing or wrong.
    """
    role = _role(name, variables.get("group_names") or (), variables)
    for key in ("pd_pair_knobs", "pd_knobs"):
        if variables.get(key) and not isinstance(variables[key], Mapping):
            given = variables[key]
            kind = "a list" if isinstance(given, list) else "a string" if isinstance(given, str) else "a plain value"
            raise PdopsError(
                f"{name}: {key} is {kind}; it must be a mapping of knobs to values, as in {{NAME: value}}."
            )
    missing = [needed for needed in ("pd_unit", "pd_serve_script", "pd_url") if not variables.get(needed)]
    if missing:
        verb, what = ("are", "them") if len(missing) > 1 else ("is", "it")
        raise PdopsError(
            f"{name}: {' and '.join(missing)} {verb} not set; give {what} in the inventory (see inventory/example)."
        )
    unit = str(variables["pd_unit"])
    if not re.fullmatch(r"[A-Za-z0-9:_.@\\-]+", unit):
        raise PdopsError(f"{name}: pd_unit is {unit!r}; it must be the name of a unit or supervisor program.")
    manager = str(variables.get("pd_service_manager") or "systemd")
    if manager not in MANAGERS:
        raise PdopsError(f"{name}: pd_service_manager is {manager!r}; it must be systemd or supervisor.")
    config = variables.get("pd_supervisor_config")
    if manager == "supervisor" and not config:
        raise PdopsError(
            f"{name}: pd_service_manager is supervisor, but pd_supervisor_config does not say where its configuration is."
        )
    bootstrap = variables.get("pd_bootstrap_port")
    if bootstrap is None and role == "prefill":
        bootstrap = 8998  # SGLang's default, reference/sglang-pd.md A.1
    host = variables.get("ansible_host") or ("localhost" if variables.get("ansible_connection") == "local" else name)
    port = variables.get("ansible_port")
    machine = variables.get("pd_machine") or (f"{host}:{port}" if port else host)
    metrics = variables.get("pd_metrics_url")
    key_file = variables.get("pd_api_key_file")
    return Instance(
        name=str(name),
        role=role,
        unit=unit,
        serve_script=_absolute(name, "pd_serve_script", variables["pd_serve_script"]),
        url=_url(name, "pd_url", variables["pd_url"]),
        machine=str(machine),
        manager=manager,
        supervisor_config=_absolute(name, "pd_supervisor_config", config) if config else None,
        bootstrap_port=_port(name, "pd_bootstrap_port", bootstrap) if bootstrap is not None else None,
        metrics_url=_url(name, "pd_metrics_url", metrics) if metrics else None,
        api_key_file=_absolute(name, "pd_api_key_file", key_file) if key_file else None,
        load_timeout_s=_seconds(name, variables, "pd_load_timeout_s", DEFAULT_LOAD_TIMEOUT_S),
        drain_s=_seconds(name, variables, "pd_drain_s", DEFAULT_DRAIN_S),
        state_dir=_state_dir(name, variables.get("pd_state_dir") or DEFAULT_STATE_DIR),
    )


def instance_from_dict(data: Mapping[str, Any]) -> Instance:
    """The inverse of :meth:`Instance.as_dict`, for data that came back through Ansible."""
    try:
        return Instance(**{str(key): value for key, value in data.items()})
    except TypeError as error:
        raise PdopsError(f"instance {data.get('name', '?')}: {error}.") from None


def leaders(play_hosts: Iterable[str], groups: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Any]]:
    """Which hosts of a play lead a deployment: ``{host: {deployment, limited_to}}``.

    A deployment leads itself when it is in the play; otherwise (a limit named instances only) its first instance
    in the play leads, and the verb is limited to those instances. All other hosts lead nothing.
    """
    hosts = list(play_hosts)
    found: dict[str, dict[str, Any]] = {}
    for deployment in groups.get("pd_deployments", ()):
        members = set(groups.get(f"{deployment}_instances", ()))
        named = [host for host in hosts if host in members]
        if deployment in hosts:
            found[deployment] = {"deployment": deployment, "limited_to": []}
        elif named:
            found[named[0]] = {"deployment": deployment, "limited_to": named}
    return found


def check_limit(limit: str, groups: Mapping[str, Iterable[str]]) -> None:
    """Refuse a ``--limit`` of which a name is nowhere in the inventory: Ansible passes over it and leads the rest.

    Patterns (``*``, ``~``, ``[0]``, ``@file``) are Ansible's own affair, and so is a limit that leaves no host at all.
    """
    known = {*groups, "all", "ungrouped", "localhost", "127.0.0.1"}.union(*map(set, groups.values()))
    names = [name.strip().lstrip("!&") for name in limit.replace(":", ",").split(",")]
    odd = [name for name in names if name and name not in known and not set(name) & set("*?[]~@")]
    if odd and "[" not in limit:  # a colon within brackets parts no names
        deployments = ", ".join(groups.get("pd_deployments", ())) or "none"
        raise PdopsError(
            f"-l {', '.join(odd)}: the inventory has no such deployment, instance or group; its deployments are {deployments}; "
            "nothing was touched, correct the name or leave it out."
        )


def start_order(instances: Iterable[Instance]) -> list[Instance]:
    """Prefill, decode, router; instances of one role keep the inventory's order. Stop in reverse."""
    return sorted(instances, key=lambda instance: START_ORDER.index(instance.role))


def check_deployment(deployment: str, instances: list[Instance]) -> list[Instance]:
    """Refuse a deployment that cannot serve or whose instances clash; return it in start order."""
    if not instances:
        raise PdopsError(
            f"{deployment} has no instances; the inventory needs a group {deployment}_instances with its prefill, decode and router."
        )
    missing = [role for role in ROLES if not any(instance.role == role for instance in instances)]
    if missing:
        raise PdopsError(f"{deployment} has no {' and no '.join(missing)}; add it to the group {deployment}_instances.")
    seen: dict[tuple[str, str, str], str] = {}
    for instance in instances:
        for what, value in (("unit", instance.unit), ("serve script", instance.serve_script), ("URL", instance.url)):
            key = (instance.machine, what, value)
            if key in seen:
                raise PdopsError(
                    f"{instance.name} and {seen[key]} have the same {what} {value} on machine {instance.machine}; each instance needs its own."
                )
            seen[key] = instance.name
    stores: dict[str, Instance] = {}
    for instance in instances:
        other = stores.setdefault(instance.machine, instance)
        if other.state_dir != instance.state_dir:
            raise PdopsError(
                f"{instance.name} and {other.name} are on machine {instance.machine} and have pd_state_dir {instance.state_dir} "
                f"and {other.state_dir}; a machine has one."
            )
    return start_order(instances)

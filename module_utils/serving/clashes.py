# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Refuses instances that would get in each other's way on a machine. Pure; the controller asks before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from ..deployment import Instance
from ..managed.launch_line import router_address
from ..mistakes import Mistakes
from .settings import Serving, unit_name

_ROUTER_METRICS_PORT = 29000  # of sglang-router 0.3.2, when nothing is said
_ANY = ("0.0.0.0", "::", "*")  # noqa: S104 (compared with, not bound to)


def listens_of(instance: Instance, host: str) -> tuple[tuple[str, str, int], ...]:
    """What an instance listens on: what for, address, port.

    :param host: where its API listens (``pd_listen``, or the host of its URL); the bootstrap server is bound to it, too
    """
    parts = urlsplit(instance.url)
    if instance.role == "router":
        host = router_address(host)
    found = [("its API (pd_url)", host, parts.port or (443 if parts.scheme == "https" else 80))]
    if instance.role == "prefill":
        found.append(("its bootstrap server (pd_bootstrap_port)", host, instance.bootstrap_port or 8998))
    if instance.role == "router":
        metrics = urlsplit(instance.metrics_url) if instance.metrics_url else None
        address = (metrics.hostname if metrics else None) or "127.0.0.1"
        port = (metrics.port if metrics else None) or _ROUTER_METRICS_PORT
        found.append(("its metrics (pd_metrics_url)", router_address(address), port))
    return tuple((what, _address(each), port) for what, each, port in found)


def refuse_clashes(servings: Sequence[Serving]) -> None:
    """Refuse ports, GPUs, units, scripts, caches and key files that two instances of one machine would share.

    :param servings: of all deployments of the inventory, since they may share machines
    :raises PdopsError: each sentence names both instances, the machine, and what they share
    """
    wrong = Mistakes()
    for machine in sorted({item.instance.machine for item in servings}):
        here = [item for item in servings if item.instance.machine == machine]
        for number, one in enumerate(here):
            wrong.add(*_with_itself(one))
            for other in here[:number]:
                wrong.add(*_of_pair(machine, other, one))
    wrong.refuse()


def _with_itself(one: Serving) -> Iterator[str]:
    for number, (what, address, port) in enumerate(one.listens):
        for other, there, taken in one.listens[:number]:
            if port == taken and _meet(address, there):
                yield f"{one.instance.name}: {what} and {other} are both port {port}; change one of them."
    for number, key in enumerate(one.keys):
        if any(key.path == other.path and key.source != other.source for other in one.keys[:number]):
            yield f"{one.instance.name}: pd_key_files writes {key.path} twice; give each its own dest."
    yield from _key_in_place(one, one)


def _key_in_place(one: Serving, other: Serving) -> Iterator[str]:
    """A file of keys is no script and no unit: one content would replace the other."""
    taken = {os.path.normpath(other.instance.serve_script): "script"}
    if other.unit_path:
        taken[os.path.normpath(other.unit_path)] = "unit"
    for key in one.keys:
        if key.path in taken:
            yield (
                f"{one.instance.name}: pd_key_files has dest {key.path}, which is the {taken[key.path]} of {other.instance.name}; "
                "give the keys a file of their own."
            )


def _of_pair(machine: str, one: Serving, other: Serving) -> Iterator[str]:
    both = f"{one.instance.name} and {other.instance.name} on machine {machine}"
    if unit_name(one.instance.unit) == unit_name(other.instance.unit):
        yield f"{both} have the same unit {unit_name(one.instance.unit)}; give each its own pd_unit."
    mine, theirs = (os.path.normpath(item.instance.serve_script) for item in (one, other))
    if mine == theirs:
        yield f"{both} have the same script {mine}; give each its own pd_serve_script."
    for what, address, port in one.listens:
        for name, there, taken in other.listens:
            if port == taken and _meet(address, there):
                yield (
                    f"{both} would both listen on port {port}: {one.instance.name} for {what}, {other.instance.name} for {name}; "
                    "change one of them."
                )
    shared = sorted(set(one.gpus) & set(other.gpus))
    if shared:
        yield f"{both} both have GPU {', '.join(shared)} in pd_gpus; give each its own."
    for cache in one.caches:
        for folder in other.caches:
            if _within(cache, folder) or _within(folder, cache):
                yield (
                    f"{both} would compile kernels into the same folder ({cache} and {folder}), and each start could undo the "
                    "other's; give each its own."
                )
    yield from _key_in_place(one, other)
    yield from _key_in_place(other, one)
    yield from _same_keys(both, one, other)


def _same_keys(both: str, one: Serving, other: Serving) -> Iterator[str]:
    theirs = {key.path: key for key in other.keys}
    for key in one.keys:
        there = theirs.get(key.path)
        if there is not None and (there.source != key.source or one.user != other.user):
            yield (
                f"{both} both write {key.path}, from {key.source} for {one.user} and from {there.source} for {other.user}; "
                "give each its own file."
            )


def _within(path: str, folder: str) -> bool:
    mine, theirs = os.path.normpath(path), os.path.normpath(folder)
    return mine == theirs or mine.startswith(f"{theirs}/")


def _meet(one: str, other: str) -> bool:
    return one == other or one in _ANY or other in _ANY


def _address(host: str) -> str:
    return "127.0.0.1" if host in ("localhost", "::1") else host


def named(servings: Iterable[Serving]) -> dict[str, Serving]:
    return {item.instance.name: item for item in servings}

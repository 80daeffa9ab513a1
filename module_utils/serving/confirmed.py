# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""From a confirmed change to the intended values of its instances and pair, on the controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from .. import knobs as knob_rules
from ..deployment import Instance
from ..managed.intended import Intended, read_intended, split, write_intended
from ..managed.three_way import base_of
from .edits import TEMPLATE_EXPORTS
from .last_confirmed import Last, caught_up


@dataclass(frozen=True)
class Confirmed:
    """A change that holds. ``edits`` and ``infos`` are those of its plan; ``at`` is ISO 8601 in UTC.

    :ivar taken_over: the interrupted change that it finished; what that one had written is confirmed with it
    """

    deployment: str
    instances: tuple[Instance, ...]
    edits: tuple[Mapping[str, Any], ...]
    infos: tuple[Mapping[str, Any], ...]
    pair_names: tuple[str, ...]
    change_id: str
    actor: str
    at: str
    taken_over: Optional[str] = None


def write_down(folder: str, done: Confirmed) -> list[str]:
    """Write what changed; return the names of the instances and pairs whose file was written.

    After ``deploy`` that is what the scripts have then. After any other verb it is what was intended before and what that verb changed,
    so that an edit by hand elsewhere in the script is still found by the next deploy. A record that says the same already stays.
    """
    pair = read_intended(folder, "pair", done.deployment)
    after: dict[str, dict[str, str]] = {}
    edited = set()
    for instance in done.instances:
        own = read_intended(folder, "instance", instance.name)
        former = base_of(pair.knobs if pair and instance.role != "router" else None, own.knobs if own else None)
        now = _after(instance.name, done, former)
        if now is None:
            continue
        after[instance.name] = now
        if now != former or own is None:
            edited.add(instance.name)
    return _write_all(folder, done, pair, after, edited) if edited else []


def catch_up(folder: str, done: Confirmed) -> list[str]:
    """Write what the machines confirmed later than what is written down, as a controller leaves it that died in between.

    Of ``done`` the plan's fields (``edits``, ``change_id``, ``actor``, ``at``) are not read: the machines' last change has them.
    """
    pair = read_intended(folder, "pair", done.deployment)
    after: dict[str, dict[str, str]] = {}
    edited: dict[str, Last] = {}
    for instance in done.instances:
        own = read_intended(folder, "instance", instance.name)
        of_pair = pair if instance.role != "router" else None
        former = base_of(of_pair.knobs if of_pair else None, own.knobs if own else None)
        newest = own or of_pair
        last = caught_up(_moves(instance.name, done.infos), former, newest.change_id if newest else None)
        if last is not None and (_kept(last.knobs) != former or own is None):
            edited[instance.name] = last
            after[instance.name] = _kept(last.knobs)
        elif former is not None:
            after[instance.name] = former
    if not edited:
        return []
    newest_of_all = max(edited.values(), key=lambda last: last.change_id)
    named = replace(done, change_id=newest_of_all.change_id, actor=newest_of_all.actor, at=newest_of_all.at)
    return _write_all(folder, named, pair, after, set(edited))


def _moves(name: str, infos: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [move for info in infos for move in (info["instances"].get(name) or {}).get("confirmed", ())]


def _write_all(
    folder: str, done: Confirmed, pair: Optional[Intended], after: Mapping[str, dict[str, str]], edited: set[str]
) -> list[str]:
    engines = {item.name: after[item.name] for item in done.instances if item.role != "router" and item.name in after}
    names = {*done.pair_names, *(pair.knobs if pair else ())}
    alike, own_knobs = split(engines, names) if len(engines) > 1 else ({}, dict(engines))
    own_knobs.update({name: knobs for name, knobs in after.items() if name not in engines})
    written = []
    if engines and (pair is None or dict(pair.knobs) != alike) and (alike or pair):
        written += _write(folder, "pair", done.deployment, alike, done)
    for name, knobs in own_knobs.items():
        there = read_intended(folder, "instance", name)
        if there is None or dict(there.knobs) != knobs or name in edited:
            written += _write(folder, "instance", name, knobs, done)
    return written


def _write(folder: str, kind: str, name: str, knobs: Mapping[str, str], done: Confirmed) -> list[str]:
    record = Intended(kind, name, knobs, done.change_id, done.actor, done.at)
    return [name if kind == "instance" else f"{name}.pair"] if write_intended(folder, record) else []


def _after(name: str, done: Confirmed, former: Optional[Mapping[str, str]]) -> Optional[dict[str, str]]:
    """The knobs of one instance after the change; None when its script is not a managed one."""
    for info in done.infos:
        offer = info.get("deploy", {}).get(name)
        if offer is not None:
            return _kept(offer["intended"])
        seen = info["instances"].get(name)
        if seen is None:
            continue
        if not seen.get("script", {}).get("managed"):
            return None
        knobs = _kept(former if former is not None else seen["intended"])
        for changes in (*_taken_over(name, info, done.taken_over), *_edited(name, done.edits)):
            for knob, value in changes.items():
                knobs.pop(knob, None)
                if value is not None:
                    knobs.update(_kept({knob: value}))
        return knobs
    return None


def _edited(name: str, edits: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Optional[str]]]:
    for edit in edits:
        if edit["instance"] == name:
            yield edit.get("expect") or ({edit["knob"]: edit["after"]} if edit["knob"] else {})


def _taken_over(name: str, info: Mapping[str, Any], change_id: Optional[str]) -> Iterator[Mapping[str, Optional[str]]]:
    former = info.get("open_change") or {}
    for item in former.get("files", ()) if change_id and former.get("id") == change_id else ():
        if item["instance"] == name and item.get("now") != "old":
            yield {knob: after for knob, (_before, after) in (item.get("knobs") or {}).items()}


def _kept(knobs: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in knobs.items() if name not in TEMPLATE_EXPORTS and not knob_rules.is_secret(name)
    }

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What ``deploy`` does with each knob: the last confirmed value, the machine and the variables compared. Pure.

``base`` is the value at the last confirmed change, ``host`` the one in the script on the machine, ``vars`` the one that the
inventory asks for; None is "not set" in each of them, and counts as a value.

============================  ========================================
host == vars                  nothing
host == base, vars moved      apply
host moved, vars == base      conflict: somebody edited the machine
all three differ              conflict
============================  ========================================

A conflict is decided by ``take``: ``host`` keeps what the machine has, ``vars`` overwrites it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .. import knobs
from ..pdops_error import PdopsError

TAKES = ("host", "vars")


@dataclass(frozen=True)
class Moved:
    """Who set a knob on the machine to what it has: from the journal. ``change_id`` is None for an edit outside a change."""

    change_id: Optional[str]
    actor: str
    at: str
    verb: str = ""


@dataclass(frozen=True)
class Decision:
    """One knob.

    :ivar act: ``none`` (the machine has what the variables ask for), ``apply`` (write ``vars``), ``keep`` (the machine's value
        stays, though the variables ask for another) or ``conflict``
    :ivar value: what the script has when the decision is carried out; for a conflict what it has now
    :ivar recorded: whether a change is confirmed on record to compare with; without one ``base`` is None
    """

    name: str
    base: Optional[str]
    host: Optional[str]
    vars: Optional[str]
    act: str
    value: Optional[str]
    recorded: bool = True
    moved: Optional[Moved] = None

    @property
    def sentence(self) -> str:
        """For people; secrets masked."""
        host, base, vars_ = (_told(self.name, value) for value in (self.host, self.base, self.vars))
        if self.act == "none":
            return f"{self.name} is {host}, as wanted"
        was = f"it was {base} at the last confirmed change" if self.recorded else "no confirmed change is on record"
        if self.act == "apply" and self.host == self.base and self.recorded:
            return f"{self.name} becomes {vars_} (now {host})"
        who = "by hand, or by a tool that left no entry in the journal"
        if self.moved:
            change = f"change {self.moved.change_id}" if self.moved.change_id else "an edit outside a change"
            who = f"by {change} of {self.moved.actor or 'somebody'} at {self.moved.at}"
        told = f"{self.name} is {host} on the machine, set {who}; {was}, and the variables ask for {vars_}"
        return f"{told}{ {'apply': '; the variables are taken', 'keep': '; the machine is kept'}.get(self.act, '') }"

    def as_dict(self) -> dict[str, Any]:
        """With secrets masked."""
        data = asdict(self)
        for side in ("base", "host", "vars", "value"):
            if data[side] is not None and knobs.is_secret(self.name):
                data[side] = knobs.MASK
        return {**data, "sentence": self.sentence}


def _told(name: str, value: Optional[str]) -> str:
    return "unset" if value is None else f"'{knobs.MASK if knobs.is_secret(name) else value}'"


def three_way(
    base: Optional[Mapping[str, str]],
    host: Optional[Mapping[str, str]],
    vars_: Mapping[str, str],
    take: Optional[str] = None,
    moved: Optional[Mapping[str, Moved]] = None,
) -> tuple[Decision, ...]:
    """One :class:`Decision` for each name that any of the three has: the variables' names first, in their order.

    :param base: None when no change is confirmed on record: then every difference between machine and variables is a conflict
    :param host: None when there is no script on the machine: then there is nothing to lose, and all of ``vars_`` is applied
    :param take: ``host`` or ``vars`` decides all conflicts; it decides nothing else
    :param moved: who set what the machine has, for the sentences (see :func:`who_moved`)
    :raises PdopsError: ``take`` is neither
    """
    if take is not None and take not in TAKES:
        raise PdopsError(f"take={take} is unknown; it must be host (keep what the machine has) or vars (overwrite it).")
    decisions = []
    there = host or {}
    for name in dict.fromkeys((*vars_, *there, *(base or {}))):
        was, has, wants = (base or {}).get(name), there.get(name), vars_.get(name)
        act = "apply"
        if has == wants:
            act = "none"
        elif host is not None and (base is None or has != was):
            act = {None: "conflict", "host": "keep", "vars": "apply"}[take]
        value = wants if act == "apply" else has
        decisions.append(Decision(name, was, has, wants, act, value, base is not None, (moved or {}).get(name)))
    return tuple(decisions)


def decided_knobs(decisions: Iterable[Decision], where: str) -> dict[str, str]:
    """The knobs that the script is to have.

    :param where: the instance, for the sentence
    :raises PdopsError: there are conflicts; the sentence shows each with who moved it, ``conflicts`` in its details has all
    """
    rows = list(decisions)
    open_ones = [row for row in rows if row.act == "conflict"]
    if open_ones:
        raise PdopsError(
            f"{where} was changed since the last confirmed change: {'; '.join(row.sentence for row in open_ones)}. "
            "Keep what the machine has with take=host (and write it into the variables), or overwrite it with take=vars.",
            conflicts=[row.as_dict() for row in open_ones],
        )
    return {row.name: row.value for row in rows if row.value is not None}


def to_write_down(decisions: Iterable[Decision]) -> dict[str, Optional[str]]:
    """What the inventory must say so that the next deploy finds no difference: the kept values; None is "take it out"."""
    return {row.name: row.host for row in decisions if row.act == "keep"}


def who_moved(journal: Sequence[Mapping[str, Any]], path: str, host: Mapping[str, str]) -> dict[str, Moved]:
    """Who set each knob to the value that the machine has, from pdops' journal (oldest entry first).

    Only the newest entry about a knob of this script counts, and only when it left the value that is there now: after
    an edit by hand nobody is named.

    :param path: the serve script, as the journal has it
    :param host: what the script exports now; a name that it lacks was taken out
    """
    newest: dict[str, tuple[Optional[str], Moved]] = {}
    for row in journal:
        named = row.get("knobs")
        if row.get("path") != path or not isinstance(named, Mapping):
            continue
        who = Moved(
            row.get("change_id"), str(row.get("actor") or ""), str(row.get("at") or ""), str(row.get("verb") or "")
        )
        for name, sides in named.items():
            if isinstance(sides, Mapping) and sides.get("before") != sides.get("after"):
                newest[str(name)] = (sides.get("after"), who)
    return {name: who for name, (after, who) in newest.items() if host.get(name) == after}


def base_of(pair: Optional[Mapping[str, str]], own: Optional[Mapping[str, str]]) -> Optional[dict[str, str]]:
    """The confirmed knobs of one instance from the intended values of its pair and its own; None when neither is on record."""
    return None if pair is None and own is None else {**(pair or {}), **(own or {})}

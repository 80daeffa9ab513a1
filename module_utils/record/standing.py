# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the record says about one knob, and about each value of it.

Two axes that do not depend on one another: the deployed value, and the verdict. A verdict belongs to a knob *and* a value: what is
suspected of 512 is not suspected of 256, and is still there when 512 comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .folder import Kept

#: Verdicts that came from people, not from figures.
JUDGED = ("suspected", "exonerated", "convicted")


@dataclass
class Debt:
    """A revert that somebody has to come back to; ``forgoing`` are the measured losses."""

    entry: Kept
    value: Optional[str]
    review_by: str
    forgoing: list[Mapping[str, Any]]


@dataclass
class Standing:
    """What is known of one value of a knob; ``entry`` is the one that made the verdict what it is."""

    verdict: str = "unknown"
    cause: str = ""
    entry: Optional[Kept] = None
    judgements: list[Kept] = field(default_factory=list)
    debt: Optional[Debt] = None

    @property
    def told(self) -> str:
        """The verdict with its cause; of one that was cleared and then judged by its figures again, both."""
        if not self.cause:
            return self.verdict
        if self.verdict in JUDGED:
            return f"{self.verdict} ({self.cause})"
        return f"{self.verdict}, exonerated ({self.cause})" if self.judgements else self.verdict


@dataclass
class Knob:
    """What the record says about one knob.

    ``deployed`` is by instance, and has only instances that an entry names; ``value`` is the one in question (None is "unset"): the
    one that was put in place last, or reverted last; ``verdict`` is that of this value. ``moves`` are the entries that moved a
    deployed value or a verdict, oldest first: after one of them, prose about the knob has to be looked at again. ``about`` is the
    value that a suspicion or a revert is about, by the entry's id.
    """

    name: str
    deployed: dict[str, Optional[str]] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=dict)
    value: Optional[str] = None
    standings: dict[Optional[str], Standing] = field(default_factory=dict)
    measures: dict[Optional[str], dict[str, Kept]] = field(default_factory=dict)
    about: dict[str, Optional[str]] = field(default_factory=dict)
    moves: list[Kept] = field(default_factory=list)
    entries: list[Kept] = field(default_factory=list)
    unverified_since: str = ""
    unverified_why: str = ""

    def standing(self, value: Optional[str]) -> Standing:
        """Of a value of which the record knows nothing, an empty one."""
        return self.standings.get(value) or Standing()

    @property
    def verdict(self) -> str:
        return self.standing(self.value).verdict

    @property
    def cause(self) -> str:
        return self.standing(self.value).cause

    @property
    def verdict_told(self) -> str:
        return self.standing(self.value).told

    @property
    def debts(self) -> list[Debt]:
        """One per value, the oldest first."""
        found = [one.debt for one in self.standings.values() if one.debt is not None]
        return sorted(found, key=lambda debt: debt.entry.at)

    @property
    def suspected(self) -> list[Optional[str]]:
        """The values that are suspected, deployed or not."""
        return [value for value, one in self.standings.items() if one.verdict == "suspected"]

    def left_for(self, value: Optional[str]) -> Optional[Kept]:
        """The revert that took a value away for a reason that was no suspicion (that one is a verdict), if nobody has put the
        value in place or cleared it since."""
        for kept in reversed(self.entries):
            if kept.kind == "revert" and kept.data["before"] == value and kept.data["after"] != value:
                return None if kept.data["suspicion"] else kept
            cleared = kept.kind == "exonerate" and kept.data.get("value", value) == value
            placed = kept.kind in ("apply", "restore", "revert") or kept.data.get("outcome") == "undone"
            if cleared or (placed and kept.data.get("after", ...) == value):
                return None
        return None

    def in_place(self, value: Optional[str]) -> bool:
        """Whether a value is deployed somewhere."""
        return value is not None and value in self.deployed.values()

    def measured(self, value: Optional[str]) -> list[Kept]:
        """The newest measurement of a value for each load, in the order of the loads' first mention."""
        return list(self.measures.get(value, {}).values())

    @property
    def elsewhere(self) -> list[Kept]:
        """The newest measurements of the values that are not in question: they outlast the next value that is set."""
        return [kept for value in self.measures if value != self.value for kept in self.measured(value)]

    @property
    def judged_elsewhere(self) -> list[tuple[Optional[str], Standing]]:
        """Values that are not in question, and have a verdict from people or are deployed on some instance."""
        return [
            (value, one)
            for value, one in self.standings.items()
            if value != self.value and (one.verdict in JUDGED or self.in_place(value))
        ]

    def is_forgone(self, kept: Kept) -> bool:
        """Whether a measured gain is had nowhere now, since another value is deployed."""
        value = kept.data["value"]
        gain = kept.data["effect_pct"] > 0 and measured_verdict(kept.data) != "rejected"
        held = self.standing(value).verdict not in ("convicted", "rejected")
        return gain and held and bool(self.deployed) and value not in self.deployed.values()


def shown(value: Optional[str], name: str = "") -> str:
    """``NAME=value`` or ``NAME unset``; of no name, ``=value`` or ``unset``."""
    return f"{name} unset".lstrip() if value is None else f"{name}={value}"


def verdict_of(measures: Iterable[Kept]) -> str:
    """What the measurements of one value say together; '' when none of them says anything.

    A figure without an interval and without a verdict says nothing: nobody knows its noise. One load that got worse is
    enough to reject (evidence: superior at one load and not inferior at the others).
    """
    said = {measured_verdict(kept.data) for kept in measures} - {""}
    for verdict in ("rejected", "adopted", "inconclusive"):
        if verdict in said:
            return verdict
    return ""


def measured_verdict(data: Mapping[str, Any]) -> str:
    if "verdict" in data:
        return str(data["verdict"])
    if "low_pct" in data:
        return "adopted" if data["low_pct"] > 0 else "rejected" if data["high_pct"] < 0 else "inconclusive"
    return ""

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""For how long a run kept the deployment from answering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .story import Event, Member, Story, read_story


@dataclass(frozen=True)
class Outage:
    """From ``began`` to ``ended`` (seconds since the epoch) requests could fail; ``ended`` is None while they still can.

    ``taken_over``: it had begun in the interrupted change that this run took over.
    """

    began: float
    ended: Optional[float]
    taken_over: bool = False

    @property
    def seconds(self) -> Optional[float]:
        return None if self.ended is None else self.ended - self.began


def outage_of(story: Story) -> Optional[Outage]:
    """The longest possible outage: from the first stop of an instance that has no twin until the last proof.

    A request needs one of each role, so the stop of a decode that has a twin in the router is no outage. What
    ends it is the end of the last gates, or of the rollback; a rollback that failed leaves it open. What an
    interrupted change had stopped, which this one took over, counts from then on.
    """
    own = [
        item.began
        for item in story.events
        if item.kind in ("stop", "drain") and item.began is not None and _alone(item.instance, story.members)
    ]
    former = [step.at for item in story.events for step in item.out_before if _alone(step.instance, story.members)]
    first = min([*own, *former], default=None)
    if first is None:
        return None
    proofs = [item.ended for item in story.events if _proof(item) and item.ended is not None and item.ended >= first]
    served = story.outcome in ("confirmed", "rolled-back")
    return Outage(first, max(proofs) if served and proofs else None, taken_over=first in former)


def seconds_to_expect(events: Iterable[Mapping[str, Any]], instances: Iterable[Mapping[str, Any]]) -> Optional[float]:
    """Of a change that is about to be confirmed, what its report will call the outage: the next plan expects that.

    None without an outage, and of one that began in an interrupted change, whose standstill tells nothing of the next.
    """
    told = {"outcome": "confirmed", "events": list(events), "instances": list(instances)}
    outage = outage_of(read_story(told))
    return None if outage is None or outage.taken_over else outage.seconds


def _alone(instance: str, members: tuple[Member, ...]) -> bool:
    role = next((member.role for member in members if member.name == instance), "")
    return not role or sum(member.role == role for member in members) < 2


def _proof(event: Event) -> bool:
    return event.kind in ("gates", "readd", "rollback") and event.result == "ok"

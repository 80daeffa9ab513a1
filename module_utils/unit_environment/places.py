# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where a service manager's environment for a unit comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Dict, FrozenSet, Mapping, Optional, Tuple

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

ACTIVE, OVERRIDDEN, REMOVED, PENDING, DOUBTED = "active", "overridden", "removed", "pending", "doubted"


@dataclass(frozen=True)
class Place:
    """One place outside the script that gives a name a value.

    :ivar value: not masked; None where it is not known
    :ivar kind: ``unit`` (the unit file), ``drop-in``, ``environment-file``, ``pass`` (PassEnvironment=), ``manager``
        (what systemd passes to every unit), ``program`` and ``supervisord`` (sections of supervisord.conf) or
        ``supervisord-environ`` (what supervisord itself was started with)
    :ivar path: the file; None where the value is in no file
    :ivar line: 1-based line in it
    :ivar state: ``active``, ``overridden`` (a later place wins, or the list is reset), ``removed`` (UnsetEnvironment=),
        ``pending`` (in the file, but the manager has not read the file again yet) or ``doubted`` (the last one that
        could be read; a source that could not be read comes later and may override it)
    """

    name: str
    value: Optional[str]
    kind: str
    path: Optional[str] = None
    line: Optional[int] = None
    state: str = ACTIVE

    @property
    def told(self) -> str:
        """The place in a few words."""
        if self.path is None:
            return {
                "manager": "systemctl show-environment",
                "supervisord-environ": "supervisord's own environment",
            }.get(self.kind, "systemd's reading of the unit")
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class UnitEnvironment:
    """What a unit's process gets before its serve script runs.

    :ivar places: all places, in the order in which the manager applies them
    :ivar values: what surely results, by name; not masked
    :ivar taken_off: names that are surely not set, whatever the places say
    :ivar command: what the unit runs, as the manager tells it; may hold secrets
    :ivar unread: sources that could not be read, each as a sentence: anything may stand there
    :ivar notes: sentences for people
    :ivar files: ``EnvironmentFile=`` files by path: ``read``, ``absent`` or ``not readable``
    """

    places: Tuple[Place, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unread: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    taken_off: FrozenSet[str] = frozenset()
    command: str = ""

    @property
    def complete(self) -> bool:
        """Whether a name that is missing in ``values`` is surely not set."""
        return not self.unread

    def winner(self, name: str) -> Optional[Place]:
        """The place that decides the name, as far as the sources could be read."""
        return next((place for place in self.places if place.name == name and place.state in (ACTIVE, DOUBTED)), None)


class Layers:
    """Places collected one after the other; a later one of a name overrides the earlier ones."""

    def __init__(self) -> None:
        self._places: Dict[int, Place] = {}
        self._order = 0
        self._now: Dict[str, int] = {}

    def add(self, place: Place) -> None:
        key = self._order
        self._order += 1
        self._places[key] = place
        if place.state == ACTIVE:
            self._lose(place.name, OVERRIDDEN)
            self._now[place.name] = key

    def remove(self, name: str, value: Optional[str] = None) -> None:
        """Take a name off; with ``value`` only when it has that one."""
        key = self._now.get(name)
        if key is not None and value is not None and self._places[key].state == DOUBTED:
            return
        if key is not None and (value is None or self._places[key].value == value):
            self._lose(name, REMOVED)

    def doubt(self) -> None:
        """Something that could not be read comes here: it may override all before it."""
        for key in self._now.values():
            self._places[key] = replace(self._places[key], state=DOUBTED)

    def _lose(self, name: str, state: str) -> None:
        key = self._now.pop(name, None)
        if key is not None:
            self._places[key] = replace(self._places[key], state=state)

    @property
    def places(self) -> Tuple[Place, ...]:
        return tuple(self._places.values())

    def values(self) -> Dict[str, str]:
        sure = {name: self._places[key] for name, key in self._now.items()}
        found = {name: place.value for name, place in sure.items() if place.state == ACTIVE}
        return {name: value for name, value in found.items() if value is not None}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Where a service manager's environment for a unit comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

ACTIVE, OVERRIDDEN, REMOVED, PENDING = "active", "overridden", "removed", "pending"


@dataclass(frozen=True)
class Place:
    """One place outside the script that gives a name a value.

    :ivar value: not masked; None where it is not known
    :ivar kind: ``unit`` (the unit file), ``drop-in``, ``environment-file``, ``pass`` (PassEnvironment=), ``manager``
        (what systemd passes to every unit), ``program`` and ``supervisord`` (sections of supervisord.conf) or
        ``supervisord-environ`` (what supervisord itself was started with)
    :ivar path: the file; None where the value is in no file
    :ivar line: 1-based line in it
    :ivar state: ``active``, ``overridden`` (a later place wins, or the list is reset), ``removed`` (UnsetEnvironment=)
        or ``pending`` (in the file, but the manager has not read the file again yet)
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
    :ivar values: what results, by name; not masked
    :ivar unread: sources that could not be read, each as a sentence: anything may stand there
    :ivar notes: sentences for people
    :ivar files: ``EnvironmentFile=`` files by path: ``read``, ``absent`` or ``not readable``
    """

    places: Tuple[Place, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unread: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether a name that is missing in ``values`` is surely not set."""
        return not self.unread

    def winner(self, name: str) -> Optional[Place]:
        return next((place for place in self.places if place.name == name and place.state == ACTIVE), None)


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
        if key is not None and (value is None or self._places[key].value == value):
            self._lose(name, REMOVED)

    def _lose(self, name: str, state: str) -> None:
        key = self._now.pop(name, None)
        if key is not None:
            before = self._places[key]
            self._places[key] = Place(before.name, before.value, before.kind, before.path, before.line, state)

    @property
    def places(self) -> Tuple[Place, ...]:
        return tuple(self._places.values())

    def values(self) -> Dict[str, str]:
        found = {name: self._places[key].value for name, key in self._now.items()}
        return {name: value for name, value in found.items() if value is not None}

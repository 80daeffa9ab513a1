# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What becomes of a knob: the unit's environment, then the serve script, then the process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..knobs import is_secret
from ..scripts.quoting import written
from ..scripts.reading import Export, Reading, read_script
from ..scripts.state import COMPUTED, INHERITED
from .places import DOUBTED, NAME, OVERRIDDEN, PENDING, REMOVED, Place, UnitEnvironment

#: A remark's code and sentence.
Remark = tuple[str, str]

# What systemd, supervisord, a login or bash itself gives to a process: never called a knob, nor called absent.
_GIVEN_PREFIXES = ("SUPERVISOR_", "BASH", "LC_", "XDG_", "SYSTEMD_", "MEMORY_PRESSURE_")
_GIVEN_NAMES = (
    "HOSTNAME HOSTTYPE MACHTYPE OSTYPE OPTIND OPTERR OPTARG PS4 PIPESTATUS REPLY INVOCATION_ID JOURNAL_STREAM "
    "NOTIFY_SOCKET WATCHDOG_PID WATCHDOG_USEC LISTEN_FDS LISTEN_PID MAINPID MANAGERPID CREDENTIALS_DIRECTORY "
    "RUNTIME_DIRECTORY STATE_DIRECTORY CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY EXIT_CODE EXIT_STATUS "
    "SERVICE_RESULT MAIL LANGUAGE container"
)
_GIVEN = frozenset((*INHERITED, *COMPUTED, *_GIVEN_NAMES.split()))
_REFERENCE = re.compile(rb"\$(?:\{[#!]?)?([A-Za-z_][A-Za-z0-9_]*)")


# Behind a value makes another one of it.
_OTHER = "_of_another_kind"


def _front(values: Mapping[str, str], missing: Iterable[str]) -> bytes:
    """Lines in front of a script, one a name, by which it inherits the values."""
    lines = [f"export {name}={_source(value)}\n" for name, value in sorted(values.items())]
    lines += [f"unset {name}\n" for name in missing]
    return "".join(lines).encode("utf-8", "surrogateescape")


def is_given(name: str) -> bool:
    """Whether a name belongs to the machinery and not to the deployment."""
    return name in _GIVEN or name.startswith(_GIVEN_PREFIXES)


@dataclass(frozen=True)
class Knob:
    """What is known of one name.

    :ivar value: what the next start gives to the engine; None when it is not set or not known
    :ivar decided: ``script``, ``unit``, ``run`` (only a run tells) or ``nowhere``
    :ivar place: where the value stands, in words
    :ivar remarks: what an operator should know, the most important first
    """

    name: str
    value: Optional[str]
    decided: str
    place: str
    exports: tuple[Export, ...]
    unit_places: tuple[Place, ...]
    remarks: tuple[Remark, ...]


class Effect:
    """A serve script as it runs with a unit's environment.

    bash's rules decide, by the script reader: the unit's values are put in front of the script as if it had
    inherited them, so that ``${NAME:-default}``, ``unset`` and conditions come out as in a run.
    """

    def __init__(self, script: bytes, environment: UnitEnvironment) -> None:
        self.environment = environment
        self.alone = read_script(script)
        values = {
            name: value for name, value in environment.values.items() if NAME.match(name) and name not in COMPUTED
        }
        mentioned = {export.name for export in self.alone.exports}
        mentioned |= {match.decode() for match in _REFERENCE.findall(script)}
        missing = sorted(
            name
            for name in mentioned | environment.taken_off
            if name not in values
            and (name in environment.taken_off or (environment.complete and not is_given(name)))
            and NAME.match(name)
        )
        self.shift = len(values) + len(missing)
        self.reading: Reading = read_script(_front(values, missing) + script)
        # With other values, to see what depends on them.
        changed = {name: value + _OTHER for name, value in values.items()}
        self._otherwise = read_script(_front(changed, missing) + script).active()
        self._exports: dict[str, list[Export]] = {}
        for export in self.reading.exports:
            if export.line > self.shift:
                self._exports.setdefault(export.name, []).append(export)
        self._active = self.reading.active()

    def names(self) -> list[str]:
        """Every knob of the script in whatever state, and what the unit's own files set."""
        own = {place.name for place in self.environment.places if place.kind not in ("manager", "supervisord-environ")}
        return sorted({name for name in set(self._exports) | own if name in self._exports or not is_given(name)})

    def knob(self, name: str, path: str) -> Knob:
        """:arg path: of the script, for the words"""
        exports = tuple(self._exports.get(name, ()))
        places = tuple(place for place in self.environment.places if place.name == name)
        outside = self.environment.winner(name)
        active = self._active.get(name)
        value, decided, place = None, "nowhere", "not set"
        conditional = _lines(export.line - self.shift for export in exports if export.state == "conditional")
        if active is not None and active.line > self.shift:
            value, decided, place = active.value, "script", f"{path}:{active.line - self.shift}"
        elif active is not None and outside is not None:
            value, decided, place = active.value, "unit", outside.told
        if conditional and value is None:
            decided, place = "run", f"{path}:{conditional}"
        elif active is not None and value is None:
            decided = "run"
        elif active is None and not self.environment.complete and name not in self.environment.taken_off:
            decided, place = "run", outside.told if outside is not None else "not known"
        remarks = tuple(self._remarks(name, exports, places, active, decided))
        return Knob(name, value, decided, place, exports, places, remarks)

    def _remarks(
        self, name: str, exports: tuple[Export, ...], places: tuple[Place, ...], active: Optional[Export], decided: str
    ) -> Iterable[Remark]:
        outside = self.environment.winner(name)
        in_script = active is not None and active.line > self.shift
        if outside is not None and in_script and active is not None:
            otherwise = self._otherwise.get(name)
            if otherwise is not None and otherwise.value == active.value is not None:
                yield "shadowed", f"{outside.told} sets it too, but the script wins"
            elif active.value == outside.value:
                yield "from-unit", f"the script takes the value of {outside.told}"
            elif outside.state != DOUBTED:
                yield "with-unit", f"the script decides by the value of {outside.told}"
        elif in_script and active is not None and active.value is None:
            yield "at-run-time", "its value is only known when the script runs"
        elif outside is not None and decided == "nowhere":
            yield "taken-off", f"{outside.told} sets it, but the script takes it off"
        for state, words in (
            ("conditional", "exported under a condition in line"),
            ("overridden", "also exported, without effect, in line"),
            ("dead", "exported where it has no effect in line"),
            ("commented", "commented out in line"),
        ):
            lines = _lines(export.line - self.shift for export in exports if export.state == state)
            if lines:
                yield state, f"{words} {lines}"
        for place in places:
            if place.state == REMOVED:
                yield "removed", f"{place.told} sets it, but UnsetEnvironment= takes it off"
            elif place.state == PENDING:
                yield "pending", f"{place.told} is not loaded by systemd yet (daemon-reload)"
        hidden = [place.told for place in places if outside is not None and place.state == OVERRIDDEN]
        if hidden:
            yield "overridden", f"also in {', '.join(dict.fromkeys(hidden))}, without effect"
        if decided == "run" and not self.environment.complete:
            yield "not-readable", self.environment.unread[0]

    def line(self, export: Export) -> int:
        """The export's line in the script itself."""
        return export.line - self.shift


def running_remark(knob: Knob, seen: Mapping[str, Any]) -> Optional[Remark]:
    """Whether the process has it as the next start would."""
    if seen["state"] == "unknown":
        return "not-observable", f"running value not observable ({seen['evidence']})"
    if knob.decided == "run":
        return None
    intended = knob.value
    if seen.get("engine_changed_it_to") is not None:
        return "engine-changed", f"the engine itself has set it to {seen['engine_changed_it_to']}"
    if seen["state"] == "absent":
        return None if intended is None else ("stale", "the process runs without it")
    if intended is None:
        return "stale", "the process has it, and the next start would not"
    if is_secret(knob.name):
        return None  # what was observed comes masked
    return None if seen["value"] == intended else ("stale", "the process has another value")


def _source(value: str) -> str:
    text = value.encode("utf-8", "surrogateescape").decode("latin-1")
    return written(text, "''").encode("latin-1").decode("utf-8", "surrogateescape")


def _lines(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(set(numbers)))

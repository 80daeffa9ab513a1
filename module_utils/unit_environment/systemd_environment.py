# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The environment that systemd gives to a unit, and the file and line of each value.

systemd itself is asked what it has loaded (``systemctl show``); the files are read to find the places. Where both
differ, systemd's word counts until the next daemon-reload. Precedence is that of systemd.exec(5), "Environment
variables in spawned processes": the manager's own, PassEnvironment=, Environment=, EnvironmentFile= in order, and
UnsetEnvironment= at the end. What systemd computes for each run (INVOCATION_ID, USER, ...) is left out.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ..scripts.reading import read_script
from .env_file import COMMENTS_END_SINCE, read_env_file
from .machine import Machine, is_pattern
from .places import ACTIVE, NAME, OVERRIDDEN, PENDING, Layers, Place, UnitEnvironment
from .unit_file import Specifiers, decoded, read_unit_file, shown_words, words

PROPERTIES = (
    "FragmentPath,DropInPaths,Environment,EnvironmentFiles,PassEnvironment,UnsetEnvironment,NeedDaemonReload,ExecStart"
)
READ, ABSENT, NOT_READABLE = "read", "absent", "not readable"


def environment_of(unit: str, machine: Optional[Machine] = None) -> UnitEnvironment:
    """What the processes of a system unit are started with.

    PdopsError when systemd cannot be asked. A file that cannot be read is told in ``unread``.
    """
    return _Reader(unit, machine or Machine()).read()


class _Shown:
    """``systemctl show``: one line a property, EnvironmentFiles on several."""

    def __init__(self, output: bytes) -> None:
        self._found: Dict[str, List[str]] = {}
        for line in output.decode("latin-1").split("\n"):
            key, equals, value = line.partition("=")
            if equals:
                self._found.setdefault(key, []).append(value)

    def text(self, key: str) -> str:
        return decoded(self._found.get(key, [""])[0])

    def list(self, key: str) -> List[str]:
        return shown_words(self._found.get(key, [""])[0])

    def files(self) -> List[Tuple[str, bool]]:
        """Path or pattern, and whether its absence is ignored."""
        found = []
        for value in self._found.get("EnvironmentFiles", []):
            match = re.match(r"(.*) \(ignore_errors=(yes|no)\)\Z", decoded(value), re.DOTALL)
            if match:
                found.append((match.group(1), match.group(2) == "yes"))
        return found


class _Reader:
    def __init__(self, unit: str, machine: Machine) -> None:
        self.unit = unit if unit.endswith(".service") else unit + ".service"
        self.machine = machine
        self.shown = _Shown(machine.systemctl("show", "-p", PROPERTIES, self.unit))
        self.layers = Layers()
        self.unread: List[str] = []
        self.notes: List[str] = []
        self.files: Dict[str, str] = {}

    def read(self) -> UnitEnvironment:
        self._manager()
        self._passed()
        self._environment()
        version = self._version()
        for path, ignored in self.shown.files():
            self._file_or_pattern(path, ignored, version)
        taken_off = set()
        for item in self.shown.list("UnsetEnvironment"):
            name, equals, value = item.partition("=")
            self.layers.remove(name, value if equals else None)
            if not equals:
                taken_off.add(name)
        if self.shown.text("NeedDaemonReload") == "yes":
            self.notes.append(
                "the unit's files have changed since systemd read them: a start by hand keeps the old environment until "
                f"systemctl daemon-reload, a restart by pdops reloads first ({self._pending()})"
            )
        return UnitEnvironment(
            self.layers.places,
            self.layers.values(),
            tuple(self.unread),
            tuple(self.notes),
            dict(self.files),
            frozenset(taken_off),
            _command(self.shown.text("ExecStart")),
        )

    def _version(self) -> int:
        match = re.match(rb"systemd (\d+)", self.machine.systemctl("--version"))
        return int(match.group(1)) if match else COMMENTS_END_SINCE

    def _manager(self) -> None:
        text = self.machine.systemctl("show-environment")
        lines = [b"export " + line for line in text.split(b"\n") if b"=" in line]
        for name, export in read_script(b"\n".join(lines)).active().items():
            self.layers.add(Place(name, export.value, "manager"))

    def _passed(self) -> None:
        wanted = self.shown.list("PassEnvironment")
        if not wanted:
            return
        try:
            environ = self.machine.manager_environ()
        except OSError:
            self.unread.append(
                f"PassEnvironment={' '.join(wanted)}: the environment of PID 1 is not readable by this user"
            )
            self.layers.doubt()
            return
        for name in wanted:
            if name in environ:
                self.layers.add(Place(name, environ[name], "pass", "/proc/1/environ"))

    def _environment(self) -> None:
        """Environment= of the unit file and its drop-ins; the values are systemd's."""
        loaded = dict(item.partition("=")[::2] for item in self.shown.list("Environment"))
        fragment = self.shown.text("FragmentPath")
        paths = [(fragment, "unit")] if fragment else []
        paths += [(path, "drop-in") for path in self.shown.list("DropInPaths")]
        found = self._in_files(paths)
        last = {place.name: index for index, place in enumerate(found) if place.state == ACTIVE}
        for index, place in enumerate(found):
            now = loaded.get(place.name)
            if last.get(place.name) != index:
                self.layers.add(_with(place, place.value, OVERRIDDEN))
            elif now is None or (place.value is not None and place.value != now):
                self.layers.add(_with(place, place.value, PENDING))
            else:
                self.layers.add(_with(place, now, ACTIVE))
        held = self.layers.values()
        kinds = {place.name: place.kind for place in self.layers.places if place.state == ACTIVE}
        for name, value in loaded.items():
            if kinds.get(name) not in ("unit", "drop-in") or held.get(name) != value:
                self.layers.add(Place(name, value, "unit"))
        if self.shown.text("NeedDaemonReload") == "yes":
            known = [path for path, _kind in paths]
            new = [(path, "drop-in") for path in self.machine.dropins(self.unit) if path not in known]
            for place in self._in_files(new):
                self.layers.add(_with(place, place.value, PENDING))

    def _in_files(self, paths: Sequence[Tuple[str, str]]) -> List[Place]:
        fragment = self.shown.text("FragmentPath")
        specifiers = Specifiers(self.unit, fragment)
        found: List[Place] = []
        for path, kind in paths:
            try:
                data = self.machine.read(path)
            except OSError as error:
                # Nothing is lost but the lines: systemd tells the values.
                self.notes.append(f"{path} cannot be read ({error.strerror}): its lines are not known")
                continue
            for setting in read_unit_file(data):
                if setting.key != "Environment":
                    continue
                if not setting.value:
                    found = [_with(place, place.value, OVERRIDDEN) for place in found]
                    continue
                assigned, whole = words(setting.value)
                if not whole:
                    self.notes.append(
                        f"{path}:{setting.line_at(0)}: quotes or a backslash that systemd does not understand: the rest of "
                        "this Environment= is passed over"
                    )
                for offset, word in assigned:
                    resolved = specifiers.resolved(decoded(word))
                    name, equals, value = (decoded(word) if resolved is None else resolved).partition("=")
                    if equals and NAME.match(name):
                        line = setting.line_at(offset)
                        found.append(Place(name, None if resolved is None else value, kind, path, line))
        return found

    def _file_or_pattern(self, path: str, ignored: bool, version: int) -> None:
        if not is_pattern(path):
            self._file(path, ignored, version)
            return
        try:
            matches = self.machine.matches(path)
        except OSError as error:
            self._not_readable(path, error)
            return
        if not matches:
            self._absent(path, ignored)
        for match in matches:
            self._file(match, ignored, version)

    def _file(self, path: str, ignored: bool, version: int) -> None:
        try:
            data = self.machine.read(path)
        except (FileNotFoundError, NotADirectoryError):
            self._absent(path, ignored)
            return
        except IsADirectoryError:
            self.files[path] = ABSENT
            if not ignored:
                self.notes.append(f"EnvironmentFile={path} is a folder, so the unit does not start")
            return
        except OSError as error:
            self._not_readable(path, error)
            return
        read = read_env_file(data, version)
        self.files[path] = READ
        if read.error:
            effect = "its values are missing" if ignored else "the unit does not start"
            self.notes.append(f"{path}: {read.error}; {effect}")
        for line, name in read.void:
            what = " (systemd knows no export here)" if name.startswith("export ") else ""
            self.notes.append(f"{path}:{line}: systemd passes this line over{what}: what stands before = is no name")
        for item in read.assigned:
            self.layers.add(Place(item.name, item.value, "environment-file", path, item.line))

    def _absent(self, path: str, ignored: bool) -> None:
        self.files[path] = ABSENT
        if not ignored:
            self.notes.append(f"EnvironmentFile={path} does not exist, so the unit does not start")

    def _not_readable(self, path: str, error: OSError) -> None:
        self.files[path] = NOT_READABLE
        self.unread.append(f"{path} is not readable ({error.strerror}); it may set any knob (run with become)")
        self.layers.doubt()

    def _pending(self) -> str:
        pending = [place.told for place in self.layers.places if place.state == PENDING]
        return f"not in effect yet: {', '.join(dict.fromkeys(pending))}" if pending else "no Environment= differs"


def _command(shown: str) -> str:
    match = re.search(r"argv\[\]=(.*?) ; ignore_errors=", shown, re.DOTALL)
    return match.group(1) if match else ""


def _with(place: Place, value: Optional[str], state: str) -> Place:
    return Place(place.name, value, place.kind, place.path, place.line, place.state if place.state != ACTIVE else state)

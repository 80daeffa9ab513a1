# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The environment that supervisord gives to a program, and the file and line of each value (supervisor 4.3).

supervisord's own environment comes first, then ``environment=`` of [supervisord], then that of [program:x].
supervisord does not tell what it has loaded, so the files are read as it reads them at its start.
"""

from __future__ import annotations

import configparser
import glob
import os
import re
import shlex
import time
import xmlrpc.client
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from ..pdops_error import PdopsError
from ..processes import age_s, read_environ, read_process
from ..services.supervisor_rpc import Rpc, read_settings
from .places import Layers, Place, UnitEnvironment

_PROGRAMS = ("program:", "fcgi-program:")
_SECTION = re.compile(r"\[([^\]]+)\]")
_KEY = re.compile(r"([^\s=:;#\[][^=:]*?)\s*[=:]")


def environment_of(unit: str, config: Optional[str] = None) -> UnitEnvironment:
    """What a program's process is started with. PdopsError when the configuration cannot be read.

    :arg unit: NAME or GROUP:NAME
    :arg config: path of supervisord.conf; None looks where Debian and PyPI put it
    """
    settings = read_settings(config)
    notes: List[str] = []
    unread: List[str] = []
    own: Dict[str, str] = {}
    started = None
    try:
        pid = int(Rpc(settings).call("getPID"))
        environ = read_environ(pid)
        own = dict(environ.values)
        process = read_process(pid)
        started = time.time() - age_s(process.started_ticks) if process else None
        if not environ.whole:
            unread.append(
                f"the environment of supervisord, process {pid}, is {environ.why}; it may set any knob (run with become)"
            )
    except (PdopsError, xmlrpc.client.Fault, ValueError) as error:
        unread.append(f"the environment of supervisord is not known ({str(error).rstrip('.')})")
    files = Configuration(settings.config, own)
    layers = Layers()
    for name, value in own.items():
        layers.add(Place(name, value, "supervisord-environ"))
    section = files.section_of(unit)
    if section is None:
        notes.append(f"{settings.config} has no program {unit} any more")
    for kind, each in (("supervisord", "supervisord"), ("program", section)):
        if each is None:
            continue
        for place in files.places(each, kind, unit, notes):
            layers.add(place)
    changed = [path for path in files.paths if started is not None and os.path.getmtime(path) > started + 1.0]
    if changed:
        notes.append(
            f"{', '.join(changed)} changed after supervisord started: whether it has read it again (supervisorctl update) is not known"
        )
    command = files.command(section) if section is not None else ""
    return UnitEnvironment(layers.places, layers.values(), tuple(unread), tuple(notes), command=command)


@dataclass(frozen=True)
class _Found:
    """Where the ``environment=`` that counts for a section stands."""

    path: str
    lines: Tuple[Tuple[int, str], ...]


class Configuration:
    """supervisord.conf with its [include] files, read as supervisord reads them."""

    def __init__(self, path: str, environ: Mapping[str, str]) -> None:
        self.here = os.path.dirname(os.path.abspath(path))
        self.expansions = {f"ENV_{name}": value for name, value in environ.items()}
        self.expansions.update(here=self.here, host_node_name=os.uname().nodename)
        self.paths: List[str] = []
        self._where: Dict[str, _Found] = {}
        self._parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"), strict=False)
        self._read(path)
        base = os.path.dirname(os.path.abspath(path))
        for pattern in self._expanded(self._parser.get("include", "files", fallback=""), {}).split():
            for name in sorted(glob.glob(os.path.join(base, pattern))):
                self._read(name)

    def _read(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self._parser.read_string(text, path)
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise PdopsError(f"{path} cannot be read as supervisord's configuration ({_first(error)}).") from None
        self.paths.append(path)
        folder = os.path.dirname(os.path.abspath(path))
        for section in self._parser.sections():
            for key, value in self._parser.items(section):
                if value and "%(here)s" in value:
                    self._parser.set(section, key, value.replace("%(here)s", folder))
        self._find_lines(path, text)

    def _find_lines(self, path: str, text: str) -> None:
        section, found = "", None  # type: Tuple[str, Optional[List[Tuple[int, str]]]]
        for number, line in enumerate(text.split("\n"), 1):
            header = _SECTION.match(line)
            key = _KEY.match(line)
            if header:
                section, found = header.group(1), None
            elif key and not line[:1].isspace():
                found = [] if key.group(1).lower() == "environment" else None
            if found is not None and not header:
                found.append((number, line))
                self._where[section] = _Found(path, tuple(found))

    def _expanded(self, text: str, more: Mapping[str, object]) -> str:
        try:
            return text % {**self.expansions, **more}
        except (KeyError, ValueError, TypeError) as error:
            raise PdopsError(f"%-expansion failed: {_first(error)}") from None

    def section_of(self, unit: str) -> Optional[str]:
        """The program section that runs a unit."""
        found = self._numbered(unit)
        return found[0] if found else None

    def _numbered(self, unit: str) -> Optional[Tuple[str, Dict[str, object]]]:
        group, _colon, name = unit.rpartition(":")
        for section in self._parser.sections():
            kind = next((kind for kind in _PROGRAMS if section.startswith(kind)), None)
            if kind is None:
                continue
            program = section[len(kind) :].strip()
            groups = [
                other[6:].strip()
                for other in self._parser.sections()
                if other.startswith("group:")
                and program in [item.strip() for item in self._parser.get(other, "programs", fallback="").split(",")]
            ] or [program]
            if group and group not in groups:
                continue
            pattern = self._parser.get(section, "process_name", fallback="%(program_name)s")
            first = int(self._parser.get(section, "numprocs_start", fallback="0"))
            count = int(self._parser.get(section, "numprocs", fallback="1"))
            for number in range(first, first + count):
                more = {
                    "program_name": program,
                    "group_name": group or groups[0],
                    "process_num": number,
                    "numprocs": count,
                }
                if self._expanded(pattern, more) == name:
                    return section, more
        return None

    def command(self, section: str) -> str:
        return self._parser.get(section, "command", fallback="")

    def places(self, section: str, kind: str, unit: str, notes: List[str]) -> List[Place]:
        """What ``environment=`` of one section gives; a value that supervisord would refuse is told in ``notes``."""
        text = self._parser.get(section, "environment", fallback="")
        if not text:
            return []
        numbered = self._numbered(unit)
        where = self._where.get(section)
        try:
            values = key_value_pairs(self._expanded(text, numbered[1] if numbered and kind == "program" else {}))
        except (PdopsError, ValueError) as error:
            notes.append(f"environment= of [{section}] in {where.path if where else self.paths[0]} is refused: {error}")
            return []
        if kind == "supervisord":
            self.expansions.update({f"ENV_{name}": value for name, value in values.items()})
        return [
            Place(name, value, kind, where.path if where else None, _line(where, name))
            for name, value in values.items()
        ]


def key_value_pairs(text: str) -> Dict[str, str]:
    """``A=1,B="two, three"`` by the rules of supervisor 4.3 (datatypes.py, dict_of_key_value_pairs): words of the
    shlex module, every fourth one passed over as the comma, outer quotes stripped. ValueError when it refuses them."""
    lexer = shlex.shlex(text)
    lexer.wordchars += "/.+-():"
    tokens = list(lexer)
    found: Dict[str, str] = {}
    for at in range(0, len(tokens), 4):
        triple = tokens[at : at + 3]
        if len(triple) != 3 or triple[1] != "=":
            raise ValueError("it is not KEY=value,KEY=value with quotes around values that hold more than words")
        found[triple[0]] = triple[2].strip("'\"")
    return found


def _line(where: Optional[_Found], name: str) -> Optional[int]:
    if where is None:
        return None
    holds = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}\s*=")
    return next((number for number, line in reversed(where.lines) if holds.search(line)), where.lines[0][0])


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

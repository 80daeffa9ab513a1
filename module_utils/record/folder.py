# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record on disk: one JSON file per entry, ``<folder>/<deployment>/<utc>-<kind>-<id>.json``.

The id is the hash of the file's bytes, so that what was edited no longer has its name; git merges two checkouts by itself,
since nobody ever writes a file that another wrote.
"""

from __future__ import annotations

import calendar
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from .. import foreign_json
from ..pdops_error import PdopsError
from ..store.atomic import sha256_of, why, write_private
from .masking import without_secrets
from .schema import VERSION, Entry, is_moment, require_whole, wrong_with

ID_LENGTH = 16
_FILE = re.compile(
    r"(?P<day>\d{8})T(?P<time>\d{6})\.(?P<rest>\d{6})Z-(?P<kind>[a-z]+)-(?P<id>[0-9a-f]{16})\.json", re.ASCII
)
#: An entry has some hundred bytes; what is larger was not written by us.
MOST_BYTES = 1 << 18
#: What lies further in the future was written by a clock that is wrong.
AHEAD_S = 86_400.0


class Kept(NamedTuple):
    """An entry with its id and the name of its file."""

    id: str
    file: str
    data: Entry

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    @property
    def at(self) -> str:
        return str(self.data["at"])

    @property
    def refs(self) -> list[str]:
        return list(self.data.get("refs", ()))


@dataclass(frozen=True)
class Reading:
    """What a record's folder holds: the whole entries, oldest first, and one sentence for each thing that is wrong."""

    folder: str
    entries: tuple[Kept, ...] = ()
    problems: tuple[str, ...] = ()


def folder_of(evidence_dir: str, deployment: str) -> str:
    """Where the record of a deployment is; :class:`PdopsError` for a name that is no name of a folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", deployment):
        raise PdopsError(
            f"deployment {deployment!r} cannot name a folder of the record: use letters, digits, _, . and -."
        )
    return os.path.join(evidence_dir, deployment)


def moment(seconds: Optional[float] = None) -> str:
    """``2026-11-29T20:06:13.000000Z``; microseconds, so that entries of one run keep their order."""
    now = time.time() if seconds is None else seconds
    whole = int(now)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((now - whole) * 1_000_000):06d}Z"


def _later(at: str) -> str:
    """One microsecond after ``at``."""
    tail = int(at[20:26]) + 1
    if tail < 1_000_000:
        return f"{at[:20]}{tail:06d}Z"
    return moment(_seconds(at) + 1.0)


def _seconds(at: str) -> float:
    return float(calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")))


def file_name(entry: Entry, entry_id: str) -> str:
    at = str(entry["at"])
    return f"{at[:19].replace('-', '').replace(':', '')}.{at[20:26]}Z-{entry['kind']}-{entry_id}.json"


def render(entry: Entry) -> bytes:
    return json.dumps(entry, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def id_of(content: bytes) -> str:
    return sha256_of(content)[:ID_LENGTH]


def add(evidence_dir: str, given: Mapping[str, Any], now: Optional[float] = None, dry: bool = False) -> Kept:
    """Write one entry, with secrets masked, atomically; ``v`` and ``at`` are filled in. With ``dry`` it is only checked.

    A clock that was set back does not reorder what happened: ``at`` is later than that of every entry that is there, except of
    those that lie more than :data:`AHEAD_S` in the future.
    Raises :class:`PdopsError` for an entry that is not whole, for references to what is not there, and when it cannot be written.
    """
    entry = {name: item for name, item in without_secrets(dict(given)).items() if item is not None or name in _NULLS}
    entry["v"] = VERSION
    folder = folder_of(evidence_dir, str(entry.get("deployment", "")))
    names = _names(folder)
    at = moment(now)
    # What a clock wrote that was days ahead would make this entry and all later ones as late as itself.
    latest = moment((time.time() if now is None else now) + AHEAD_S)
    newest = max((there for there in map(_moment_of, names) if there <= latest), default="")
    entry["at"] = at if at > newest else _later(newest)
    require_whole(entry)
    known = {found["id"] for found in map(_FILE.fullmatch, names) if found}
    for ref in entry.get("refs", ()):
        if ref not in known:
            raise PdopsError(f"the entry is refused: it refers to {ref}, and {folder} has no such entry.")
    content = render(entry)
    kept = Kept(id_of(content), "", entry)
    name = file_name(entry, kept.id)
    if not dry:
        _make(folder)
        write_private(os.path.join(folder, name), content, mode=0o644)
    return Kept(kept.id, name, entry)


_NULLS = frozenset(("before", "after", "value"))


def is_entry_name(name: str) -> bool:
    """Whether a file's name is that of an entry."""
    return _FILE.fullmatch(name) is not None


def names_in(folder: str) -> list[str]:
    """The names of the files in a record's folder, sorted; none when it is absent."""
    return _names(folder)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise PdopsError(f"the folder of the record {folder} could not be made: {why(error)}.") from None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise PdopsError(f"the folder of the record {folder} cannot be read: {why(error, reading=True)}.") from None


def _moment_of(name: str) -> str:
    """The moment that the name of an entry's file says; '' for what is no such name, and for what is no moment."""
    if _FILE.fullmatch(name) is None:
        return ""
    at = _at_of(name)
    return at if is_moment(at) else ""


def _at_of(name: str) -> str:
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:{name[13:15]}.{name[16:22]}Z"


def ahead(entries: Iterable[Kept], now: Optional[float] = None) -> list[str]:
    """A sentence for each entry that lies in the future: who reads the record believes that it came last."""
    latest = moment((time.time() if now is None else now) + AHEAD_S)
    return [
        f"{kept.file} is of {kept.at[:10]}, which is yet to come: the clock of {kept.data['by']} was wrong. Set that clock, say what "
        f"is so with ansible-playbook record.yml -e kind=correct -e entry={kept.id}, and write it again."
        for kept in entries
        if kept.at > latest
    ]


def read(evidence_dir: str, deployment: str) -> Reading:
    """All entries of a deployment, in the order in which they happened, and what is wrong with the folder.

    An entry counts only when it is whole and its bytes have the hash that its name says. An absent folder is an empty record.
    """
    folder = folder_of(evidence_dir, deployment)
    entries: list[Kept] = []
    problems: list[str] = []
    for name in _names(folder):
        if not name.endswith(".json") or name.startswith("."):
            continue
        path = f"{folder}/{name}"
        wrong, kept = _read_one(path, name, deployment)
        if kept is not None:
            entries.append(kept)
        if wrong:
            problems.append(wrong)
    known = {kept.id for kept in entries}
    problems += [_gone(folder, ref, kept, problems) for kept in entries for ref in kept.refs if ref not in known]
    return Reading(folder, tuple(in_order(entries)), tuple(dict.fromkeys(problems)))


def _read_one(path: str, name: str, deployment: str) -> tuple[str, Optional[Kept]]:
    told = _FILE.fullmatch(name)
    if told is None:
        return (
            f"{path} is no entry of the record: its name is not <utc>-<kind>-<id>.json; move it away after looking at it.",
            None,
        )
    try:
        content = _content(path)
    except OSError as error:
        return f"{path} cannot be read: {why(error, reading=True)}.", None
    back = f"take the right one out of git (git log --follow -- {path})"
    if id_of(content) != told["id"]:
        return (
            f"{path} was edited: its content has the hash {id_of(content)}, its name says {told['id']}; {back}, "
            "and say what was wrong in it with ansible-playbook record.yml -e kind=correct.",
            None,
        )
    try:
        data = foreign_json.loads(content)
    except (ValueError, OverflowError) as error:
        return f"{path} is malformed: it is no JSON ({' '.join(str(error).split())[:100]}); {back}.", None
    wrong = wrong_with(data)
    if wrong:
        return f"{path} is malformed: {wrong}; {back}.", None
    if data["deployment"] != deployment:
        return f"{path} is an entry of {data['deployment']}, not of {deployment}; move it into that folder.", None
    if file_name(data, told["id"]) != name:
        return f"{path} does not have the name of its time and kind, {file_name(data, told['id'])}; rename it.", None
    return "", Kept(told["id"], name, data)


def _content(path: str) -> bytes:
    """At most a little more than ``MOST_BYTES``: enough to see that it is no entry. A FIFO holds nobody up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, MOST_BYTES) + 1)
    finally:
        os.close(descriptor)


def _gone(folder: str, ref: str, kept: Kept, problems: Iterable[str]) -> str:
    spoiled = next((said for said in problems if f"-{ref}.json" in said), "")
    if spoiled:
        return spoiled
    return (
        f"entry {ref} is gone from {folder}, and {kept.file} refers to it; bring it back with git "
        f"(git log --all --diff-filter=D -- '{folder}/*{ref}*')."
    )


def in_order(entries: Iterable[Kept]) -> list[Kept]:
    """By time, but nothing before what it refers to: two operators' clocks may differ."""
    by_id = {kept.id: kept for kept in entries}
    times: dict[str, str] = {}
    for first in by_id.values():
        stack = [first]
        while stack:
            kept = stack[-1]
            if kept.id in times:
                stack.pop()
                continue
            waiting = [by_id[ref] for ref in kept.refs if ref in by_id and ref not in times]
            if waiting:
                stack += waiting
                continue
            latest = max((times[ref] for ref in kept.refs if ref in by_id), default="")
            # "~" sorts behind every other sign of a moment: after it, and before what came later.
            times[kept.id] = kept.at if kept.at > latest else f"{latest}~"
            stack.pop()
    return sorted(by_id.values(), key=lambda kept: (times[kept.id], kept.at, kept.id))


def find(entries: Iterable[Kept], wanted: str) -> Kept:
    """The entry that a prefix of 6 or more characters of an id names; :class:`PdopsError` when none or several do."""
    text = str(wanted).strip().lower()
    found = [kept for kept in entries if len(text) >= 6 and kept.id.startswith(text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise PdopsError(
            f"entry {text} means several entries: {', '.join(kept.id for kept in found)}; give more of it."
        )
    raise PdopsError(
        f"there is no entry {text!r}; give its id, or 6 or more characters of it: see ansible-playbook record.yml -e show=list."
    )

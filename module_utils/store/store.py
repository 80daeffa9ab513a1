# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps every content of every managed file, and the journal, under one private folder.

::

    objects/<sha256>       contents, written once, 0600
    files/<path-id>.jsonl  versions of one file, oldest first
    journal.jsonl          what pdops did, append-only
    lock                   held for the time of one verb
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ..pdops_error import PdopsError
from ..knobs import mask_env
from .atomic import append_line, sha256_of, why, write_private
from .lock import locked

#: A lock is held for milliseconds; who waits longer waits for something that hangs.
LOCK_WAIT_S = 10.0


@dataclass(frozen=True)
class Version:
    """One stored content of one file; ``time`` is ISO 8601 in UTC, ``size`` in bytes."""

    path: str
    sha256: str
    label: str
    time: str
    actor: str
    change_id: str | None
    size: int

    @property
    def told(self) -> str:
        return f"{self.sha256[:12]} ({self.label}, {self.time})"


class Store:
    """Nothing is created before the first write; reading an absent store finds nothing."""

    def __init__(self, state_dir: str) -> None:
        if not os.path.isabs(state_dir):
            raise PdopsError(f"state_dir {state_dir!r} is not an absolute path; give one, for example /var/lib/pdops.")
        self.state_dir = os.path.normpath(state_dir)
        self._held = False

    def _path(self, *parts: str) -> str:
        return os.path.join(self.state_dir, *parts)

    def check_usable(self) -> None:
        """Refuse a state folder that others could read or change, or that cannot be written; create it when absent."""
        try:
            os.makedirs(self.state_dir, mode=0o700, exist_ok=True)
            status = os.lstat(self.state_dir)
        except OSError as error:
            raise PdopsError(f"the state folder {self.state_dir} cannot be made: {why(error)}.") from None
        if not stat.S_ISDIR(status.st_mode):
            raise PdopsError(f"the state folder {self.state_dir} is no folder; move it away or set pd_state_dir.")
        if status.st_uid != os.geteuid():
            raise PdopsError(
                f"the state folder {self.state_dir} belongs to uid {status.st_uid}, not to this user (uid {os.geteuid()}); "
                "run with become as always before, or set pd_state_dir."
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise PdopsError(
                f"the state folder {self.state_dir} is open to others (mode {stat.S_IMODE(status.st_mode):04o}); chmod 700 {self.state_dir}."
            )
        for folder in ("objects", "files", "changes", "agent"):
            try:
                os.makedirs(self._path(folder), mode=0o700, exist_ok=True)
            except OSError as error:
                raise PdopsError(f"the state folder {self.state_dir} cannot be written: {why(error)}.") from None
        probe = self._path(f".probe-{os.getpid()}")
        # Larger than any script: a disk that is about to be full is found before anything is touched.
        write_private(probe, b"\0" * 65536)
        os.unlink(probe)

    @contextmanager
    def lock(self, purpose: str, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
        """Hold the store for one verb. Re-entrant within one Store."""
        if self._held:
            yield
            return
        self.check_usable()
        with locked(self._path("lock"), purpose, wait_s):
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def write_state(self, path: str, content: bytes) -> None:
        """Write or replace a file of our own below the state folder."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(path, content)

    # -- contents and versions ------------------------------------------------------------------

    def _index(self, path: str) -> str:
        real = os.path.realpath(path)
        return self._path(
            "files",
            f"{re.sub('[^A-Za-z0-9._-]', '_', os.path.basename(real))[:60]}-{sha256_of(os.fsencode(real))[:16]}.jsonl",
        )

    def put(self, content: bytes) -> str:
        """Store a content once; return its sha256. An object that is there and damaged is written anew."""
        digest = sha256_of(content)
        path = self._path("objects", digest)
        try:
            with open(path, "rb") as there:
                if there.read() == content:
                    return digest
        except OSError:
            pass
        self.write_state(path, content)
        return digest

    def content(self, sha256: str) -> bytes:
        """A stored content, verified; :class:`PdopsError` when it is lost or damaged."""
        path = self._path("objects", sha256)
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise PdopsError(f"{sha256!r} is no sha256; see the versions of the file.")
        try:
            with open(path, "rb") as source:
                content = source.read()
        except OSError as error:
            raise PdopsError(f"the stored version {sha256[:12]} cannot be read ({error.strerror}, {path}).") from None
        if sha256_of(content) != sha256:
            raise PdopsError(f"the stored version {sha256[:12]} is damaged ({path}); take another version or a backup.")
        return content

    def add_version(self, path: str, content: bytes, label: str, actor: str, change_id: str | None) -> Version:
        """Store ``content`` as the newest version of ``path``; the same content as the newest adds nothing."""
        with self.lock(f"store {path}"):
            newest = self.versions(path)[:1]
            digest = self.put(content)
            if newest and newest[0].sha256 == digest:
                return newest[0]
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            version = Version(os.path.realpath(path), digest, label, now, actor, change_id, len(content))
            append_line(self._index(path), json.dumps(asdict(version), sort_keys=True).encode())
            return version

    def versions(self, path: str) -> list[Version]:
        """All versions of a file, newest first. A torn or foreign line is passed over; ``verify`` reports it."""
        found = []
        for row in _rows(self._index(path)):
            try:
                found.append(Version(**row))
            except TypeError:
                continue
        return found[::-1]

    def find_version(self, path: str, wanted: str) -> Version:
        """By sha256 prefix of 6 or more, label, or ``previous``; :class:`PdopsError` lists what there is."""
        versions = self.versions(path)
        if wanted == "previous":
            if len(versions) > 1:
                return versions[1]
            raise PdopsError(f"{path} has no previous version in {self.state_dir}.")
        match = [
            item for item in versions if item.label == wanted or (len(wanted) >= 6 and item.sha256.startswith(wanted))
        ]
        if len({item.sha256 for item in match}) == 1:
            return match[0]
        listed = ", ".join(item.told for item in versions[:10]) or "none"
        what = "is no version" if not match else "means several versions"
        raise PdopsError(f"{wanted} {what} of {path}; stored versions: {listed}.")

    # -- journal --------------------------------------------------------------------------------

    def write_journal(self, entry: Mapping[str, Any]) -> None:
        """Append what was done, with time and pid. ``knobs`` of an entry are masked by name."""
        noted = dict(entry)
        if isinstance(noted.get("knobs"), Mapping):
            noted["knobs"] = {
                name: mask_env({name: str(value)})[name]
                if value is not None and not isinstance(value, Mapping)
                else value
                for name, value in noted["knobs"].items()
            }
        row = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "pid": os.getpid(), **noted}
        with self.lock("journal"):
            append_line(self._path("journal.jsonl"), json.dumps(row, sort_keys=True, ensure_ascii=False).encode())

    def journal(self, newest: int | None = None) -> list[dict[str, Any]]:
        """Entries, oldest first; the last ``newest`` of them when given."""
        rows = list(_rows(self._path("journal.jsonl")))
        return rows if newest is None else rows[-newest:]


def _rows(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as source:
            lines = source.read().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise PdopsError(f"{path} cannot be read ({error.strerror}); run as the user who owns it.") from None
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps every content of every managed file, and the journal, under one private folder.

::

    objects/<sha256>       contents, written once, 0600
    files/<path-id>.jsonl  versions of one file, one a line, as they were added
    journal.jsonl          what pdops did, append-only
    lock                   held for the time of one verb
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from .. import knobs
from ..pdops_error import PdopsError
from . import state_folder
from .atomic import append_line, cut_to, read_own, read_regular, sha256_of, write_private
from .backups import MOST_BYTES
from .lock import locked
from .versions import Version, check_label, found, line_of, rows_of, version_of

__all__ = ["LOCK_WAIT_S", "Store", "Version"]

#: A lock is held for milliseconds; who waits longer waits for something that hangs.
LOCK_WAIT_S = 10.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def _utc(seconds: Optional[float] = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Store:
    """Nothing is created before the first write; reading an absent store finds nothing."""

    def __init__(self, state_dir: str) -> None:
        if not os.path.isabs(state_dir):
            raise PdopsError(f"state_dir {state_dir!r} is not an absolute path; give one, for example /var/lib/pdops.")
        self.state_dir = os.path.normpath(state_dir)
        self._holder: Optional[int] = None
        self._prepared = False

    def _path(self, *parts: str) -> str:
        return os.path.join(self.state_dir, *parts)

    @property
    def journal_path(self) -> str:
        return self._path("journal.jsonl")

    def object_path(self, sha256: str) -> str:
        return self._path("objects", sha256)

    def index_path(self, path: str) -> str:
        """The file with the versions of a script (of the file that a symlink leads to)."""
        real = os.path.realpath(path)
        name = re.sub("[^A-Za-z0-9._-]", "_", os.path.basename(real))[:60]
        return self._path("files", f"{name}-{sha256_of(os.fsencode(real))[:16]}.jsonl")

    def check_usable(self) -> None:
        """Refuse a state folder that others could read or change, or that cannot be written. Writes nothing."""
        state_folder.check(self.state_dir)

    def prepare(self) -> None:
        """Make the state folder when it is absent, and try a write in it; once for each Store."""
        if not self._prepared:
            state_folder.prepare(self.state_dir)
            self._prepared = True

    @contextmanager
    def lock(self, purpose: str, wait_s: float = LOCK_WAIT_S, try_write: bool = True) -> Iterator[None]:
        """Hold the store for one verb. Re-entrant within one Store and thread.

        :param try_write: refuse a store that cannot be written; False for what must go on when it is full
        """
        me = threading.get_ident()
        if self._holder == me:
            yield
            return
        if try_write:
            self.prepare()
        with locked(self._path("lock"), purpose, wait_s):
            self._holder = me
            try:
                yield
            finally:
                self._holder = None

    def write_state(self, path: str, content: bytes) -> None:
        """Write or replace a file of our own below the state folder."""
        self.prepare()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(path, content)

    # -- contents and versions ------------------------------------------------------------------

    def put(self, content: bytes) -> str:
        """Store a content once; return its sha256. An object that is there and damaged is written anew."""
        digest = sha256_of(content)
        path = self.object_path(digest)
        try:
            if read_own(path) == content:
                return digest
        except OSError:
            pass
        self.write_state(path, content)
        return digest

    def content(self, sha256: str) -> bytes:
        """A stored content, verified; :class:`PdopsError` when it is lost or damaged."""
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise PdopsError(f"{sha256!r} is no sha256; see the versions of the file.")
        path = self.object_path(sha256)
        try:
            content = read_own(path)
        except OSError as error:
            raise PdopsError(
                f"the stored version {sha256[:12]} cannot be read ({error.strerror}, {path}); take another version or a backup."
            ) from None
        if sha256_of(content) != sha256:
            raise PdopsError(f"the stored version {sha256[:12]} is damaged ({path}); take another version or a backup.")
        return content

    def add_version(
        self,
        path: str,
        content: bytes,
        label: str,
        actor: str,
        change_id: Optional[str],
        time_s: Optional[float] = None,
    ) -> Version:
        """Store ``content`` as a version of ``path``; the same content as the newest adds nothing.

        With ``time_s`` (seconds since the epoch) the version is an old one that comes to be known only now, as an
        imported backup: it takes its place by that time, and the same content under the same label adds nothing.
        """
        check_label(label)
        with self.lock(f"store {path}"):
            there = self.versions(path)
            digest = self.put(content)
            if time_s is None:
                if there and there[0].sha256 == digest:
                    return there[0]
                # A clock that was set back must not reorder what happened.
                when = max(_utc(), there[0].time if there else "")
            else:
                when = _utc(time_s)
                for item in there:
                    if (item.sha256, item.label) == (digest, label):
                        return item
            version = Version(os.path.realpath(path), digest, label, when, actor, change_id, len(content))
            append_line(self.index_path(path), line_of(version))
            return version

    def forget_newest(self, version: Version) -> None:
        """Take back the version that was added last, because the file did not come to have that content after all."""
        index = self.index_path(version.path)
        with self.lock(f"store {version.path}"):
            content = read_regular(index, 1 << 30)
            line = line_of(version) + b"\n"
            if content.endswith(line):
                cut_to(index, len(content) - len(line))

    def versions(self, path: str) -> list[Version]:
        """All versions of a file, newest first. A torn or foreign line is passed over; ``verify`` reports it."""
        rows = [version_of(row) for _, row in rows_of(self.index_path(path)) if row is not None]
        # Stable: of the same second the one that was added later is the newer one.
        return sorted((item for item in rows if item is not None), key=lambda item: item.time)[::-1]

    def find_version(self, path: str, wanted: str) -> Version:
        """By label, sha256 prefix of 6 or more digits, or ``previous`` (the newest content before the one that the
        file has now); :class:`PdopsError` lists what there is."""
        present = None
        if os.path.exists(path):
            present = sha256_of(read_regular(path, MOST_BYTES))
        return found(self.versions(path), path, wanted, present)

    # -- journal --------------------------------------------------------------------------------

    def write_journal(self, entry: Mapping[str, Any]) -> None:
        """Append what was done, with time, boot and pid. ``knobs`` of an entry are masked by name."""
        noted = dict(entry)
        if isinstance(noted.get("knobs"), Mapping):
            noted["knobs"] = {name: _masked(name, value) for name, value in noted["knobs"].items()}
        row = {"at": _utc(), "boot": _boot_id(), "pid": os.getpid(), **noted}
        line = json.dumps(row, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogateescape")
        with self.lock("journal"):
            append_line(self.journal_path, line)

    def journal(self, newest: Optional[int] = None) -> list[dict[str, Any]]:
        """Entries, oldest first; the last ``newest`` of them when given."""
        rows = [row for _, row in rows_of(self.journal_path) if row is not None]
        return rows if newest is None else rows[max(0, len(rows) - newest) :]


def _masked(name: str, value: Any) -> Any:
    if value is None or not knobs.is_secret(name):
        return value
    if isinstance(value, Mapping):
        return {side: None if one is None else knobs.MASK for side, one in value.items()}
    return knobs.MASK


def _boot_id() -> Optional[str]:
    try:
        with open(_BOOT_ID, encoding="ascii") as source:
            return source.read().strip()
    except OSError:
        return None

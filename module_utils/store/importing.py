# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Makes stored versions of backups that lie beside a script, under the label and the time that they carry."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError
from .atomic import read_regular, sha256_of
from .backups import MOST_BYTES, look_for_backups
from .sources import from_backup
from .store import Store
from .versions import check_label


@dataclass(frozen=True)
class Import:
    """One backup as the version that it becomes; ``known`` when the store has it under that label already.

    ``time_s`` is its modification time in seconds since the epoch.
    """

    backup: str
    label: str
    time_s: float
    content: bytes
    known: bool

    @property
    def sha256(self) -> str:
        return sha256_of(self.content)

    def as_dict(self) -> dict[str, Any]:
        return {
            "backup": self.backup,
            "label": self.label,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.time_s)),
            "sha256": self.sha256,
            "size": len(self.content),
            "known": self.known,
        }


@dataclass(frozen=True)
class ImportPlan:
    """What would be imported, oldest first, and a sentence for each backup that cannot be."""

    path: str
    imports: tuple[Import, ...]
    skipped: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return any(not item.known for item in self.imports)


def plan_import(store: Store, path: str, wanted: Sequence[str], label: str = "") -> ImportPlan:
    """Work out which of the ``wanted`` backups (names, labels or full paths; all beside the script when empty) are new.

    ``label`` takes the place of the backup's own, for a single one. Raises :class:`PdopsError` for a backup that was
    named and cannot be had; of all, such a one is passed over and named in ``skipped``.
    """
    if not os.path.isabs(path):
        raise PdopsError(f"path {path!r} is not absolute; give the script's full path.")
    if label and len(wanted) != 1:
        raise PdopsError("a label was given for several backups; name the one that it is for.")
    check_label(label)
    there = {(item.sha256, item.label) for item in store.versions(path)}
    look = look_for_backups(path)
    labels = {item.path: item.label for item in look.found}
    files = [from_backup(path, name).name for name in wanted] if wanted else [item.path for item in look.found]
    imports: list[Import] = []
    skipped = [] if wanted else list(look.skipped)
    for file in dict.fromkeys(files):
        try:
            # A time to come would put the old content in front of every version that is still to be made.
            time_s = min(os.stat(file).st_mtime, time.time())
            content = read_regular(file, MOST_BYTES)
            if not content.strip():
                raise PdopsError(f"{file} is empty, so it is no version of a script; remove it.")
        except OSError as error:
            raise PdopsError(f"{file} cannot be looked at ({error.strerror}); correct the path.") from None
        except PdopsError as error:
            if wanted:
                raise
            skipped.append(str(error))
            continue
        called = label or _usable(labels.get(file), os.path.basename(file))
        known = (sha256_of(content), called) in there
        imports.append(Import(file, called, time_s, content, known))
        there.add((sha256_of(content), called))
    imports.sort(key=lambda item: (item.time_s, item.backup))
    return ImportPlan(path, tuple(imports), tuple(skipped))


def _usable(label: Optional[str], name: str) -> str:
    """The label that a backup carries, or its file's name where that one means something else, as ``previous`` does."""
    for each in (label, name):
        try:
            if each:
                return check_label(each)
        except PdopsError:
            pass
    return re.sub(r"[\x00-\x1f\x7f]", "?", name)[-120:]


def import_backups(store: Store, plan: ImportPlan, actor: str) -> None:
    """Carry the plan out. The backups stay where they are. A crash in between leaves some imported; a second run
    imports the rest, and those that are there add nothing."""
    if not plan.changed:
        return
    with store.lock(f"import {plan.path}"):
        for item in plan.imports:
            if not item.known:
                store.add_version(plan.path, item.content, item.label, actor, None, item.time_s)
        store.write_journal(
            {
                "verb": "import",
                "path": plan.path,
                "imported": [item.as_dict() for item in plan.imports if not item.known],
                "actor": actor,
            }
        )

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Versions of one file, as rows of a file with one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .. import foreign_json
from ..pdops_error import PdopsError
from .atomic import read_own

PREVIOUS = "previous"
NOW = "now"
_RESERVED = {PREVIOUS: "the version before the present one", NOW: "what the file holds now"}
_LABEL = re.compile(r"[^\x00-\x1f\x7f]{0,120}")
_PREFIX = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True)
class Version:
    """One stored content of one file; ``time`` is ISO 8601 in UTC, ``size`` in bytes."""

    path: str
    sha256: str
    label: str
    time: str
    actor: str
    change_id: Optional[str]
    size: int

    @property
    def told(self) -> str:
        return f"{self.sha256[:12]} ({self.label}, {self.time})"


def check_label(label: str) -> str:
    """The label itself, when versions can be found by it; else :class:`PdopsError`."""
    if not _LABEL.fullmatch(label):
        raise PdopsError(
            f"the label {label[:40]!r} is longer than 120 characters or has control characters in it; shorten it."
        )
    if label in _RESERVED:
        raise PdopsError(f"the label {label!r} always means {_RESERVED[label]}; take another.")
    return label


def line_of(version: Version) -> bytes:
    return json.dumps(asdict(version), sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogateescape")


def version_of(row: Mapping[str, Any]) -> Optional[Version]:
    """A row as a version; None when it is none. Fields that a later pdops may add are passed over."""
    try:
        version = Version(
            path=row["path"],
            sha256=row["sha256"],
            label=row["label"],
            time=row["time"],
            actor=row.get("actor", ""),
            change_id=row.get("change_id"),
            size=row["size"],
        )
    except KeyError:
        return None
    texts = (version.path, version.sha256, version.label, version.time, version.actor)
    if not all(isinstance(text, str) for text in texts) or not isinstance(version.size, int):
        return None
    try:
        # What no file system takes as a name, and what no journal could tell.
        usable = "\0" not in version.path and all(text.encode("utf-8", "surrogateescape") is not None for text in texts)
    except UnicodeEncodeError:
        usable = False
    return version if usable and re.fullmatch("[0-9a-f]{64}", version.sha256) else None


def rows_of(path: str) -> Iterator[tuple[int, Optional[dict[str, Any]]]]:
    """Line number and JSON object of every line; None for a line that is none (torn by a crash, or foreign).

    An absent file has no lines. Raises :class:`PdopsError` when it cannot be read.
    """
    try:
        lines = read_own(path).split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise PdopsError(
            f"{path} cannot be read ({error.strerror}); look at it, and run as the user who owns it."
        ) from None
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            row = foreign_json.loads(line.decode("utf-8", "surrogateescape"))
        except ValueError:
            row = None
        yield number, row if isinstance(row, dict) else None


def found(versions: Sequence[Version], path: str, wanted: str, present: Optional[str]) -> Version:
    """The one of ``versions`` (newest first) that a person means.

    :param wanted: a label, the first 6 or more digits of a sha256, or ``previous``: the newest content
        before ``present`` (the sha256 that the file has now), or the newest of all when that one is not stored
    :raises PdopsError: none or several contents are meant; the sentence lists what there is
    """
    if wanted == PREVIOUS:
        at = next((number for number, item in enumerate(versions) if item.sha256 == present), None)
        older = versions if at is None else versions[at + 1 :]
        previous = next((item for item in older if item.sha256 != present), None)
        if previous is None:
            raise PdopsError(f"{path} has no previous version; {_listed(versions)}.")
        return previous
    match = [item for item in versions if item.label == wanted]
    if not match and _PREFIX.fullmatch(wanted.lower()):
        match = [item for item in versions if item.sha256.startswith(wanted.lower())]
    if len({item.sha256 for item in match}) == 1:
        return match[0]
    if match:
        raise PdopsError(
            f"{wanted} means several versions of {path}: {', '.join(item.told for item in match[:10])}; give the sha256."
        )
    short = " (a sha256 needs at least 6 digits)" if re.fullmatch("[0-9a-fA-F]{1,5}", wanted) else ""
    raise PdopsError(f"{wanted} is no version of {path}{short}; {_listed(versions)}.")


def _listed(versions: Sequence[Version]) -> str:
    more = f" and {len(versions) - 10} more" if len(versions) > 10 else ""
    return f"stored versions: {', '.join(item.told for item in versions[:10]) or 'none'}{more}"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Forgets old versions of one script, by count and age, and never one that anybody may still need.

The order makes a crash harmless: the journal names what is about to go, then the index is replaced as a whole, then contents
are removed that no index names any more. What a crash leaves is a content without a name, which the next prune removes because the
journal says that it was meant to go. A content without a name that the journal does *not* say this of is kept: its index may
have been lost, and then it is all that is left.
"""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ..pdops_error import PdopsError
from .atomic import find_leftovers, read_regular, remove_leftovers, sha256_of, sync_folder, why
from .backups import MOST_BYTES
from .objects import begun_to_go, named_contents, names_in, stored_objects
from .store import Store
from .versions import Version, rows_of, version_of


@dataclass(frozen=True)
class PruneRequest:
    """What may go: versions beyond the ``keep`` newest and older than ``older_than_s`` seconds; None does not narrow."""

    path: str
    keep: Optional[int] = None
    older_than_s: Optional[float] = None
    actor: str = ""


@dataclass(frozen=True)
class PrunePlan:
    """``gone``: versions that go, newest first. ``kept``: those that the request meant and that stay, each with the reason.

    ``objects``: sha256 of contents that go with them, because no other version of any file names them; ``leftovers``: the
    same of a former prune that a crash cut short.
    """

    request: PruneRequest
    gone: tuple[Version, ...]
    kept: tuple[tuple[Version, str], ...]
    objects: tuple[str, ...]
    leftovers: tuple[str, ...]
    index: bytes = b""

    @property
    def changed(self) -> bool:
        return bool(self.gone or self.leftovers)


def check_request(request: PruneRequest) -> None:
    if not os.path.isabs(request.path):
        raise PdopsError(f"path {request.path!r} is not absolute; give the script's full path.")
    if request.keep is None and request.older_than_s is None:
        raise PdopsError(
            "nothing says what may go; give keep (how many versions stay), older_than_s (seconds) or both."
        )
    if request.keep is not None and request.keep < 1:
        raise PdopsError(f"keep={request.keep} would keep no version; it must be 1 or more.")
    if request.older_than_s is not None and not request.older_than_s >= 0:
        raise PdopsError(f"older_than_s={request.older_than_s:g} is no age; it must be 0 or more seconds.")


def _age_s(version: Version, now_s: float) -> float:
    """Seconds; an entry whose time cannot be read counts as new, so that it stays."""
    try:
        return now_s - calendar.timegm(time.strptime(version.time, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0.0


def _present(path: str) -> Optional[str]:
    """The sha256 of what the script holds now; None when there is no script."""
    return sha256_of(read_regular(path, MOST_BYTES)) if os.path.lexists(path) else None


def plan_prune(
    request: PruneRequest, store: Store, needed: Mapping[str, str], now_s: Optional[float] = None
) -> PrunePlan:
    """Work out what goes; reads only.

    ``needed`` are contents that open changes refer to, by sha256, with the reason. Raises :class:`PdopsError`.
    """
    check_request(request)
    now_s = time.time() if now_s is None else now_s
    index = store.index_path(request.path)
    content = read_regular(index, 1 << 30) if os.path.exists(index) else b""
    rows = [(number, version_of(row) if row is not None else None) for number, row in rows_of(index)]
    numbered = [(number, version) for number, version in rows if version is not None]
    newest_first = sorted(numbered, key=lambda item: item[1].time)[::-1]
    present = _present(request.path)
    gone: list[tuple[int, Version]] = []
    kept: list[tuple[Version, str]] = []
    stays: set[str] = set()
    for rank, (number, version) in enumerate(newest_first):
        beyond = request.keep is None or rank >= request.keep
        old = request.older_than_s is None or _age_s(version, now_s) > request.older_than_s
        reason = None
        if rank == 0:
            reason = "it is the newest"
        elif version.sha256 == present and present not in stays:
            reason = "it is what the script holds now"
        elif version.sha256 in needed:
            reason = needed[version.sha256]
        if beyond and old and reason is None:
            gone.append((number, version))
            continue
        stays.add(version.sha256)
        if beyond and old and reason is not None:
            kept.append((version, reason))
    out = {number for number, _ in gone}
    left = b"\n".join(line for number, line in enumerate(content.split(b"\n"), 1) if number not in out)
    named = names_in(left) | named_contents(store, but=index) | set(needed)
    objects = dict.fromkeys(version.sha256 for _, version in gone if version.sha256 not in named)
    leftovers = sorted((begun_to_go(store) & stored_objects(store)) - named - set(objects))
    return PrunePlan(
        request,
        tuple(item for _, item in gone),
        tuple(kept),
        tuple(objects),
        tuple(leftovers),
        left if gone else content,
    )


def prune(request: PruneRequest, store: Store, needed: Callable[[], Mapping[str, str]]) -> PrunePlan:
    """Remove what :func:`plan_prune` says, worked out afresh under the lock, so that no edit and no change begins in between.

    Raises :class:`PdopsError`; what could not be removed is found by the next prune.
    """
    check_request(request)
    plan = plan_prune(request, store, needed())
    if not plan.changed:
        return plan
    with store.lock(f"prune {request.path}"):
        plan = plan_prune(request, store, needed())
        if not plan.changed:
            return plan
        entry: dict[str, Any] = {
            "verb": "prune",
            "path": request.path,
            "keep": request.keep,
            "older_than_s": request.older_than_s,
            "versions": [[item.sha256, item.label, item.time] for item in plan.gone],
            "objects": [*plan.objects, *plan.leftovers],
            "actor": request.actor,
        }
        store.write_journal({**entry, "step": "begin"})
        if plan.gone:
            store.write_state(store.index_path(request.path), plan.index)
        for sha256 in (*plan.objects, *plan.leftovers):
            _remove(store.object_path(sha256))
        if plan.objects or plan.leftovers:
            sync_folder(os.path.dirname(store.object_path("x")))
        # Writes into these two folders hold the lock that we hold, so what is old there is nobody's.
        folders = (os.path.dirname(store.object_path("x")), os.path.dirname(store.index_path("/x")))
        removed = remove_leftovers(path for folder in folders for path in find_leftovers(folder))
        done = {"verb": "prune", "path": request.path, "step": "done", "actor": request.actor}
        store.write_journal({**done, **({"removed_leftovers": removed} if removed else {})})
        return plan


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise PdopsError(f"{path} could not be removed: {why(error)}; the next prune tries it again.") from None

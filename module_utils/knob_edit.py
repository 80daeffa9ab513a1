# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Plans and applies one edit of one serve script: set, unset or restore knobs, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import knobs
from .pdops_error import PdopsError
from .scripts.diffing import knobs_changed, lines_beyond
from .scripts.editing import set_knob, unset_knob
from .scripts.reading import read_script
from .store.atomic import check_replaceable, find_leftovers, read_regular, replace_file, sha256_of
from .store.backups import MOST_BYTES, Backup, find_backups
from .store.store import Store, Version

STATES = ("present", "absent", "restored")
_BASH_S = 20.0


@dataclass(frozen=True)
class EditRequest:
    """What is wanted. A knob's value None means: unset it (``present``), or: whatever it was (``restored``)."""

    path: str
    knobs: Mapping[str, str | None]
    state: str = "present"
    from_version: str | None = None
    from_backup: str | None = None
    expect_only: bool = True
    expect_sha256: str | None = None
    label: str = ""
    actor: str = ""
    change_id: str | None = None


@dataclass(frozen=True)
class EditPlan:
    """What would be done. Values in ``knobs`` and texts in ``other_lines`` are masked."""

    request: EditRequest
    before: bytes
    after: bytes
    source: dict[str, str] | None = None
    knobs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    other_lines: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def sha256_before(self) -> str:
        return sha256_of(self.before)

    @property
    def sha256_after(self) -> str:
        return sha256_of(self.after)

    @property
    def changed(self) -> bool:
        return self.before != self.after


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def masked_diff(plan: EditPlan) -> dict[str, str]:
    """Both contents for Ansible's diff, secrets masked on both sides."""
    return {
        "before_header": plan.request.path,
        "after_header": plan.request.path,
        "before": knobs.mask_text(_text(plan.before)),
        "after": knobs.mask_text(_text(plan.after)),
    }


def check_request(request: EditRequest) -> None:
    """Refuse what makes no sense, before anything is read."""
    if not os.path.isabs(request.path):
        raise PdopsError(f"path {request.path!r} is not absolute; give the script's full path.")
    if request.state not in STATES:
        raise PdopsError(f"state {request.state!r} is unknown; it must be present, absent or restored.")
    if not request.knobs and not (request.state == "restored" and not request.expect_only):
        raise PdopsError(
            f"no knob was named for {request.path}; give knobs (or, to take a whole version, state=restored with expect_only=false)."
        )
    for name, value in request.knobs.items():
        knobs.check_name(name)
        knobs.refuse_secret(name)
        if request.state == "absent" and value is not None:
            raise PdopsError(f"{name}: state=absent takes no value; write {name} with an empty (null) value.")
    if request.state != "restored" and (request.from_version or request.from_backup):
        raise PdopsError("from_version and from_backup belong to state=restored; set that, or leave them out.")
    if request.from_version and request.from_backup:
        raise PdopsError("from_version and from_backup were both given; give one of them.")


def _from_backup(path: str, wanted: str) -> tuple[Backup | None, str]:
    if os.path.isabs(wanted):
        return None, wanted
    match = [item for item in find_backups(path) if wanted in (item.label, os.path.basename(item.path))]
    if len(match) == 1:
        return match[0], match[0].path
    listed = ", ".join(os.path.basename(item.path) for item in find_backups(path)) or "none"
    what = "is no backup" if not match else "means several backups"
    raise PdopsError(f"{wanted} {what} of {path}; beside it lie: {listed}.")


def _source(request: EditRequest, store: Store, now: bytes) -> tuple[bytes, dict[str, str]]:
    """The content to restore, and where it comes from."""
    if request.from_version:
        version = store.find_version(request.path, request.from_version)
        return store.content(version.sha256), _told_version(version)
    if request.from_backup:
        _backup, path = _from_backup(request.path, request.from_backup)
        return read_regular(path, MOST_BYTES), {
            "kind": "backup",
            "name": path,
            "told": f"backup {os.path.basename(path)}",
        }
    mine = read_script(now)
    tried = []
    for version in store.versions(request.path):
        tried.append((store.content(version.sha256), _told_version(version)))
    for backup in find_backups(request.path):
        told = {"kind": "backup", "name": backup.path, "told": f"backup {os.path.basename(backup.path)}"}
        tried.append((read_regular(backup.path, MOST_BYTES), told))
    for content, told in tried:
        theirs = read_script(content)
        for name, value in request.knobs.items():
            had = theirs.value(name)
            if had is None or had == mine.value(name) or (value is not None and had != value):
                break
        else:
            return content, told
    if all(
        mine.value(name) is not None and (value is None or mine.value(name) == value)
        for name, value in request.knobs.items()
    ):
        return now, {"kind": "none", "name": "", "told": "the script itself, which has it already"}
    raise PdopsError(
        f"no stored version and no backup of {request.path} has {', '.join(request.knobs)}{' so' if any(request.knobs.values()) else ''}; "
        "set it with state=present and a value."
    )


def _told_version(version: Version) -> dict[str, str]:
    return {"kind": "version", "name": version.sha256, "told": f"version {version.told}"}


def plan_edit(request: EditRequest, store: Store) -> EditPlan:
    """Work the edit out; reads only. Raises :class:`PdopsError` (``other_lines`` in its details when a restore would change more)."""
    check_request(request)
    before = read_regular(request.path, MOST_BYTES)
    if request.expect_sha256 and sha256_of(before) != request.expect_sha256:
        raise PdopsError(
            f"{request.path} is not what it was (sha256 {sha256_of(before)[:12]}, expected {request.expect_sha256[:12]}): "
            "somebody edited it in the meantime; look at it, then run again.",
            sha256=sha256_of(before),
        )
    source = None
    after = before
    if request.state == "restored":
        after, source = _source(request, store, before)
        _check_source(request, after, source)
    else:
        after = _edited(request, before)
    plan = _described(request, before, after, source)
    if plan.changed:
        if plan.other_lines and request.expect_only:
            raise _too_much(plan)
        check_replaceable(request.path)
        check_syntax(request.path, after)
    return plan


def _edited(request: EditRequest, content: bytes) -> bytes:
    for name, value in request.knobs.items():
        try:
            if request.state == "absent" or value is None:
                content = unset_knob(content, name)
            else:
                content = set_knob(content, name, value)
        except PdopsError as error:
            raise PdopsError(f"{request.path}: {error}", **error.details) from None
    return content


def _check_source(request: EditRequest, content: bytes, source: Mapping[str, str]) -> None:
    theirs = read_script(content)
    for name, value in request.knobs.items():
        had = theirs.value(name)
        if value is not None and had != value:
            raise PdopsError(
                f"{source['told']} has {name}{'=' + had if had is not None else ' not at all'}, not {value}; leave the value out to take that."
            )


def _described(request: EditRequest, before: bytes, after: bytes, source: dict[str, str] | None) -> EditPlan:
    was, becomes = read_script(before), read_script(after)
    changed = knobs_changed(before, after)
    values: dict[str, dict[str, str | None]] = {}
    for name in dict.fromkeys([*request.knobs, *changed]):
        pair = {"before": was.value(name), "after": becomes.value(name)}
        values[name] = {
            side: knobs.MASK if value is not None and knobs.is_secret(name) else value for side, value in pair.items()
        }
    others = [
        {"sign": line.kind, "line": line.line, "text": line.text}
        for line in lines_beyond(_masked(before), _masked(after), set(request.knobs))
    ]
    named = [item for item in becomes.findings if any(name in item.sentence for name in request.knobs)]
    warnings = [f"{request.path} line {item.line}: {knobs.mask_text(item.sentence)}" for item in named]
    warnings += [
        f"{path} was left by a write that a crash cut short; remove it when nobody needs it"
        for path in find_leftovers(os.path.dirname(request.path))
    ]
    return EditPlan(request, before, after, source, values, tuple(others), tuple(warnings))


def _masked(content: bytes) -> bytes:
    return knobs.mask_text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _too_much(plan: EditPlan) -> PdopsError:
    named = ", ".join(plan.request.knobs)
    shown = "; ".join(f"{line['sign']}{line['line']}: {line['text'].strip()}" for line in plan.other_lines[:6])
    if len(plan.other_lines) > 6:
        shown += f"; and {len(plan.other_lines) - 6} more"
    told = plan.source["told"] if plan.source else "the edit"
    values = " ".join(f"{name}={pair['after']}" for name, pair in plan.knobs.items() if name in plan.request.knobs)
    return PdopsError(
        f"{plan.request.path} was not touched: {told} differs in more than {named}: {shown}. "
        f"To change only the knob, set it ({values}); to take the whole content, say expect_only=false.",
        other_lines=list(plan.other_lines),
        knobs=plan.knobs,
        diff=masked_diff(plan),
    )


def check_syntax(path: str, content: bytes) -> None:
    """Refuse a content that bash cannot parse (``bash -n``; nothing of it runs)."""
    bash = shutil.which("bash")
    if bash is None:
        raise PdopsError(f"bash is not installed here, so the new content of {path} cannot be checked; install bash.")
    try:
        done = subprocess.run(
            [bash, "-n", "/dev/stdin"],
            input=content,
            capture_output=True,
            check=False,
            timeout=_BASH_S,
            env={"PATH": os.defpath},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PdopsError(f"the new content of {path} could not be checked by bash -n: {error}.") from None
    if done.returncode != 0:
        first = knobs.mask_text(_text(done.stderr).replace("/dev/stdin", os.path.basename(path)).strip().split("\n")[0])
        raise PdopsError(f"the new content of {path} is no valid bash, so it was not written: {first}")


def apply_edit(plan: EditPlan, store: Store) -> EditPlan:
    """Carry the plan out. Old and new are stored before the file is replaced, so a crash leaves both retrievable.

    Raises :class:`PdopsError` when the file is not what the plan saw, or cannot be replaced; it is then untouched.
    """
    if not plan.changed:
        return plan
    request = plan.request
    with store.lock(f"edit {request.path}"):
        now = sha256_of(read_regular(request.path, MOST_BYTES))
        if now != plan.sha256_before:
            raise PdopsError(
                f"{request.path} was edited by somebody else in the meantime (sha256 {now[:12]}); look at it, then run again."
            )
        what = request.label or f"{request.state} {', '.join(request.knobs)}"
        store.add_version(request.path, plan.before, f"before {what}", request.actor, request.change_id)
        store.put(plan.after)
        replace_file(request.path, plan.after, plan.sha256_before)
        store.add_version(request.path, plan.after, what, request.actor, request.change_id)
        store.write_journal(
            {
                "verb": "edit",
                "path": request.path,
                "knobs": plan.knobs,
                "sha256_before": plan.sha256_before,
                "sha256_after": plan.sha256_after,
                "source": plan.source["told"] if plan.source else None,
                "actor": request.actor,
                "change_id": request.change_id,
            }
        )
    return plan

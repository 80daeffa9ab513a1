# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Plans and applies one edit of one serve script: set, unset or restore knobs, and nothing else."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import knobs
from .bash_syntax import check_syntax
from .drift import drifted
from .pdops_error import PdopsError
from .script_differences import masked_difference, shown_lines, told_lines
from .script_views import masked_beside, masked_value
from .scripts.deciding import comment_behind, has_knob, knob_line, same_knob
from .scripts.diffing import knobs_changed, lines_beyond
from .scripts.editing import set_knob, unset_knob
from .scripts.reading import read_script
from .scripts.taking import take_knob
from .store.atomic import find_leftovers, leftovers_of, read_regular, remove_leftovers, replace_file, sha256_of
from .store.backups import MOST_BYTES
from .store.obstacles import check_replaceable
from .store.sources import Source, from_backup, from_version, sources_of
from .store.store import Store, Version
from .store.versions import check_label

STATES = ("present", "absent", "restored")


@dataclass(frozen=True)
class EditRequest:
    """What is wanted. A knob's value None means: unset it (``present``), or: whatever it was (``restored``).

    ``lines_only`` takes only the named knobs out of the source (``restored``), as they are written there; a knob that
    a named source does not have is then unset. ``verb`` is what the journal calls it.
    """

    path: str
    knobs: Mapping[str, Optional[str]]
    state: str = "present"
    from_version: Optional[str] = None
    from_backup: Optional[str] = None
    expect_only: bool = True
    lines_only: bool = False
    expect_sha256: Optional[str] = None
    label: str = ""
    actor: str = ""
    change_id: Optional[str] = None
    verb: str = "serve_knob"


@dataclass(frozen=True)
class EditPlan:
    """What would be done. Values in ``knobs``, texts in ``other_lines`` and ``warnings`` are masked.

    ``knobs`` has the named ones and every other one whose export changes; ``other_lines`` are the changed lines
    that are not exports of the named ones.
    """

    request: EditRequest
    before: bytes
    after: bytes
    source: Optional[dict[str, str]] = None
    knobs: dict[str, dict[str, Optional[str]]] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Applied:
    """What was done: the plan that was carried out, and the stored versions of the old and the new content.

    The versions are None when nothing was written (nothing to do, or check mode).
    """

    plan: EditPlan
    version_before: Optional[Version] = None
    version_after: Optional[Version] = None
    warnings: tuple[str, ...] = ()


def masked_diff(plan: EditPlan) -> dict[str, str]:
    """Both contents for Ansible's diff, secrets masked on both sides."""
    return masked_difference(plan.request.path, plan.before, plan.after)


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
        knobs.check_value(name, value)
        if request.state == "absent" and value:
            raise PdopsError(
                f"{name}: state=absent takes no value; write {name} with an empty (null) value, or use state=present to set it."
            )
    if request.state != "restored" and (request.from_version or request.from_backup):
        raise PdopsError("from_version and from_backup belong to state=restored; set that, or leave them out.")
    if request.lines_only and (request.state != "restored" or not request.knobs):
        raise PdopsError("lines_only belongs to state=restored with knobs; set those, or leave it out.")
    if request.from_version and request.from_backup:
        raise PdopsError("from_version and from_backup were both given; give one of them.")
    if request.state == "restored" and not request.knobs and not (request.from_version or request.from_backup):
        raise PdopsError("state=restored names neither a knob nor a source; give knobs, from_version or from_backup.")
    if request.expect_sha256 is not None and not re.fullmatch("[0-9a-f]{64}", request.expect_sha256):
        raise PdopsError(f"expect_sha256 {request.expect_sha256!r} is no sha256 (64 hexadecimal digits); give that.")
    check_label(request.label)


def plan_edit(request: EditRequest, store: Store) -> EditPlan:
    """Work the edit out; reads only, and refuses whatever :func:`apply_edit` would have to refuse.

    Raises :class:`PdopsError`, with ``other_lines`` in its details when the edit would change more than the named
    knobs, and ``drift_lines`` when the script is not ``expect_sha256`` any more.
    """
    check_request(request)
    before = read_regular(request.path, MOST_BYTES)
    if request.expect_sha256 and sha256_of(before) != request.expect_sha256:
        raise drifted(request.path, store, request.expect_sha256, None, before)
    if request.state != "restored":
        refuse_empty(request.path, before)
    source: Optional[dict[str, str]] = None
    skipped: tuple[str, ...] = ()
    if request.state == "restored":
        after, source, skipped = _restored(request, store, before)
        if request.lines_only:
            after = _taken(request, before, after)
    else:
        after = _edited(request, before)
    plan = _described(request, before, after, source, skipped)
    if plan.changed:
        if request.expect_only and (plan.other_lines or set(plan.knobs) - set(request.knobs)):
            raise _too_much(plan)
        if not after.strip() and plan.source:
            raise PdopsError(f"{plan.source['told']} of {request.path} is empty; take another version or a backup.")
        check_replaceable(request.path)
        check_syntax(request.path, after)
    return plan


def refuse_empty(path: str, content: bytes) -> None:
    """An empty script starts nothing, and with a knob in it it would still start nothing: its content was lost."""
    if not content.strip():
        raise PdopsError(
            f"{path} is empty ({len(content)} bytes), so it starts no engine; put a version or a backup of it back "
            "(history.yml lists them, serve_version verb=restore restores one)."
        )


def _edited(request: EditRequest, content: bytes) -> bytes:
    for name, value in request.knobs.items():
        try:
            if request.state == "absent" or value is None:
                content = unset_knob(content, name)
            else:
                content = set_knob(content, name, value)
        except PdopsError as error:
            raise PdopsError(f"{request.path}: {masked_beside([content], str(error))}", **error.details) from None
    return content


def _taken(request: EditRequest, content: bytes, source: bytes) -> bytes:
    for name in request.knobs:
        try:
            content = take_knob(content, name, source)
        except PdopsError as error:
            raise PdopsError(
                f"{request.path}: {masked_beside([content, source], str(error))}", **error.details
            ) from None
    return content


def _restored(request: EditRequest, store: Store, now: bytes) -> tuple[bytes, dict[str, str], tuple[str, ...]]:
    """The content to restore, where it comes from, and what could not be looked at."""
    if request.from_version:
        source = from_version(store.find_version(request.path, request.from_version), store)
    elif request.from_backup:
        source = from_backup(request.path, request.from_backup)
    else:
        return _searched(request, store, now)
    _check_source(request, source)
    return source.content, source.as_dict(), ()


def _searched(request: EditRequest, store: Store, now: bytes) -> tuple[bytes, dict[str, str], tuple[str, ...]]:
    """The newest stored version, or else the newest backup, that has all the named knobs.

    When the script has them with the same values, it is what is wanted; that makes a second run change nothing.
    """
    sources = sources_of(request.path, store)
    for source in sources.found:
        if not all(_has(source.content, name, value) for name, value in request.knobs.items()):
            continue
        if all(same_knob(source.content, now, name) for name in request.knobs):
            break
        return source.content, source.as_dict(), sources.skipped
    if all(_has(now, name, value) for name, value in request.knobs.items()):
        told = {"kind": "none", "name": "", "label": "", "time": "", "told": "the script itself, which has it already"}
        return now, told, sources.skipped
    wanted = ", ".join(name if value is None else f"{name}={value}" for name, value in request.knobs.items())
    passed_over = f" (passed over: {' '.join(sources.skipped)})" if sources.skipped else ""
    raise PdopsError(
        f"no stored version and no backup of {request.path} has {wanted}{passed_over}; set it with state=present and a value."
    )


def _has(content: bytes, name: str, value: Optional[str]) -> bool:
    if value is None:
        return has_knob(content, name)
    return read_script(content).value(name) == value


def _check_source(request: EditRequest, source: Source) -> None:
    theirs = read_script(source.content)
    for name, value in request.knobs.items():
        had = theirs.value(name)
        if value is not None and had != value:
            told = f"{name}={masked_value([source.content], name, had)}"
            if had is None:
                told = f"no {name}" if name not in theirs.active() else f"{name} with a value that only a run tells"
            raise PdopsError(f"{source.told} has {told}, not {value}; leave the value out to take that.")


def _described(
    request: EditRequest, before: bytes, after: bytes, source: Optional[dict[str, str]], skipped: tuple[str, ...]
) -> EditPlan:
    was, becomes = read_script(before), read_script(after)
    both = (before, after)
    values = {
        name: {
            "before": masked_value(both, name, was.value(name)),
            "after": masked_value(both, name, becomes.value(name)),
        }
        for name in dict.fromkeys([*request.knobs, *(knobs_changed(before, after) if before != after else ())])
    }
    others = shown_lines(before, after, lines_beyond(before, after, set(request.knobs))) if before != after else []
    named = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, request.knobs)) or '(?!)'})(?![A-Za-z0-9_])")
    warnings = [
        f"{request.path} line {item.line}: {masked_beside(both, item.sentence)}"
        for item in becomes.findings
        if named.search(item.sentence)
    ]
    if request.state == "present":
        warnings += _old_comments(request, before, after, values)
    warnings += [
        f"{path} was left by a write that a crash cut short; remove it when nobody needs it"
        for path in find_leftovers(os.path.dirname(os.path.realpath(request.path)))
    ]
    return EditPlan(request, before, after, source, values, tuple(others), (*warnings, *skipped))


def _old_comments(
    request: EditRequest, before: bytes, after: bytes, values: Mapping[str, Mapping[str, Optional[str]]]
) -> list[str]:
    """A comment stays byte for byte when the value in front of it changes, and may say what is no longer true."""
    told = []
    for name in request.knobs:
        line, comment = comment_behind(after, name)
        if comment and comment_behind(before, name)[1] == comment and values[name]["before"] != values[name]["after"]:
            told.append(
                f"{request.path} line {line}: the comment behind {name} is left as it is and may speak of the old value: "
                f"{masked_beside((before, after), comment)}"
            )
    return told


def _too_much(plan: EditPlan) -> PdopsError:
    request = plan.request
    named = ", ".join(request.knobs)
    lines = list(plan.other_lines)
    told = f"{plan.source['told']} differs" if plan.source else "the edit differs"
    what = told_lines(lines)
    if not lines:
        others = sorted(set(plan.knobs) - set(request.knobs))
        what = f"the value of {', '.join(others)} would change with it"
    return PdopsError(
        f"{request.path} was not touched: {told} in more than {named}: {what}. {_way_on(plan)}",
        other_lines=lines,
        knobs=plan.knobs,
        diff=masked_diff(plan),
    )


def _way_on(plan: EditPlan) -> str:
    if not plan.source:
        return "To make the whole edit, say expect_only=false."
    becomes = {name: plan.knobs[name]["after"] for name in plan.request.knobs}
    unsure = [name for name, value in becomes.items() if value is None and has_knob(plan.after, name)]
    if unsure:
        lines = "; ".join(masked_beside([plan.after], knob_line(plan.after, name)) for name in unsure)
        only = f"take its line alone (lines_only=true, {lines})"
    elif None in becomes.values():
        only = f"unset it (state=absent, {', '.join(becomes)})"
    else:
        only = f"set it (state=present, {' '.join(f'{name}={value}' for name, value in becomes.items())})"
    if len(becomes) == 1 and not unsure:
        (name, value) = next(iter(becomes.items()))
        by_playbook = "state=absent" if value is None else shlex.quote(f"value={value}")
        only = f"{only[:-1]}; ansible-playbook set_knob.yml -e knob={name} -e {by_playbook})"
    return f"To change only the knob, {only}; to take the whole content, say expect_only=false."


def apply_edit(plan: EditPlan, store: Store) -> Applied:
    """Carry the plan out: lock, look for drift, store old and new, replace, journal. A crash at any point leaves
    the old or the new content in place and both in the store.

    Raises :class:`PdopsError` when the file is not what the plan saw, or cannot be replaced; it is then untouched, and
    the new content is no version of it.
    """
    if not plan.changed:
        return Applied(plan)
    request = plan.request
    what = request.label or f"{request.state} {', '.join(request.knobs) or 'whole'}"[:100]
    with store.lock(f"edit {request.path}{f' by {request.actor}' if request.actor else ''}"):
        now = read_regular(request.path, MOST_BYTES)
        if now != plan.before:
            raise drifted(request.path, store, plan.sha256_before, plan.before, now)
        check_replaceable(request.path)
        # A writer of this script holds the lock that we hold, so what is old here is nobody's.
        removed = remove_leftovers(leftovers_of(request.path))
        before = store.add_version(request.path, plan.before, f"before {what}"[:120], request.actor, request.change_id)
        after = store.add_version(request.path, plan.after, what, request.actor, request.change_id)
        warnings: tuple[str, ...] = ()
        try:
            replace_file(request.path, plan.after, plan.sha256_before)
        except PdopsError as error:
            if not error.details.get("replaced"):
                store.forget_newest(after)
                raise
            warnings = (str(error),)
        store.write_journal(
            {
                "verb": request.verb,
                "path": request.path,
                "state": request.state,
                "knobs": plan.knobs,
                "sha256_before": plan.sha256_before,
                "sha256_after": plan.sha256_after,
                "source": plan.source["told"] if plan.source else None,
                "label": after.label,
                "actor": request.actor,
                "change_id": request.change_id,
                **({"removed_leftovers": removed} if removed else {}),
            }
        )
    return Applied(plan, before, after, warnings)


def edit(request: EditRequest, store: Store, check_mode: bool) -> Applied:
    """Plan and apply in one: what the module does. Two at once wait for each other, and the second one plans afresh.

    In check mode everything is worked out and refused as otherwise, and nothing is written.
    """
    plan = plan_edit(request, store)
    store.check_usable()
    if check_mode or not plan.changed:
        return Applied(plan)
    with store.lock(f"edit {request.path}{f' by {request.actor}' if request.actor else ''}"):
        return apply_edit(plan_edit(request, store), store)

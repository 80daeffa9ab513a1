# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Puts one managed serve script in place: what the module ``serve_script`` does."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from .. import knobs as knob_rules
from ..bash_syntax import check_syntax
from ..drift import drifted
from ..knob_edit import EditPlan, EditRequest, apply_edit
from ..pdops_error import PdopsError
from ..script_differences import masked_difference, shown_lines
from ..script_views import masked_text, masked_value
from ..scripts.diffing import knobs_changed, lines_beyond
from ..scripts.reading import read_script
from ..store.atomic import ABSENT, find_leftovers, leftovers_of, read_regular, remove_leftovers, sha256_of, why
from ..store.backups import MOST_BYTES
from ..store.obstacles import check_replaceable
from ..store.store import Store, Version
from ..store.versions import check_label
from .comparing import Comparison, compared
from .knob_block import fill, find_block
from .new_file import check_creatable, create_file
from .three_way import Decision, decided_knobs

#: Of a script that is made new: run by root or its owner, readable by their group, nobody else's affair.
NEW_MODE = 0o750


@dataclass(frozen=True)
class ScriptRequest:
    """What is wanted: ``base`` as a template rendered it, with ``knobs`` and no others in its block.

    ``expect_sha256`` is that of the script on the machine, or ``absent``; ``mode`` None keeps the present one.
    ``secret_files`` are files of keys that the script names. Without a ``comparison`` what is on the machine is overwritten.
    """

    path: str
    base: bytes
    knobs: Mapping[str, str]
    keep_block: bool = True
    expect_sha256: Optional[str] = None
    mode: Optional[int] = None
    new_mode: int = NEW_MODE
    folder_comes: bool = False
    secret_files: tuple[str, ...] = ()
    comparison: Optional[Comparison] = None
    label: str = ""
    actor: str = ""
    change_id: Optional[str] = None


@dataclass(frozen=True)
class ScriptPlan:
    """What would be done; texts and values are masked. ``before`` is None when there is no script yet.

    ``other_lines`` are the changed lines that are not exports of knobs in ``knobs``; ``decisions`` are those of a comparison.
    """

    request: ScriptRequest
    before: Optional[bytes]
    after: bytes
    mode_before: Optional[int]
    mode_after: int
    knobs: dict[str, dict[str, Optional[str]]] = field(default_factory=dict)
    other_lines: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def sha256_before(self) -> Optional[str]:
        return None if self.before is None else sha256_of(self.before)

    @property
    def sha256_after(self) -> str:
        return sha256_of(self.after)

    @property
    def changed(self) -> bool:
        return self.before != self.after or self.mode_before != self.mode_after


@dataclass(frozen=True)
class Placed:
    """What was done; the versions are None when no content was written."""

    plan: ScriptPlan
    version_before: Optional[Version] = None
    version_after: Optional[Version] = None
    warnings: tuple[str, ...] = ()


def masked_diff(plan: ScriptPlan) -> dict[str, str]:
    """For Ansible's diff: contents with secrets masked on both sides, and the modes when they differ."""
    diff = masked_difference(plan.request.path, plan.before or b"", plan.after)
    if plan.before is None:
        diff["before_header"] = f"{plan.request.path} (absent)"
    elif plan.mode_before is not None and plan.mode_before != plan.mode_after:
        diff["before_header"] += f" mode {plan.mode_before:04o}"
        diff["after_header"] += f" mode {plan.mode_after:04o}"
    return diff


def parse_mode(given: object) -> Optional[int]:
    """``"0750"`` as a number; None stays None.

    :raises PdopsError: it is none, lets others write, or does not let the owner read
    """
    if given is None:
        return None
    text = str(given)
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise PdopsError(f"mode {text!r} is not three octal digits; quote it, as in '0750'.")
    mode = int(text, 8)
    if mode & 0o022 or not mode & 0o400:
        raise PdopsError(f"mode {text} lets others write the script, or its owner not read it; take '0750' or '0700'.")
    return mode


def check_script(path: str, content: bytes) -> None:
    """Refuse what must not become a managed script.

    :raises PdopsError: bash cannot parse it, it does not end in ``exec``, or a secret stands in it; the sentence names the line
    """
    check_syntax(path, content)
    refuse_secrets(path, content)
    reading = read_script(content)
    if reading.refusal:
        raise PdopsError(f"{path}: the rendered script cannot be read back: {reading.refusal}")
    for finding in reading.findings:
        if finding.code == "no-exec":
            raise PdopsError(
                f"{path} would not end in exec, so the service manager's signals would not reach the engine: line {finding.line}: "
                f"{finding.sentence} Begin the last command of the template with exec."
            )


def refuse_secrets(path: str, content: bytes) -> None:
    """Refuse a rendered script in which a secret stands, or which makes one up at run time; the sentence names the line."""
    shown, raw = masked_text(content).split("\n"), content.decode("utf-8", "replace").split("\n")
    for number, (masked, line) in enumerate(zip(shown, raw), 1):
        if masked != line:
            raise PdopsError(
                f"{path} would have a secret in line {number} of the rendered script, and serve scripts are stored and shown; "
                "put it on the machine into the engine's --config file with mode 0600."
            )
    for export in read_script(content).exports:
        if knob_rules.is_secret(export.name):
            raise PdopsError(
                f"{path} would export {export.name} in line {export.line}, which looks like a secret; put it into the engine's --config file."
            )


def plan_script(request: ScriptRequest, store: Store) -> ScriptPlan:
    """Work it out; reads only, and refuses whatever :func:`apply_script` would have to refuse."""
    path = request.path
    if not os.path.isabs(path):
        raise PdopsError(f"path {path!r} is not absolute; give the script's full path.")
    if request.expect_sha256 not in (None, ABSENT) and not re.fullmatch("[0-9a-f]{64}", request.expect_sha256 or ""):
        raise PdopsError(
            f"expect_sha256 {request.expect_sha256!r} is neither a sha256 (64 hexadecimal digits) nor {ABSENT}; give one of them."
        )
    check_label(request.label)
    before = read_regular(path, MOST_BYTES) if os.path.exists(path) else None
    _refuse_drift(request, store, before)
    refuse_secrets(path, request.base)
    decisions: tuple[Decision, ...] = ()
    wanted = dict(request.knobs)
    if request.comparison is not None and before is not None:
        decisions = compared(path, request.base, request.knobs, request.comparison, store, before)
        wanted = decided_knobs(decisions, path)
    after = fill(request.base, wanted, before if request.keep_block else None, path)
    mode_before = None if before is None else stat.S_IMODE(os.stat(path).st_mode)
    mode_after = request.mode if request.mode is not None else request.new_mode if mode_before is None else mode_before
    plan = replace(_described(request, store, before, after, mode_before, mode_after), decisions=decisions)
    check_script(path, after)
    if before is None:
        if not request.folder_comes or os.path.isdir(os.path.dirname(path)):
            check_creatable(path)
    elif plan.changed:
        check_replaceable(path)
    _check_secret_files(request)
    return plan


def _refuse_drift(request: ScriptRequest, store: Store, before: Optional[bytes]) -> None:
    expected, path = request.expect_sha256, request.path
    now = ABSENT if before is None else sha256_of(before)
    if expected in (None, now):
        return
    if before is None:
        raise PdopsError(f"{path} is gone (expected sha256 {str(expected)[:12]}); see who removed it, then run again.")
    if expected == ABSENT:
        raise PdopsError(
            f"{path} is there (sha256 {now[:12]}), but it was not expected to be; look at it, then run again."
        )
    raise drifted(path, store, str(expected), None, before)


def _described(
    request: ScriptRequest,
    store: Store,
    before: Optional[bytes],
    after: bytes,
    mode_before: Optional[int],
    mode_after: int,
) -> ScriptPlan:
    old = before or b""
    both = (old, after)
    names = knobs_changed(old, after) if old != after else ()
    was, becomes = read_script(old), read_script(after)
    values = {
        name: {
            "before": masked_value(both, name, was.value(name)),
            "after": masked_value(both, name, becomes.value(name)),
        }
        for name in names
    }
    others = shown_lines(old, after, lines_beyond(old, after, set(names))) if before is not None else []
    warnings = []
    if before is not None and before != after:
        if find_block(before, request.path) is None:
            warnings.append(
                f"{request.path} was not written from a template so far; its present content is stored as a version before it is replaced"
            )
        elif sha256_of(before) not in {item.sha256 for item in store.versions(request.path)}:
            warnings.append(f"{request.path} was edited outside pdops; that content is stored as a version first")
    warnings += [
        f"{path} was left by a write that a crash cut short; remove it when nobody needs it"
        for path in find_leftovers(os.path.dirname(os.path.realpath(request.path)))
    ]
    warnings += [
        f"{path} is not there yet; the engine will not start without it"
        for path in request.secret_files
        if not os.path.exists(path)
    ]
    return ScriptPlan(request, before, after, mode_before, mode_after, values, tuple(others), tuple(warnings))


def _check_secret_files(request: ScriptRequest) -> None:
    for path in request.secret_files:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue
        if not stat.S_ISREG(mode) or mode & 0o077:
            raise PdopsError(
                f"{path} holds keys, but is no regular file of its owner alone (mode {stat.S_IMODE(mode):04o}); chmod 0600 {path} first."
            )


def apply_script(plan: ScriptPlan, store: Store) -> Placed:
    """Carry the plan out; a crash at any point leaves the old or the new script, and both contents in the store.

    :raises PdopsError: the script is not what the plan saw, or cannot be replaced; it is then untouched
    """
    if not plan.changed:
        return Placed(plan)
    if plan.before is None:
        return _created(plan, store)
    request = plan.request
    narrowed = plan.mode_before != plan.mode_after
    with store.lock(f"write {request.path}"):
        if narrowed:
            _set_mode(request.path, plan.mode_after)
        if plan.before == plan.after:
            _journal(plan, store, None)
            return Placed(plan)
        edit = EditRequest(
            path=request.path,
            knobs=dict(request.knobs),
            state="rendered",
            label=request.label or "rendered",
            actor=request.actor,
            change_id=request.change_id,
            verb="serve_script",
        )
        try:
            done = apply_edit(EditPlan(edit, plan.before, plan.after, knobs=plan.knobs), store)
        except PdopsError:
            if narrowed and plan.mode_before is not None:
                _set_mode(request.path, plan.mode_before)
            raise
    return Placed(plan, done.version_before, done.version_after, done.warnings)


def _set_mode(path: str, mode: int) -> None:
    try:
        os.chmod(path, mode)
    except OSError as error:
        raise PdopsError(f"the mode of {path} could not be set: {why(error)}.") from None


def _created(plan: ScriptPlan, store: Store) -> Placed:
    request = plan.request
    warnings: tuple[str, ...] = ()
    with store.lock(f"write {request.path}"):
        check_creatable(request.path)
        remove_leftovers(leftovers_of(request.path))
        label = request.label or "rendered"
        version = store.add_version(request.path, plan.after, label, request.actor, request.change_id)
        try:
            create_file(request.path, plan.after, plan.mode_after)
        except PdopsError as error:
            if not error.details.get("replaced"):
                store.forget_newest(version)
                raise
            warnings = (str(error),)
        _journal(plan, store, version)
    return Placed(plan, None, version, warnings)


def _journal(plan: ScriptPlan, store: Store, version: Optional[Version]) -> None:
    request = plan.request
    store.write_journal(
        {
            "verb": "serve_script",
            "path": request.path,
            "state": "rendered",
            "knobs": plan.knobs,
            "sha256_before": plan.sha256_before,
            "sha256_after": plan.sha256_after,
            "mode": f"{plan.mode_after:04o}",
            "label": version.label if version else request.label,
            "actor": request.actor,
            "change_id": request.change_id,
        }
    )


def place(request: ScriptRequest, store: Store, check_mode: bool) -> Placed:
    """Plan and apply in one. In check mode everything is worked out and refused as otherwise, and nothing is written."""
    plan = plan_script(request, store)
    store.check_usable()
    if check_mode or not plan.changed:
        return Placed(plan)
    with store.lock(f"write {request.path}"):
        return apply_script(plan_script(request, store), store)

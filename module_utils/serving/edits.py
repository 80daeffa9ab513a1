# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a deploy would write on one machine: the script, the unit and the files of keys of each instance, against what is there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Optional

from ..deployment import Instance
from ..kernel_package.selection import selecting
from ..managed.comparing import Comparison
from ..managed.knob_block import is_managed, knobs_of
from ..managed.new_file import check_creatable
from ..managed.script_edit import ScriptPlan, ScriptRequest, masked_diff, plan_script
from ..managed.three_way import to_write_down
from ..mistakes import Mistakes
from ..pdops_error import PdopsError
from ..script_differences import key_difference, masked_difference, shown_lines
from ..scripts.diffing import changed_lines
from ..services import unit_files
from ..services.systemd import refuse_without_systemd
from ..store.atomic import ABSENT, read_regular, sha256_of
from ..store.backups import MOST_BYTES
from ..store.obstacles import check_replaceable
from ..store.store import Store
from .machine import MOST_KEY_BYTES, owner_of

#: What templates export by themselves: not among the intended values, which people set.
TEMPLATE_EXPORTS = (
    "SPT_NOENV",
    "CUDA_VISIBLE_DEVICES",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "SGLANG_CACHE_DIR",
)


@dataclass(frozen=True)
class Key:
    """A file of keys as the controller sent it: where it goes, whose it is there, and what is in it."""

    path: str
    user: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class Item:
    """One instance as the controller rendered it.

    :ivar script: the rendered template, before ``knobs`` are filled in
    :ivar unit: the rendered unit file; None when systemd does not run the instance
    :ivar comparison: the last confirmed change
    :ivar keys: the files of keys that it names
    """

    instance: Instance
    script: bytes
    knobs: Mapping[str, str]
    comparison: Comparison
    secret_files: tuple[str, ...] = ()
    unit: Optional[bytes] = None
    unit_path: Optional[str] = None
    mode: int = 0o750
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Offer:
    """What is offered to the plan.

    :ivar edits: as :mod:`..observe` has them, with ``kind`` (``script``, ``unit`` or ``key``) and ``existed``
    :ivar contents: what the edits write, by sha256
    :ivar intended: the knobs that the script has afterwards, as far as people set them
    :ivar write_down: kept values that the variables do not have; null is to be taken out
    """

    edits: tuple[dict[str, Any], ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)
    intended: Mapping[str, str] = field(default_factory=dict)
    write_down: Mapping[str, Optional[str]] = field(default_factory=dict)
    refused: Optional[str] = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Without the contents, which stay on the machine."""
        return {
            "edits": list(self.edits),
            "intended": dict(self.intended),
            "write_down": dict(self.write_down),
            "refused": self.refused,
            "details": dict(self.details),
        }


def offer(item: Item, store: Store, existed: bool) -> Offer:
    """Work out what is to be written for one instance; reads only. A refusal is part of the answer, of several each in ``details``.

    :param existed: whether the instance was there before, so that a rollback has something to start
    """
    try:
        return _offer(item, store, existed)
    except PdopsError as error:
        return Offer((), {}, {}, {}, str(error), error.details)


def _offer(item: Item, store: Store, existed: bool) -> Offer:
    instance = item.instance
    comes = {key.path for key in item.keys if not os.path.lexists(key.path)}
    request = ScriptRequest(
        path=instance.serve_script,
        base=item.script,
        knobs={**_of_kernels(instance.serve_script), **item.knobs},
        secret_files=tuple(path for path in item.secret_files if path not in comes),
        comparison=item.comparison,
        new_mode=item.mode,
        folder_comes=True,
        label="deploy",
    )
    # Everything against it is told at once: the script's, the unit's, and that of each file of keys.
    wrong = Mistakes("reasons against it")
    edits: list[dict[str, Any]] = []
    contents: dict[str, bytes] = {}
    common = {"instance": instance.name, "existed": existed}

    def keep(edit: Optional[dict[str, Any]], content: bytes, **more: Any) -> None:
        if edit is not None:
            edits.append({**edit, **common, **more})
            contents[edit["sha256_after"]] = content

    plan: Optional[ScriptPlan] = wrong.take(lambda: plan_script(request, store), None)
    if plan is not None and plan.before != plan.after:
        keep(_script_edit(plan, item), plan.after)
    if item.unit is not None and item.unit_path is not None:
        path, unit = item.unit_path, item.unit
        keep(*wrong.take(lambda: _unit_edit(item, path, unit, store), (None, b"")))
    for key in item.keys:
        keep(
            wrong.take(partial(_key_edit, key, item.comparison.take, store), None),
            key.content,
            users=[instance.name],
        )
    wrong.refuse()
    if plan is None:  # refused above; said again for who reads types
        raise PdopsError(f"{instance.serve_script}: its edit could not be planned.")
    after = knobs_of(plan.after, instance.serve_script)
    written = knobs_of(item.script, "the rendered script")
    intended = {name: value for name, value in after.items() if name not in written}
    return Offer(tuple(edits), contents, intended, to_write_down(plan.decisions), None, {})


def _of_kernels(path: str) -> dict[str, str]:
    """Knobs that select the kernel package of the present script: ``deploy_kernels.yml`` set them, and no variable has them."""
    if not os.path.lexists(path):
        return {}
    present = read_regular(path, MOST_BYTES)
    return selecting(knobs_of(present, path)) if is_managed(present) else {}


def _edit(path: str, before: Optional[bytes], after: bytes, shown: bool = True) -> dict[str, Any]:
    """The fields that every edit of :mod:`..observe` has; ``shown`` is whether lines may be."""
    return {
        "path": path,
        "knob": "",
        "before": None,
        "after": None,
        "line_after": None,
        "source": None,
        "request": None,
        "refused": None,
        "label": "deploy",
        "sha256_before": ABSENT if before is None else sha256_of(before),
        "sha256_after": sha256_of(after),
        "changed": True,
        "changed_lines": shown_lines(before or b"", after, changed_lines(before or b"", after)) if shown else [],
        "other_lines": [],
        "warnings": [],
        "expect": {},
        "knobs": {},
    }


def _script_edit(plan: ScriptPlan, item: Item) -> dict[str, Any]:
    changed = {name: both for name, both in plan.knobs.items() if both["before"] != both["after"]}
    return {
        **_edit(plan.request.path, plan.before, plan.after),
        "kind": "script",
        "mode": plan.mode_after,
        "diff": masked_diff(plan),
        "warnings": [*plan.warnings, *_undone(plan)],
        "expect": {name: both["after"] for name, both in changed.items() if name not in TEMPLATE_EXPORTS},
        "knobs": changed,
        "decisions": [row.as_dict() for row in plan.decisions if row.act in ("keep", "apply")],
    }


def _undone(plan: ScriptPlan) -> list[str]:
    """What somebody set by a confirmed change of another verb, and the variables do not have: the deploy takes it back."""
    return [
        f"{row.name} was set to what it is by change {row.moved.change_id} of {row.moved.actor or 'somebody'} at {row.moved.at}; "
        "the variables say otherwise, and they win"
        for row in plan.decisions
        if row.act == "apply" and row.moved and row.moved.change_id and row.moved.verb != "deploy"
    ]


def _unit_edit(item: Item, path: str, rendered: bytes, store: Store) -> tuple[Optional[dict[str, Any]], bytes]:
    refuse_without_systemd()
    name, after = os.path.basename(path), rendered
    found = unit_files.findings(name, rendered)
    if found:
        raise PdopsError(f"systemd-analyze verify has something against the new {name}: {'; '.join(found[:3])}.")
    before = read_regular(path, MOST_BYTES) if os.path.lexists(path) else None
    enabled = unit_files.is_enabled(name) if before is not None else False
    if before is not None and before != rendered and not _ours(store, path, before):
        if item.comparison.take is None:
            known = store.versions(path)
            since = f"since {known[0].label} of {known[0].actor or 'somebody'} at {known[0].time}" if known else ""
            what = f"was edited by hand {since}" if known else "was not written by pdops"
            lines = shown_lines(before, rendered, changed_lines(before, rendered))
            told = "".join(f"\n  {line['sign']}{line['line']}: {line['text']}" for line in lines[:20])
            raise PdopsError(
                f"{path} {what}, and differs from what would be written. Keep it with take=host, or overwrite it with take=vars "
                f"(its present content stays a stored version).{told}",
                other_lines=lines,
            )
        if item.comparison.take == "host":
            after = before
    if before == after and enabled:
        return None, after
    if before is None:
        check_creatable(path)
    elif before != after:
        check_replaceable(path)
    edit = _edit(path, before, after)
    edit.update(
        kind="unit",
        mode=0o644,
        unit=name,
        enabled_before=enabled,
        diff=masked_difference(path, before or b"", after),
        warnings=[] if before != after else [f"{name} does not start at boot; it is enabled"],
    )
    if before is None:
        edit["diff"]["before_header"] = f"{path} (absent)"
    return edit, after


def _key_edit(key: Key, take: Optional[str], store: Store) -> Optional[dict[str, Any]]:
    uid, gid = owner_of(key.user)
    before = read_regular(key.path, MOST_KEY_BYTES) if os.path.lexists(key.path) else None
    if before == key.content:
        return None
    if before is not None and not _ours(store, key.path, before):
        if take is None:
            known = store.versions(key.path)
            since = f"since {known[0].label} of {known[0].actor or 'somebody'} at {known[0].time}" if known else ""
            what = f"was edited by hand {since}" if known else "was not written by pdops"
            raise PdopsError(
                f"{key.path} (dest of pd_key_files) {what}, and differs from what would be written. Keep it with take=host, or "
                "overwrite it with take=vars (its present content stays a stored version); the content is not shown."
            )
        if take == "host":
            return None
    if before is not None:
        check_replaceable(key.path)
    elif os.path.lexists(os.path.dirname(key.path)):  # otherwise it is made before the change begins
        check_creatable(key.path)
    return {
        **_edit(key.path, before, key.content, shown=False),
        "kind": "key",
        "mode": 0o600,
        "owner": [uid, gid],
        "diff": key_difference(key.path, absent=before is None),
    }


def _ours(store: Store, path: str, content: bytes) -> bool:
    known = store.versions(path)
    return bool(known) and known[0].sha256 == sha256_of(content)


def stage(offers: Mapping[str, Offer], wanted: Mapping[str, str], store: Store) -> list[str]:
    """Store what the plan's edits write, so that ``apply`` finds it by its sha256; nothing else is touched.

    :param wanted: path to the sha256 that the plan showed
    :raises PdopsError: something changed since the plan
    """
    offered = {edit["path"]: edit["sha256_after"] for each in offers.values() for edit in each.edits}
    for path, sha256 in wanted.items():
        if offered.get(path) != sha256:
            raise PdopsError(f"{path}: what would be written now is not what the plan showed; nothing was, run again.")
    with store.lock("stage a deploy"):
        stored = [store.put(each.contents[sha256]) for each in offers.values() for sha256 in sorted(each.contents)]
    return stored

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The verbs on the versions of one script, as the module ``serve_version`` calls them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from .change.book import Book
from .change.needs import contents_needed, refuse_held
from .change.verify_records import verify_records
from .knob_edit import EditRequest, edit, masked_diff
from .pdops_error import PdopsError
from .store.atomic import sha256_of
from .store.importing import import_backups, plan_import
from .store.pruning import PruneRequest, plan_prune, prune
from .store.sources import Source, from_anywhere
from .store.store import Store, Version
from .store.verify import verify
from .version_diff import difference, shown_source
from .version_listing import list_versions

_RESTORED = re.compile(r"restored (?:version [0-9a-f]{12} \(|backup )")

Params = Mapping[str, Any]
Answer = tuple[dict[str, Any], list[str]]


def run(params: Params, check_mode: bool) -> Answer:
    """Carry out ``params['verb']``; the result and the warnings. See the module's documentation for the parameters."""
    if params["verb"] != "verify" and not params["path"]:
        raise PdopsError(f"path is empty; {params['verb']} needs the absolute path of the script.")
    result, warnings = VERBS[params["verb"]](Store(params["state_dir"]), params, check_mode)
    if params["path"]:
        result["path"] = params["path"]
    return result, warnings


def _row(version: Version, **more: str) -> dict[str, Any]:
    return {
        "sha256": version.sha256,
        "label": version.label,
        "time": version.time,
        "actor": version.actor,
        "change_id": version.change_id,
        "size": version.size,
        **more,
    }


def _list(store: Store, params: Params, check_mode: bool) -> Answer:
    listed = list_versions(params["path"], store, params["knob"])
    problem = listed["script"].get("problem")
    return {"changed": False, **listed}, [str(problem)] if problem else []


def _show(store: Store, params: Params, check_mode: bool) -> Answer:
    source = from_anywhere(params["path"], params["version"], store)
    return {"changed": False, "source": {**shown_source(source), "sha256": sha256_of(source.content)}}, []


def _diff(store: Store, params: Params, check_mode: bool) -> Answer:
    path = params["path"]
    before = from_anywhere(path, params["before"], store)
    after = from_anywhere(path, params["after"], store)
    identities = {"sha256_before": sha256_of(before.content), "sha256_after": sha256_of(after.content)}
    return {"changed": False, **identities, **difference(path, before, after)}, []


def _import(store: Store, params: Params, check_mode: bool) -> Answer:
    plan = plan_import(store, params["path"], params["backups"], params["label"])
    store.check_usable()
    if not check_mode:
        import_backups(store, plan, params["actor"])
    rows = [item.as_dict() for item in plan.imports]
    return {"changed": plan.changed, "imported": rows, "passed_over": list(plan.skipped)}, list(plan.skipped)


def _restore(store: Store, params: Params, check_mode: bool) -> Answer:
    path = params["path"]
    refuse_held(Book(store), path, params["change_id"])
    source = from_anywhere(path, params["version"], store)
    if source.kind == "now":
        raise PdopsError(f"version=now is what {path} holds already; name a version or a backup.")
    if not os.path.lexists(path):
        kept = store.object_path(source.name) if source.kind == "version" else source.name
        raise PdopsError(
            f"{path} is gone, so its mode and owner are not known; copy {kept} there by hand and set them."
        )
    request = EditRequest(
        path=path,
        knobs={},
        state="restored",
        from_version=source.name if source.kind == "version" else None,
        from_backup=source.name if source.kind == "backup" else None,
        expect_only=False,
        expect_sha256=params["expect_sha256"],
        label=params["label"] or _restored_label(source),
        actor=params["actor"],
        change_id=params["change_id"],
    )
    done = edit(request, store, check_mode)
    result = {
        "changed": done.plan.changed,
        "source": source.as_dict(),
        "knobs": done.plan.knobs,
        "other_lines": list(done.plan.other_lines),
        "sha256_before": done.plan.sha256_before,
        "sha256_after": done.plan.sha256_after,
        "diff": masked_diff(done.plan),
    }
    return result, [*done.plan.warnings, *done.warnings]


def _restored_label(source: Source) -> str:
    """What was restored, by the name that this content first came with: labels of restores of restores do not nest."""
    return source.label if _RESTORED.match(source.label) else f"restored {source.told}"[:120]


def _prune(store: Store, params: Params, check_mode: bool) -> Answer:
    request = PruneRequest(params["path"], params["keep"], params["older_than_s"], params["actor"])
    book = Book(store)
    store.check_usable()
    if check_mode:
        plan = plan_prune(request, store, contents_needed(book))
    else:
        plan = prune(request, store, lambda: contents_needed(book))
    result = {
        "changed": plan.changed,
        "pruned": [_row(version) for version in plan.gone],
        "kept": [_row(version, reason=reason) for version, reason in plan.kept],
        "removed_objects": [*plan.objects, *plan.leftovers],
    }
    return result, []


def _verify(store: Store, params: Params, check_mode: bool) -> Answer:
    findings = [
        {"kind": item.kind, "path": item.path, "said": item.sentence}
        for item in (*verify(store), *verify_records(store))
    ]
    if not os.path.isdir(store.state_dir):
        # A mistyped folder must not look whole for ever.
        said = f"there is no store at {store.state_dir}; correct state_dir, or nothing was changed by pdops on this machine yet"
        findings = [{"kind": "absent", "path": store.state_dir, "said": said}]
    if findings and params["strict"]:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PdopsError(f"the store is not whole: {findings[0]['said']}{more}", ok=False, findings=findings)
    return {"changed": False, "ok": not findings, "findings": findings}, [item["said"] for item in findings]


VERBS: dict[str, Callable[[Store, Params, bool], Answer]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "import": _import,
    "restore": _restore,
    "prune": _prune,
    "verify": _verify,
}

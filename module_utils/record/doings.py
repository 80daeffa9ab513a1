# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The entries that a verb leaves behind: what it changed, or that it was rolled back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ..knobs import is_secret
from .fold import Folded
from .masking import as_recorded
from .outcomes import NOT_KNOWN
from .reasons import Reason
from .standing import Knob
from .text import losses

Change = tuple[str, str, Optional[str], Optional[str]]

_KINDS = {"set": "apply", "restore": "restore", "revert": "revert", "rollback": "rollback"}
_PLAYBOOKS = {"restore": "restore_knob", "set": "set_knob", "revert": "revert_knob", "kernels": "deploy_kernels"}
_FAILED = ("rolled-back", "rollback-failed", "failed")
_MOST_REASON = 400
_MOST_REFS = 20


def entries_of(done: Mapping[str, Any], reason: Optional[Reason], folded: Folded) -> list[dict[str, Any]]:
    """The entries of one run, without ``v``, ``at``, ``deployment`` and ``by``.

    :param done: ``verb``, ``outcome`` (``confirmed``, ``rolled-back``, ``rollback-failed``, or ``failed`` when machines did not answer),
        ``change_id``, ``said`` (the plan's summary, or why it failed), ``edits`` and ``expect`` of the plan, ``changes`` (the machines'
        own summaries of the change, which also know what an interrupted run had changed, and why somebody wanted it),
        ``fingerprint``, ``silent`` (instances of machines that did not answer when everything was put back)
    :param folded: the record before it; what the entries refer to and what is forgone comes from there
    """
    outcome, verb = str(done.get("outcome") or ""), str(done.get("verb") or "")
    common: dict[str, Any] = {"verb": verb, "said": _first_line(done.get("said"))}
    if done.get("change_id"):
        common["change_id"] = str(done["change_id"])
    if outcome == "confirmed" and done.get("fingerprint"):
        common["fingerprint"] = dict(done["fingerprint"])
    changes = list(changes_of(done, folded))
    if outcome == "confirmed":
        finished = finished_of(done)
        why = reason or _reason_kept(done)
        own = {change[:2] for change in changes_of({"edits": done.get("edits")}, folded)}
        made = []
        for change in changes:
            left = None if change[:2] in own else _left(done, change, "knobs")
            if left is not None:
                made.append(_confirmed(str(left["verb"]), change, *_of_heir(verb, left, reason, common), folded))
            else:
                told = {**common, "said": common["said"] + _interrupted(finished, verb) + _instead(done, change)}
                made.append(_confirmed(finished or verb, change, why, told, folded))
        if made:
            return made
        common["said"] += _interrupted(finished, verb)
        return (
            [{"kind": "rollback", "outcome": "undone", **common}]
            if (finished or verb) == "rollback"
            else [{"kind": "observe", **common}]
        )
    if outcome in _FAILED:
        return _put_back(done, outcome, changes, folded, common)
    return []


def finished_of(done: Mapping[str, Any]) -> str:
    """The verb that was interrupted and that recover.yml carried through; '' when it is none of these."""
    kept = (change.get("finishes") for change in done.get("changes") or ())
    return next((str(one["verb"]) for one in kept if isinstance(one, Mapping) and one.get("verb")), "")


def _interrupted(former: str, verb: str) -> str:
    return f"; interrupted as {former}, and finished by {_PLAYBOOKS.get(verb, verb)}.yml" if former else ""


def _left(done: Mapping[str, Any], change: Change, which: str) -> Optional[Mapping[str, Any]]:
    """The interrupted change that had changed a knob before this one took it over, as the machines know it."""
    for told in done.get("changes") or ():
        for row in told.get("inherited") or ():
            if list(change[:2]) in [list(pair) for pair in row[which]]:
                found: Mapping[str, Any] = row
                return found
    return None


def _of_heir(
    verb: str, left: Mapping[str, Any], reason: Optional[Reason], common: Mapping[str, Any]
) -> tuple[Optional[Reason], dict[str, Any]]:
    """Why a knob is what another run had made it, and what is said of it: what was known stays, whoever carried it through.

    Typed again, as by the same command, a reason is the newer one, and the former one is told beside it.
    """
    kept, said = _reason_of(left.get("why")), f"{common['said']}{_interrupted(str(left['verb']), verb)}"
    if reason is None or (kept is not None and reason.text == kept.text):
        return kept, {**common, "said": said}
    if left["verb"] != verb:
        return kept, {**common, "said": f"{said}; {reason.text}"}
    return reason, {**common, "said": said + (f"; the interrupted run said: {kept.text}" if kept else "")}


def _instead(done: Mapping[str, Any], change: Change) -> str:
    """Of a knob that an interrupted change had changed and this one changes itself: that change never came to be."""
    left = _left(done, change, "again")
    if left is None:
        return ""
    kept = _reason_of(left.get("why"))
    return f"; instead of what was interrupted ({left.get('summary')}{f': {kept.text}' if kept else ''})"


def _reason_kept(done: Mapping[str, Any]) -> Optional[Reason]:
    """Why somebody wanted it, of a change whose entry another run writes: its machines keep it."""
    for change in done.get("changes") or ():
        kept = _reason_of(change.get("why"))
        if kept is not None:
            return kept
    return None


def _reason_of(why: Any) -> Optional[Reason]:
    if isinstance(why, Mapping) and why.get("text"):
        return Reason(str(why["text"]), bool(why.get("suspicion")), str(why.get("review_by") or ""))
    return None


def _put_back(
    done: Mapping[str, Any], outcome: str, changes: list[Change], folded: Folded, common: dict[str, Any]
) -> list[dict[str, Any]]:
    """What was tried and is not there; of a machine that did not answer, only that nobody knows yet."""
    silent = {str(name) for name in done.get("silent") or ()}
    why = common.pop("said")
    nobody = f"{', '.join(sorted(silent))} did not answer: the guard there puts the old state back by itself"

    def base(instance: str) -> dict[str, Any]:
        unknown = instance in silent if silent and instance else outcome == "failed"
        held = NOT_KNOWN if unknown else "rollback-failed" if outcome == "rollback-failed" else "rolled-back"
        told = f"{why}; {nobody}"[:_MOST_REASON] if unknown and silent else why
        refs = _told_before(folded, common.get("change_id"), instance, held)
        return {"kind": "rollback", "outcome": held, **common, "reason": told, **({"refs": refs} if refs else {})}

    return [
        {**base(instance), "knob": knob, "instance": instance, "before": before, "after": after}
        for instance, knob, before, after in changes
    ] or [base("")]


def _told_before(folded: Folded, change_id: Any, instance: str, outcome: str) -> list[str]:
    """Entries that told otherwise, or nothing certain, of the same change: this one says what became of it."""
    return [
        kept.id
        for kept in folded.entries
        if change_id
        and kept.kind == "rollback"
        and kept.data.get("change_id") == change_id
        and kept.data["outcome"] != outcome
        and (not instance or kept.data.get("instance") in (None, instance))
        and kept.id not in folded.corrected
    ][-_MOST_REFS:]


def not_told_yet(made: Iterable[dict[str, Any]], folded: Folded) -> list[dict[str, Any]]:
    """Without what the record has already: a rollback that failed is told by every run until somebody has ended it."""
    seen = {_same(kept.data) for kept in folded.entries if kept.kind == "rollback" and kept.id not in folded.corrected}
    found = []
    for entry in made:
        if entry["kind"] != "rollback" or not entry.get("change_id") or _same(entry) not in seen:
            found.append(entry)
            seen.add(_same(entry))
    return found


def _same(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("change_id", "outcome", "instance", "knob"))


def _first_line(text: Any) -> str:
    line = next(iter(str(text or "").strip().splitlines()), "")
    return line[:_MOST_REASON] or "nothing was said"


def changes_of(done: Mapping[str, Any], folded: Folded) -> Iterable[Change]:
    """Instance, knob, value before and after, without secrets: of the plan, then what only the machines know of, then what a restart alone
    brought into effect."""
    seen: set[tuple[str, str]] = set()

    def fresh(instance: str, knob: Any) -> bool:
        if not knob or is_secret(str(knob)) or (instance, str(knob)) in seen:
            return False
        seen.add((instance, str(knob)))
        return True

    for edit in done.get("edits") or ():
        instance, knob = str(edit.get("instance") or ""), edit.get("knob")
        after = edit.get("line_after") if edit.get("after") is None else edit["after"]
        if fresh(instance, knob):
            yield instance, str(knob), edit.get("before"), after
        for name, both in (edit.get("knobs") or {}).items():
            if fresh(instance, name):
                yield instance, str(name), both["before"], both["after"]
        for name, value in (edit.get("expect") or {}).items():
            if fresh(instance, name):
                yield instance, str(name), _known(folded, name, instance, None), value
    for change in done.get("changes") or ():
        for item in change.get("files") or ():
            for name, both in (item.get("knobs") or {}).items():
                if fresh(str(item.get("instance")), name):
                    yield str(item.get("instance")), str(name), both[0], both[1]
    for instance, knobs in (done.get("expect") or {}).items():
        for name, value in knobs.items():
            if fresh(str(instance), name):
                yield str(instance), str(name), _known(folded, name, instance, value), value


def _known(folded: Folded, knob: str, instance: str, default: Optional[str]) -> Optional[str]:
    row = folded.knobs.get(knob)
    return row.deployed.get(instance, default) if row else default


def _confirmed(
    verb: str, change: Change, reason: Optional[Reason], common: Mapping[str, Any], folded: Folded
) -> dict[str, Any]:
    instance, name, before, after = change
    kind = _KINDS.get(verb, "apply")
    entry: dict[str, Any] = {
        "kind": kind,
        "knob": name,
        "instance": instance,
        "before": before,
        "after": after,
        **common,
    }
    known = folded.knobs.get(name)
    entry["refs"] = [
        *_refs(kind, known, before, folded),
        *_told_before(folded, common.get("change_id"), instance, "undone"),
    ]
    if kind == "rollback":
        entry["outcome"] = "undone"
    if kind == "revert":
        entry.update(reason=reason.text if reason else "none was given", suspicion=bool(reason and reason.suspicion))
        if reason and reason.review_by:
            entry["review_by"] = reason.review_by
        entry["forgoing"] = losses(known.measured(as_recorded(before))) if known else []
    elif reason:
        entry["said"] = f"{entry['said']}; {reason.text}"
    return entry


def _refs(kind: str, known: Optional[Knob], before: Optional[str], folded: Folded) -> list[str]:
    """What this one takes back or rests on: the newest of each kind that matters to it."""
    wanted = {
        "apply": ("propose",),
        "revert": ("apply", "restore", "suspect"),
        "restore": ("revert", "exonerate"),
        "rollback": ("apply", "restore", "revert"),
    }.get(kind, ())
    if known is None:
        return []
    newest = {kept.kind: kept.id for kept in known.entries if kept.kind in wanted and kept.id not in folded.corrected}
    measures = [kept.id for kept in known.measured(as_recorded(before))] if kind == "revert" else []
    return list(dict.fromkeys([*newest.values(), *measures]))

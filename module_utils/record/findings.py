# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What verify.yml and probe.yml find wrong: as entries of the record, and as lines of the machine's journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ..secret_masking import mask_text
from ..store.store import Store
from .fold import Folded
from .masking import as_recorded
from .outcomes import finding_key, same_finding

_MOST_SAID = 400
#: Lines of a journal by which a change ended with every gate passed, or an older finding of the same verb did.
_ENDS = ("confirm", "rolled-back")


def entries_of(done: Mapping[str, Any], folded: Folded) -> list[dict[str, Any]]:
    """The entries of a run that only looked, without ``v``, ``at``, ``deployment`` and ``by``; none for what the record has already.

    :param done: ``verb``, ``outcome`` (``found``, ``held`` when all that was asked holds, or ``registered``), ``finding`` (``found``, ``instance``,
        ``said``), ``held`` (what was asked of a probe: ``hop router``; empty for all that the verb looks at)
    """
    verb = str(done.get("verb") or "")
    if done.get("outcome") == "registered":
        return [{"kind": "observe", "verb": verb, "said": as_recorded(str(done.get("said"))[:_MOST_SAID])}]
    if done.get("outcome") == "held":
        return _over(verb, [str(name) for name in done.get("held") or ()], folded)
    finding = done.get("finding") or {}
    line = next(iter(str(finding.get("said") or "").strip().splitlines()), "") or "nothing was said"
    entry: dict[str, Any] = {"kind": "observe", "verb": verb, "found": str(finding.get("found") or verb)}
    entry["said"] = as_recorded(line[:_MOST_SAID])
    if finding.get("instance"):
        entry["instance"] = str(finding["instance"])
    key = finding_key(entry)
    known = folded.findings.get(key) if key is not None else None
    if known is None:
        return [entry]
    return [] if same_finding(known.data, entry) else [{**entry, "refs": [known.id]}]


def _over(verb: str, held: list[str], folded: Folded) -> list[dict[str, Any]]:
    ended = [
        kept for key, kept in folded.findings.items() if key[0] == verb and (not held or kept.data["found"] in held)
    ]
    if not ended:
        return []
    places = [
        f"{kept.data['found']}{f' of {name}' if name else ''}" for kept in ended for name in [kept.data.get("instance")]
    ]
    said = f"found no more: {', '.join(places)}"
    return [{"kind": "observe", "verb": verb, "over": True, "said": said, "refs": [kept.id for kept in ended]}]


def note(store: Store, line: Mapping[str, Any], dry: bool = False) -> bool:
    """Write what was found into the machine's journal; False, and nothing is written, when its newest line about it says the same.

    :param line: ``verb`` (``found``, ``over``, or what was done), ``by`` (the playbook), ``deployment``, ``actor``, ``instance``,
        ``found``, ``said``, ``entry`` (the id of the entry of the record)
    """
    row = {
        name: mask_text(item) if isinstance(item, str) else item
        for name, item in line.items()
        if item not in (None, "")
    }
    if dry:
        return not _known(store.journal(), row)
    with store.lock("journal"):
        if _known(store.journal(), row):
            return False
        store.write_journal(row)
    return True


def _known(rows: Iterable[Mapping[str, Any]], row: Mapping[str, Any]) -> bool:
    if row["verb"] not in ("found", "over"):
        return False
    former: Optional[Mapping[str, Any]] = _newest(list(rows), row)
    if row["verb"] == "over":
        return former is None
    return former is not None and same_finding(former, row)


def _newest(rows: list[Mapping[str, Any]], row: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """The finding of the same verb and place that nothing has ended since; for ``over`` any of that verb."""
    one: Mapping[str, Any]
    for one in reversed(rows):
        if one.get("deployment") != row.get("deployment"):
            continue
        if one.get("verb") in _ENDS or (one.get("verb") == "over" and one.get("by") == row.get("by")):
            return None
        if one.get("verb") != "found" or one.get("by") != row.get("by"):
            continue
        if row["verb"] == "over" or _place(one) == _place(row):
            return one
    return None


def _place(row: Mapping[str, Any]) -> str:
    return str(row.get("instance") or row.get("found") or "")

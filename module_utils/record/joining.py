# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record against the machines: what their journal and their scripts say otherwise. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ..knobs import is_secret
from .fold import PLACING, Folded
from .masking import as_recorded
from .outcomes import NOT_KNOWN
from .standing import shown

Change = Mapping[str, Any]


def against_journal(folded: Folded, changes: Iterable[Change]) -> list[str]:
    """What a machine did and the record does not tell, or tells otherwise; one sentence each.

    :param changes: changes of a machine that have ended, with ``id``, ``verb``, ``state``, ``who``, ``ended`` and ``files``
        (``instance``, ``knobs`` as name to before and after). A machine may have been there before its record, so changes before
        the first entry are not missed.
    """
    told: dict[str, list[Mapping[str, Any]]] = {}
    for kept in folded.entries:
        if kept.data.get("change_id"):
            told.setdefault(kept.data["change_id"], []).append(kept.data)
    first = min((kept.at for kept in folded.entries), default="")
    void = [kept.data for kept in folded.entries if kept.id in folded.corrected]
    found = []
    for change in changes:
        found += _told_otherwise(change, [one for one in told.get(change["id"], ()) if one not in void])
        if change["state"] != "confirmed":
            continue
        for item in change["files"]:
            for name, (before, after) in (item.get("knobs") or {}).items():
                if is_secret(name):
                    continue
                what = f"change {change['id']} by {change['who']} ({name}: {_word(as_recorded(before))} -> {_word(as_recorded(after))} on {item['instance']})"
                entries = told.get(change["id"])
                if entries is None:
                    if first and str(change.get("ended") or "") >= first[:19]:
                        found.append(
                            f"the machine's journal has {what}, and the record has no entry of it: was it deleted, or is it in another checkout?"
                        )
                    continue
                own = [one for one in entries if one.get("knob") == name and one.get("instance") == item["instance"]]
                if own and not any(after is None or as_recorded(one.get("after")) == as_recorded(after) for one in own):
                    found.append(
                        f"the machine's journal has {what}, and the record says that it became {_word(as_recorded(own[-1].get('after')))}."
                    )
    return found


def _told_otherwise(change: Change, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of a change that the record has: that it ended in another way than the machine says."""
    names = {item["instance"] for item in change["files"] if item.get("knobs")}
    own = [one for one in entries if one.get("instance") in names]
    held = [one for one in own if one["kind"] in PLACING or one.get("outcome") == "undone"]
    went = [one for one in own if one.get("outcome") in ("rolled-back", "rollback-failed")]
    if change["state"] == "confirmed" and went and not held:
        says = str(went[-1]["outcome"])
    elif change["state"] in ("rolled-back", "rollback-failed") and held:
        says = "confirmed"
    else:
        return []
    return [
        f"the machine's journal has change {change['id']} by {change['who']} as {change['state']}, and the record says that it was "
        f"{says}: look with recover.yml, and correct the entry that is wrong."
    ]


def findings_gone(folded: Folded, noted: Iterable[Mapping[str, Any]]) -> list[str]:
    """Findings that a machine's journal has together with the id of their entry, and the record has not; one sentence each."""
    known = {kept.id for kept in folded.entries}
    return [
        f"the machine's journal has a finding of {row.get('at')} by {row.get('actor')} ({row.get('said')}), and the record has no entry "
        f"{row['entry']}: was it deleted, or is it in another checkout?"
        for row in noted
        if row.get("entry") and row["entry"] not in known
    ]


def unwritten(folded: Folded, ended: Iterable[Change], leader: str) -> list[dict[str, Any]]:
    """Confirmed changes that ``leader`` (``user on host``) led and died before their entry was written, oldest first, as
    :func:`.doings.entries_of` takes them.

    What somebody else led is in another checkout. Of a record without entries only the newest is missing: a machine may have been
    there before its record.
    """
    by_id: dict[str, list[Change]] = {}
    for change in ended:
        by_id.setdefault(str(change["id"]), []).append(change)
    told = {
        kept.data.get("change_id")
        for kept in folded.entries
        # That nobody knew yet what became of it is no entry about it.
        if kept.data.get("outcome") != NOT_KNOWN
    }
    first = min((kept.at for kept in folded.entries), default="")
    found = []
    for name, rows in sorted(by_id.items()):
        one = rows[0]
        if name in told or any(row["state"] != "confirmed" for row in rows):
            continue
        if one.get("verb") == "restart" and not any(row.get("files") for row in rows):
            continue  # unlike one that took over what an interrupted change had written
        if any(row.get("controller_gone") is False for row in rows):
            continue  # it is about to write its entry itself
        if one.get("who") != leader or (first and str(one.get("ended") or "") < first[:19]):
            continue
        said = f"{one['summary']} (written down by a later run)"
        found.append({"verb": one["verb"], "outcome": "confirmed", "change_id": name, "said": said, "changes": rows})
    return found if first else found[-1:]


def against_scripts(folded: Folded, intended: Mapping[str, Mapping[str, Optional[str]]]) -> list[str]:
    """Knobs that a serve script has otherwise than the record; one sentence each.

    :param intended: by instance the knobs that its script exports; instances that nobody could look at are not in it
    """
    found = []
    for name, knob in sorted(folded.knobs.items()):
        for instance, value in sorted(knob.deployed.items()):
            if instance not in intended or (value or "").startswith("export "):
                continue
            there, value = as_recorded(intended[instance].get(name)), as_recorded(value)
            if there != value:
                found.append(
                    f"the script of {instance} has {shown(there, name)}, and the record {shown(value)} since {knob.since[instance][:10]} "
                    f"({knob.changes[instance]}): somebody edited it by hand, or the entry is in another checkout."
                )
    return found


def _word(value: Optional[str]) -> str:
    return "unset" if value is None else f"={value}"

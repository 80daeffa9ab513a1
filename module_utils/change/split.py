# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A change that ended on one machine otherwise than on another. Pure.

One machine is atomic; over several it is not: a controller that dies between its first and its last confirm leaves a change
that holds on one machine and goes back on the other. Nothing can prevent that, so it is found, named and converged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: What a machine needs to tell of its newest changes.
NEWEST = 8
_CONTENT = {"new": "the new content", "old": "the old content"}


def _content(files: Iterable[Mapping[str, Any]]) -> str:
    """``new``, ``old``, ``mixed``, or empty when there is no file."""
    seen = {str(item.get("now", "")) for item in files}
    return seen.pop() if len(seen) == 1 else "mixed" if seen else ""


def _by_change(machines: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Change id to machine to what that one says of it."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for machine in machines:
        name = str(machine.get("change_machine", ""))
        for change in [*machine.get("changes", []), *machine.get("ended", [])]:
            found.setdefault(str(change["id"]), {})[name] = change
    return found


def splits(machines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Changes that hold on one machine and not on another, the newest first.

    :arg machines: what ``pd_recover`` returned of each, with ``change_machine``
    :returns: of each ``id``, ``summary``, ``opened``, ``confirmed`` and ``not_confirmed`` (names of machines), ``content`` of all
        its files (``mixed``: the scripts do not belong together), ``is_open`` on a machine, and ``lines`` for a person
    """
    changes = _by_change(machines)
    found = []
    for change_id, seen in changes.items():
        confirmed = sorted(name for name, change in seen.items() if change["state"] == "confirmed")
        others = sorted(set(seen) - set(confirmed))
        if not confirmed or not others or _settled(changes, change_id, seen):
            continue
        content = _content(item for change in seen.values() for item in change["files"])
        is_open = any(change["state"] in ("open", "rolling-back", "rollback-failed") for change in seen.values())
        if content != "mixed" and not is_open:
            continue  # all scripts are old, or all are new: they belong together
        some = seen[confirmed[0]]
        told = {
            "id": change_id,
            "summary": some["summary"],
            "opened": some["opened"],
            "confirmed": confirmed,
            "not_confirmed": others,
            "content": content,
            "is_open": is_open,
        }
        found.append({**told, "lines": _lines(told, seen)})
    return sorted(found, key=lambda item: str(item["id"]), reverse=True)


def _settled(changes: Mapping[str, Mapping[str, Any]], change_id: str, seen: Mapping[str, Any]) -> bool:
    """Whether a later change was confirmed on every machine of this one; ids sort by time."""
    return any(
        other > change_id and all(changes[other].get(name, {}).get("state") == "confirmed" for name in seen)
        for other in changes
    )


def _lines(told: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [f"change {told['id']} is SPLIT over its machines: {told['summary']}"]
    for name, change in sorted(seen.items()):
        content = _content(change["files"])
        what = f", its scripts have {_CONTENT.get(content, content)}" if content else ", no script of it there"
        lines.append(f"  {name}: {change['state']}{what}")
    lines.append(
        "  to go on, bring the old state everywhere: ansible-playbook recover.yml -e finish=back, "
        "or the new one: ansible-playbook recover.yml -e finish=forward"
    )
    return lines

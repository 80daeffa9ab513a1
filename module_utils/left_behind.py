# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What earlier changes left behind, and whether a new run may go on from there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .asked import Asked
from .change.record import NO_GUARD, lease_told
from .change.split import splits
from .pdops_error import PdopsError
from .sight import Sight


def left_behind(sight: Sight, asked: Asked, take_over: str | None) -> tuple[list[str], str | None]:
    """Sentences about it, and the id of the open change that this run supersedes, if any.

    Raises :class:`PdopsError` when an open change has the deployment, or when this run asks for something else than an
    interrupted one whose script is in place.
    """
    reading_only = asked.verb == "verify"
    found = []
    superseded = None
    told_of: dict[tuple[str, str, str], list[str]] = {}
    for info in sight.infos:
        for change in info.get("unreported", []):
            key = (str(change["id"]), str(change["state"]), str(change["reason"]))
            told_of.setdefault(key, []).append(str(info.get("change_machine", "")))
            if len(told_of[key]) > 1:
                continue  # the same is told once, with the names of the machines below
            found.append(
                f"change {change['id']} of {change['who']} ({change['summary']}) was {change['state']} by its guard "
                f"at {change['ended']}: {change['reason']}"
            )
    for (change_id, state, _reason), machines in told_of.items():
        if len(sight.infos) > 1:
            found.append(f"change {change_id} was {state} on {', '.join(machines)}")
    if asked.verb != "recover":
        found += [line.strip() for split in splits(sight.infos) for line in split["lines"]]
    for change, on in _open_ones(sight):
        dead = change["free"] or change["controller_gone"]
        told = (
            f"change {change['id']} of {change['who']} ({change['summary']}), open since {change['opened']}, "
            f"{'stopped after' if dead else 'is under way, now at'} '{change['last_step']}'{on}"
        )
        if not reading_only and (change["free"] or (take_over == change["id"] and change["state"] == "open")):
            why = "its controller is gone" if change["controller_gone"] else "nobody leads it any more"
            if not take_over and asked.verb != "recover" and not _same_intent(change, asked):
                raise PdopsError(_other_intent(change, told, why))
            found.append(f"{told}; {'you take it over' if take_over else why}, so this run goes on from there")
            superseded = change["id"]
        elif reading_only:
            found.append(f"{told}; it is {change['state']}, {_until(change)}")
        elif change["state"] == "rolling-back":
            raise PdopsError(f"{told} and is being rolled back now by its guard; wait until that ends, then run again.")
        else:
            raise PdopsError(
                f"{told} and still holds the deployment for {max(0.0, change['lease_left_s']):.0f} s; "
                f"wait for it to end, or take it over with -e take_over={change['id']}."
            )
    if take_over and superseded is None and not reading_only:
        raise PdopsError(f"take_over={take_over}: no such change is open here; leave take_over out.")
    return found, superseded


def _open_ones(sight: Sight) -> list[tuple[Mapping[str, Any], str]]:
    """Each open change once, from the machine that saw it last, with the names of its machines where there are several.

    All files of it count: one machine alone knows only its own.
    """
    seen: dict[str, list[tuple[Mapping[str, Any], str]]] = {}
    for info in sight.infos:
        if info.get("open_change"):
            seen.setdefault(info["open_change"]["id"], []).append(
                (info["open_change"], str(info.get("change_machine", "")))
            )
    found: list[tuple[Mapping[str, Any], str]] = []
    for rows in seen.values():
        held = [change for change, _machine in rows if not change["free"]]
        newest = max((change for change, _machine in rows), key=lambda change: str(change.get("renewed", "")))
        files = [item for change, _machine in rows for item in change["files"]]
        whole = {**(held[0] if held else newest), "files": files}
        on = f" on {', '.join(machine for _change, machine in rows)}" if len(sight.infos) > 1 else ""
        found.append((whole, on))
    return found


def _same_intent(change: Mapping[str, Any], asked: Asked) -> bool:
    """Whether carrying the interrupted change through is what is asked now. One that changed no script keeps nothing."""
    edited = [item for item in change["files"] if item.get("now") != "old"]
    if not edited:
        return True
    knobs = {name: pair for item in edited for name, pair in (item.get("knobs") or {}).items()}
    if asked.verb != change.get("verb") or (asked.knob is not None and asked.knob not in knobs):
        return False
    wanted = None if asked.unset else asked.value
    # One that took another over has the knobs of that one, too.
    meant = [after for name, (_before, after) in knobs.items() if asked.knob in (None, name)]
    return (wanted is None and not asked.unset) or all(after == wanted for after in meant)


def _other_intent(change: Mapping[str, Any], told: str, why: str) -> str:
    """An unrelated run must not confirm what nobody proved."""
    left = max(0.0, change["lease_left_s"])
    back = (
        f"Its guard puts the old state back in {left:.0f} s: wait for that, or do it now"
        if change.get("guard_alive", True)
        else "No guard watches it, so nothing happens by itself: put the old state back"
    )
    return (
        f"{told}; {why}, and its new script is in place. {back} with ansible-playbook recover.yml -e finish=back, "
        "or keep the new state with ansible-playbook recover.yml -e finish=forward; then run this again."
    )


def _until(change: Mapping[str, Any]) -> str:
    guarded = bool(change.get("guard_alive", True))
    if change["state"] == "rolling-back":
        return "its guard is at work" if guarded else f"cut short{NO_GUARD}"
    return lease_told(change["lease_left_s"], guarded)

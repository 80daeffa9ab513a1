# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Plans that deal with a former change: carry an interrupted one through, or put a confirmed one back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import scoping
from .asked import Asked
from .pdops_error import PdopsError
from .plan import Plan
from .sight import Sight

_CO = ("prefill", "decode", "router")


def _restart_all(sight: Sight) -> tuple[str, ...]:
    return tuple(item.name for item in sight.instances if item.role in _CO)


def _not_in_effect(sight: Sight, change: Mapping[str, Any]) -> dict[str, str]:
    """Why an instance cannot have the change's state: it does not run, or its process is older than its script."""
    edited = {item["instance"] for item in change["files"]}
    why: dict[str, str] = {}
    for item in sight.instances:
        seen = sight.by_name[item.name]
        if seen.get("error"):
            raise PdopsError(f"{item.name}: {seen['error']}")
        if seen["unit"]["pid"] is None:
            why[item.name] = "it does not run"
        elif seen.get("stale"):
            why[item.name] = f"its process does not have {seen['stale'][0]['knob']} as its script says"
        elif item.name in edited and (seen["script"].get("younger_s") or 0.0) > 0:
            why[item.name] = "its process is older than its script"
    return why


def _one_serves_meanwhile(sight: Sight, names: Mapping[str, str]) -> bool:
    """Whether each of these can be out of the router while another one of its role serves."""
    roles = {item.role for item in sight.instances if item.name in names}
    out = sight.left_out()
    serving = [
        item.role
        for item in sight.instances
        if sight.by_name[item.name]["unit"]["pid"] is not None and item.name not in out
    ]
    return "router" not in roles and all(serving.count(role) > (0 if out else 1) for role in roles)


def _refuse_half_begun(sight: Sight, change: Mapping[str, Any], split: str | None) -> None:
    """A change of several machines has a new state only when all of them began it and none of them went back.

    ``split`` is the change that went back on one machine and holds on another, whose scripts the edits bring forward.
    """
    for info in sight.infos:
        here = info.get("open_change")
        states = {str(item["id"]): str(item["state"]) for item in [*info.get("ended", []), *([here] if here else [])]}
        # The run that was to carry it through may itself have died before it began here.
        names = (change["id"], (change.get("finishes") or {}).get("id"))
        state = next((states[name] for name in names if name in states), "")
        if state in ("open", "rolling-back", "confirmed") or (state == "superseded" and here):
            continue
        where = info.get("change_machine") or ", ".join(info["instances"])
        if state == "":
            raise PdopsError(
                f"change {change['id']} had not begun on {where}, so there is no whole new state to keep; "
                "put the old one back with ansible-playbook recover.yml -e finish=back, or run the verb again."
            )
        if change["id"] != split:
            raise PdopsError(
                f"change {change['id']} is {state} on {where}, so there is no whole new state to keep; "
                "put the old one back with ansible-playbook recover.yml -e finish=back, or run the verb again."
            )


def plan_forward(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """``recover.yml -e finish=forward``: the new state of an open change is proved and kept.

    Nothing restarts when every process has what its script says and all were restarted that should be: all gates run, then it
    is confirmed. What a rolling restart had still before it is restarted one at a time, else all of it. A state in between, with
    some files old or a rollback begun, is refused: the way on from there is back, or the verb again.
    """
    opens = sight.open_changes()
    edits = _chosen_edits(sight)
    if not opens and not edits:
        sentence = "nothing to carry through: no change is open"
        return Plan(deployment, asked.verb, sentence, nothing=sentence)
    for change in opens:
        if change["state"] != "open":
            raise PdopsError(
                f"change {change['id']} is {change['state']}, so it cannot be carried through; "
                "put the old state back with ansible-playbook recover.yml -e finish=back."
            )
        _refuse_half_begun(sight, change, asked.change)
        for item in change["files"]:
            if item["now"] != "new":
                raise PdopsError(
                    f"{item['path']} has not the new content of change {change['id']} ({item['now']}), so there is no new "
                    "state to keep; put the old one back with ansible-playbook recover.yml -e finish=back, or run the verb again."
                )
    why: dict[str, str] = {}
    for change in opens:
        why.update(_not_in_effect(sight, change))
    for change in opens:
        for name in (change.get("undone") or {}).get("restart", []):
            why.setdefault(name, "the interrupted run had still to restart it")
    for name in sight.left_out():
        why.setdefault(name, scoping.LEFT_OUT)
    if opens:
        newest = opens[-1]
    else:
        newest = next(item for info in sight.infos for item in info.get("ended", []) if item["id"] == asked.change)
    summary = f"carried through: {newest['summary']} (change {newest['id']})"
    why.update({edit["instance"]: "its script changes" for edit in edits})
    finishes = {
        "id": newest["id"],
        "verb": (newest.get("finishes") or {}).get("verb") or newest.get("verb", ""),
        "why": newest.get("why") or {},
    }
    if not why:
        return Plan(deployment, asked.verb, summary, finishes=finishes)
    if not edits and all(change.get("rolling") for change in opens) and _one_serves_meanwhile(sight, why):
        names = tuple(scoping.in_scope(sight, "rolling", why))
        rule = "the interrupted run restarted one at a time, and the others serve"
        return Plan(
            deployment, asked.verb, summary, restart=names, scope="rolling", rule=rule, why=why, finishes=finishes
        )
    restart = _restart_all(sight)
    reasons = {name: why.get(name, "restarted with it, so that the pair meets afresh") for name in restart}
    expect = {edit["instance"]: dict(edit["expect"]) for edit in edits if edit["expect"]}
    return Plan(
        deployment,
        asked.verb,
        summary,
        edits=tuple(edits),
        restart=restart,
        scope="co",
        rule="what is there is proved as a whole",
        why=reasons,
        expect=expect,
        finishes=finishes,
    )


def _chosen_edits(sight: Sight) -> list[dict[str, Any]]:
    """All that the machines offer; one that is refused refuses the whole."""
    edits = [dict(edit) for item in sight.instances for edit in sight.by_name[item.name].get("edits", [])]
    refused = [edit for edit in edits if edit.get("refused")]
    if refused:
        raise PdopsError(
            f"{refused[0]['instance']}: {refused[0]['refused']}", other_lines=refused[0].get("other_lines", [])
        )
    return edits


def _void(sight: Sight, undone: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Of the changes that were confirmed where they have no script, and went back wherever else they began: id to a sentence.

    That is one story: the last confirm failed, and nothing of the change is left to be put back.
    """
    found: dict[str, str] = {}
    for undo in undone:
        parts = _parts(sight, undo["id"])
        kept = sorted(name for name, part in parts.items() if part["state"] == "confirmed")
        back = sorted(name for name, part in parts.items() if part["state"] == "rolled-back")
        if back and len(kept) + len(back) == len(parts) and not any(parts[name]["files"] for name in kept):
            found[undo["id"]] = (
                f"change {undo['id']} went back on {', '.join(back)}, and no script of it is on {', '.join(kept)}"
            )
    return found


def _parts(sight: Sight, change_id: str) -> dict[str, Mapping[str, Any]]:
    """What each machine that tells of a change says of it; a machine tells of its newest ones."""
    return {
        str(info.get("change_machine") or ", ".join(info["instances"])): part
        for info in sight.infos
        for part in info.get("ended", [])
        if part["id"] == change_id
    }


def _only_there(sight: Sight, change_id: str) -> bool:
    """Whether the machines whose newest is void have no script of a change, which the others have said all of."""
    parts = _parts(sight, change_id)
    looked_elsewhere = [
        str(info.get("change_machine") or ", ".join(info["instances"]))
        for info in sight.infos
        if (info.get("undo") or {}).get("id") != change_id
    ]
    return all(name in parts and not parts[name]["files"] for name in looked_elsewhere)


def plan_rollback(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """``rollback.yml``: the scripts of a confirmed change as they were before it, as a new change."""
    undone = [info["undo"] for info in sight.infos if info.get("undo")]
    for undo in undone:
        if undo.get("refused"):
            raise PdopsError(str(undo["refused"]))
    void = _void(sight, undone)
    undone = [undo for undo in undone if undo["id"] not in void]
    names = {undo["id"] for undo in undone}
    if not names and void:
        sentence = f"nothing to roll back: {'; '.join(void.values())}; name another: ansible-playbook rollback.yml -e change=ID"
        return Plan(deployment, asked.verb, sentence, nothing=sentence)
    if not names:
        if asked.change:
            raise PdopsError(
                f"change={asked.change}: no machine has a change of that id for {deployment}; see history.yml."
            )
        sentence = "nothing to roll back: no change of a script was ever confirmed here"
        return Plan(deployment, asked.verb, sentence, nothing=sentence)
    if len(names) > 1:
        raise PdopsError(
            f"the machines do not agree on the newest confirmed change ({', '.join(sorted(names))}); name one: "
            f"{' or '.join(f'ansible-playbook rollback.yml -e change={name}' for name in sorted(names, reverse=True))}."
        )
    former = undone[0]
    if void and not _only_there(sight, former["id"]):
        # The machines of the void one looked at that, and have not said how the scripts of the one before it go back.
        raise PdopsError(
            f"{'; '.join(void.values())}; to put back the one before it, type ansible-playbook rollback.yml -e change={former['id']}."
        )
    for item in sight.instances:
        error = sight.by_name[item.name].get("error")
        if error:
            raise PdopsError(f"{item.name}: {error}")
    kind = "a rollback" if former["verb"] == "rollback" else former["summary"]
    told = f"change {former['id']} ({kind}, confirmed {former['ended']})"
    if former["verb"] == "rollback" and not asked.change:
        # Or a second run would put back what the first one did.
        sentence = (
            f"nothing to roll back: the newest is {told}; name another: ansible-playbook rollback.yml -e change=ID"
        )
        return Plan(deployment, asked.verb, sentence, nothing=sentence)
    edits = _chosen_edits(sight)
    why: dict[str, str] = {}
    for edit in edits:
        if not edit.get("in_effect"):
            of_keys = edit.get("kind") == "key"
            for name in edit["users"] if of_keys else [edit["instance"]]:
                why.setdefault(name, "its file of keys goes back" if of_keys else "its script goes back")
    if not edits:
        if not any(undo["files"] for undo in undone):
            sentence = f"nothing to roll back: {told} changed no script; name another: ansible-playbook rollback.yml -e change=ID"
        else:
            sentence = f"nothing to roll back: the scripts are as they were before {told}"
            for undo in undone:
                why.update(_not_in_effect(sight, undo))
        if not why:
            return Plan(deployment, asked.verb, sentence, nothing=sentence)
    expect: dict[str, dict[str, str | None]] = {}
    for edit in edits:
        if edit["expect"]:
            expect[edit["instance"]] = dict(edit["expect"])
    warnings = tuple(str(sentence) for edit in edits for sentence in edit.get("warnings", []))
    if not why:
        warnings += ("the running processes have the former values already, so nothing is restarted",)
        return Plan(deployment, asked.verb, f"rolled back {told}", edits=tuple(edits), expect=expect, warnings=warnings)
    roles = {item.role for item in sight.instances if item.name in why}
    router_only = roles == {"router"}
    restart = tuple(why) if router_only else _restart_all(sight)
    return Plan(
        deployment,
        asked.verb,
        f"rolled back {told}",
        edits=tuple(edits),
        restart=restart,
        scope="router" if router_only else "co",
        why={name: why.get(name, "restarted with it, so that the pair meets afresh") for name in restart},
        expect=expect,
        warnings=warnings,
    )

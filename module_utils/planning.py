# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Decides what a verb does to a deployment, from what was seen on its machines. Pure; reads and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import scoping
from .asked import Asked
from .deploy_plan import plan_deploy
from .deployment import Instance
from .finishing import plan_forward, plan_rollback
from .kernel_plan import plan_kernels
from .left_behind import left_behind
from .pdops_error import PdopsError
from .plan import Plan
from .secret_masking import mask_text
from .sight import (
    Info,
    Sight,
    meant,
    refuse_misspelled_knob,
    refuse_unknown_knob,
    refuse_unknown_source,
    refuse_unreadable,
)


def _shown(value: str | None) -> str:
    return "unset" if value is None else f"={value}"


def decide(
    deployment: str, instances: list[Instance], infos: list[Info], asked: Asked, take_over: str | None = None
) -> Plan:
    """Turn what was asked and seen into a :class:`Plan`, or refuse with one sentence."""
    sight = Sight(instances, infos)
    found, superseded = left_behind(sight, asked, take_over)
    makers = {
        "restore": _restore,
        "set": _edit_named,
        "revert": _edit_named,
        "restart": _restart,
        "verify": _verify,
        "recover": plan_forward,
        "rollback": plan_rollback,
        "deploy": plan_deploy,
        "kernels": plan_kernels,
    }
    plan = makers[asked.verb](deployment, sight, asked)
    if superseded and (not plan.restart or asked.verb == "deploy") and asked.verb not in ("verify", "recover"):
        # An interrupted run may have stopped or half-started anything: only a restart with gates ends clean.
        former = next(change for change in sight.open_changes() if change["id"] == superseded)
        plan = _with_restart(
            plan, sight, "co", "an interrupted change is brought to an end", "nobody proved what is there"
        )
        plan = Plan(**{**plan.__dict__, "summary": f"finished: {former['summary']}"})
    overlap = asked.overlap and plan.scope == "co"
    told = {
        "summary": mask_text(plan.summary),
        "found": tuple(map(mask_text, (*found, *plan.found))),
        "warnings": tuple(map(mask_text, plan.warnings)),
        "why": {name: mask_text(said) for name, said in plan.why.items()},
    }
    return Plan(**{**plan.__dict__, **told, "take_over": superseded, "overlap": overlap})


def _with_restart(plan: Plan, sight: Sight, scope: str, why: str, rule: str, named: list[str] | None = None) -> Plan:
    """``why`` is of each instance that has no reason of its own; ``rule`` says why it is this scope; ``named`` are those of a rolling restart."""
    names = scoping.in_scope(sight, scope, named or [])
    scoping.refuse_alone(sight, scope, names)
    left = dict.fromkeys(sight.left_out(), scoping.LEFT_OUT)
    reasons = {name: plan.why.get(name, left.get(name, why)) for name in names}
    fields = {"restart": tuple(names), "scope": scope, "rule": rule, "why": reasons, "nothing": None}
    return Plan(**{**plan.__dict__, **fields})


def _candidates(sight: Sight, asked: Asked) -> list[dict[str, Any]]:
    """The edits that the machines offer, of the instances that were asked for."""
    edits = []
    for item in sight.instances:
        if asked.wants(item):
            edits += [dict(edit) for edit in sight.by_name[item.name].get("edits", [])]
    return edits


def _stale(sight: Sight, asked: Asked) -> list[dict[str, Any]]:
    """Knobs that a running process does not have as its script says, of the instances asked for."""
    rows = []
    for item in sight.instances:
        if asked.wants(item):
            rows += [
                {"instance": item.name, **row}
                for row in sight.by_name[item.name].get("stale", [])
                if asked.knob is None or row["knob"] == asked.knob
            ]
    return rows


def _restore(deployment: str, sight: Sight, asked: Asked) -> Plan:
    refuse_unreadable(sight, asked)
    edits = _candidates(sight, asked)
    if not edits:
        refuse_unknown_knob(sight, asked)
        refuse_unknown_source(sight, asked)
    if len({(edit["instance"], edit["knob"]) for edit in edits}) > 1:
        raise PdopsError(_several(sight, edits))
    if edits:
        return _edit_plan(deployment, sight, asked, edits)
    stale = _stale(sight, asked)
    if len({(row["instance"], row["knob"]) for row in stale}) > 1:
        listed = "; ".join(_stale_told(sight, row) for row in stale)
        raise PdopsError(
            f"nothing is missing in a script, but {len(stale)} knobs are not in effect: {listed}. "
            "Name one with -e knob=NAME, or restart to bring all of them into effect: ansible-playbook restart.yml"
        )
    if stale:
        return _stale_plan(deployment, sight, asked, stale[0])
    if not sight.open_changes():
        _refuse_when_down(sight)
    return Plan(deployment, "restore", _nothing_to_restore(sight, asked), nothing=_nothing_to_restore(sight, asked))


def _shown_after(edit: Mapping[str, Any]) -> str:
    line = edit.get("line_after")
    return f" ({line})" if line else f"={edit['after']}" if edit["after"] is not None else " (unset)"


def _several(sight: Sight, edits: list[dict[str, Any]]) -> str:
    listed = "; ".join(
        f"{edit['knob']}{_shown_after(edit)} on {sight.called(edit['instance'])} ({edit['instance']}, from {edit['source']['told']})"
        for edit in edits
    )
    return (
        f"{len(edits)} knobs could be restored, so name one: {listed}. "
        f"Type for instance: ansible-playbook restore_knob.yml -e knob={edits[0]['knob']} -e instance={edits[0]['instance']}"
    )


def _refuse_when_down(sight: Sight) -> None:
    """Nothing to edit is not "nothing to do" while an instance does not run."""
    down = [
        item.name
        for item in sight.instances
        if "unit" in sight.by_name[item.name] and sight.by_name[item.name]["unit"]["pid"] is None
    ]
    if down:
        raise PdopsError(
            f"no script is to be changed, but {', '.join(down)} {'does' if len(down) == 1 else 'do'} not run; "
            "bring the deployment up with ansible-playbook restart.yml"
        )


def _nothing_to_restore(sight: Sight, asked: Asked) -> str:
    where = ", ".join(sight.called(item.name) for item in sight.instances if asked.wants(item))
    if asked.knob is None:
        return f"nothing to restore: no older version or backup has a knob that its script lacks ({where})"
    seen = []
    for item in sight.instances:
        state = sight.by_name[item.name].get("knob") if asked.wants(item) else None
        if state:
            line = state.get("script_line")
            script = f"says {line}, whose value only a run tells" if line else _shown(state["script"])
            seen.append(f"{sight.called(item.name)}: script {script}, running {state['running']}")
    return f"nothing to restore: {asked.knob} ({'; '.join(seen) or where}){_no_such_value(sight, asked)}"


def _no_such_value(sight: Sight, asked: Asked) -> str:
    """Which values there are, when the one that was asked for is none of them."""
    if asked.verb not in ("restore", "revert") or asked.value is None:
        return ""
    wanted = [item.name for item in sight.instances if asked.wants(item)]
    states = [state for name in wanted if (state := sight.by_name[name].get("knob"))]
    if any(state["script"] == asked.value for state in states):
        return ""
    there = sorted({value for state in states for value in state.get("former", ())})
    listed = f"there are {', '.join(there)}" if there else "there is no other value either"
    return f"; no version and no backup has ={asked.value}: {listed}, and set_knob.yml sets any"


def _stale_told(sight: Sight, row: Mapping[str, Any]) -> str:
    return (
        f"{row['knob']} on {sight.called(row['instance'])}: the script says {_shown(row['script'])}, "
        f"the running process has it {_shown(row['running'])} ({row['evidence']})"
    )


def _stale_plan(deployment: str, sight: Sight, asked: Asked, row: Mapping[str, Any]) -> Plan:
    names = [row["instance"]]
    scope, rule = scoping.scope_of_edit(sight, asked, names, [row["knob"]])
    plan = Plan(
        deployment,
        asked.verb,
        f"{_past(asked.verb)} {row['knob']}{_shown(row['script']) if row['script'] is not None else ' (unset)'} on {sight.called(row['instance'])}",
        why={row["instance"]: f"its process started before the edit: {_stale_told(sight, row)}"},
        expect={row["instance"]: {row["knob"]: row["script"]}},
    )
    return _with_restart(plan, sight, scope, "restarted with it, so that the pair meets afresh", rule, names)


def _past(verb: str) -> str:
    return {"restore": "restored", "set": "set", "revert": "reverted", "restart": "restarted", "verify": "verified"}[
        verb
    ]


def _edit_named(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """set and revert: the machines offer at most one edit per instance for the named knob."""
    refuse_unreadable(sight, asked)
    if asked.verb == "set":
        refuse_misspelled_knob(sight, asked)
    edits = _candidates(sight, asked)
    if not edits:
        if asked.verb == "revert":
            refuse_unknown_knob(sight, asked)
        refuse_unknown_source(sight, asked)
    of_pair = asked.knob in scoping.pair_knobs(asked)
    if asked.verb == "set" and of_pair and not asked.instances and asked.role is None:
        engines = {item.name for item in sight.instances if item.role != "router"}
        edits = [edit for edit in edits if edit["instance"] in engines]
    elif asked.verb == "set" and not asked.instances and asked.role is None:
        known = [
            item.name
            for item in sight.instances
            if (sight.by_name[item.name].get("knob") or {}).get("known")
            or any(e["instance"] == item.name for e in edits if e["before"] is not None)
        ]
        if len(known) != 1:
            seen = f"{len(known)} instances have or had it" if known else "no script here has or had it"
            raise PdopsError(
                f"{asked.knob}: say where with -e role=decode or -e instance=NAME, since {seen} "
                f"(instances: {', '.join(item.name for item in sight.instances)})."
            )
        edits = [edit for edit in edits if edit["instance"] == known[0]]
    if asked.verb == "revert" and len({edit["instance"] for edit in edits}) > 1:
        raise PdopsError(_several(sight, edits).replace("restored", "reverted").replace("restore_knob", "revert_knob"))
    if edits:
        return _edit_plan(deployment, sight, asked, edits)
    stale = _stale(sight, asked)
    if stale:
        return _stale_plan(deployment, sight, asked, stale[0])
    if not sight.open_changes():
        _refuse_when_down(sight)
    sentence = (
        f"nothing to {asked.verb}: {_nothing_to_restore(sight, asked).partition(': ')[2]}{_reverted(sight, asked)}"
    )
    return Plan(deployment, asked.verb, sentence, nothing=sentence)


def _reverted(sight: Sight, asked: Asked) -> str:
    """By which revert the knob is what it is, and how to undo that one; empty when it was none."""
    changes = [sight.by_name[item.name].get("reverted") for item in sight.instances if asked.wants(item)]
    ids = list(dict.fromkeys(change["id"] for change in changes if change))
    if not ids:
        return ""
    told = next(change for change in changes if change and change["id"] == ids[0])
    return (
        f"; its newest change was a revert ({told['opened']}, by {told['who']}), and that is undone by "
        f"ansible-playbook rollback.yml -e change={ids[0]}"
    )


def _edit_plan(deployment: str, sight: Sight, asked: Asked, edits: list[dict[str, Any]]) -> Plan:
    refused = [edit for edit in edits if edit.get("refused")]
    if not refused:
        scoping.refuse_one_sided(sight, asked, edits)
    if refused:
        raise PdopsError(
            f"{refused[0]['instance']}: {refused[0]['refused']}",
            other_lines=refused[0].get("other_lines", []),
            diff=refused[0].get("diff"),
        )
    told = []
    expect: dict[str, dict[str, str | None]] = {}
    why: dict[str, str] = {}
    late = []
    for edit in edits:
        name = edit["instance"]
        value = edit["after"]
        line = edit.get("line_after")
        becomes = f"={value}" if value is not None else f" (now {line})" if line else " (now unset)"
        told.append(f"{edit['knob']}{becomes} on {sight.called(name)}")
        if not line:  # what only a run tells, no gate can ask for
            expect.setdefault(name, {})[edit["knob"]] = edit.get("left", value)
        if not edit.get("in_effect"):
            why[name] = "its script changes"
            late.append(name)
    plan = Plan(
        deployment,
        asked.verb,
        f"{_past(asked.verb)} {', '.join(told)}",
        edits=tuple(edits),
        expect=expect,
        why=why,
        warnings=tuple(
            sentence for edit in edits for sentence in (*edit.get("warnings", []), *_beside(sight, asked, edit))
        ),
    )
    if not late:
        # Judged on three things: intended, file, running process. The process has it already.
        return Plan(
            **{
                **plan.__dict__,
                "warnings": (*plan.warnings, "the running process has the value already, so nothing is restarted"),
            }
        )
    scope, rule = scoping.scope_of_edit(sight, asked, late, [edit["knob"] for edit in edits])
    plan = _with_restart(plan, sight, scope, "restarted with it, so that the pair meets afresh", rule, late)
    others = _stale_elsewhere(sight, edits, plan.restart)
    return Plan(**{**plan.__dict__, "warnings": (*plan.warnings, *others)})


def _beside(sight: Sight, asked: Asked, edit: Mapping[str, Any]) -> list[str]:
    """What an operator should know of an edit before it is made."""
    told = []
    others = edit.get("other_values") or {}
    if others:
        listed = ", ".join(f"{value} ({where})" for value, where in others.items())
        told.append(f"other values of {edit['knob']} on record: {listed}; choose with -e value= or -e from=")
    if asked.verb == "set" and not (sight.by_name[edit["instance"]].get("knob") or {}).get("known"):
        told.append(
            f"{edit['knob']} is new on {sight.called(edit['instance'])}{meant(sight, [edit['instance']], edit['knob'])}"
        )
    return told


def _stale_elsewhere(
    sight: Sight,
    edits: list[dict[str, Any]],
    restarted: tuple[str, ...],
    words: str = "the restart also brings into effect",
) -> list[str]:
    chosen = {(edit["instance"], edit["knob"]) for edit in edits}
    return [
        f"{words}: {_stale_told(sight, {'instance': name, **row})}"
        for name in restarted
        for row in sight.by_name[name].get("stale", [])
        if (name, row["knob"]) not in chosen
    ]


def _restart(deployment: str, sight: Sight, asked: Asked) -> Plan:
    for item in sight.instances:
        error = sight.by_name[item.name].get("error")
        if error:
            raise PdopsError(f"{item.name}: {error}")
    scope, names, rule = scoping.scope_of_named(sight, asked)
    plan = Plan(
        deployment,
        "restart",
        f"restarted {', '.join(sight.called(name) for name in names)}",
        warnings=tuple(_stale_elsewhere(sight, [], tuple(names))),
    )
    return _with_restart(plan, sight, scope, "asked for", rule, names)


def _of_all(asked: Asked, names: list[str]) -> tuple[str, ...]:
    """That more is proved than a limit names."""
    if not asked.instances or set(asked.instances) >= set(names):
        return ()
    return (f"the limit names {', '.join(asked.instances)}, and all of the deployment is proved: none serves alone",)


def _verify(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """Without its script nothing can be proved of an instance, however well its process serves: it would not start again."""
    for item in sight.instances:
        if sight.by_name[item.name].get("no_script"):
            raise PdopsError(f"{item.name}: {sight.by_name[item.name]['error']}")
    names = [item.name for item in sight.instances]
    return Plan(
        deployment,
        "verify",
        f"verified {', '.join(sight.called(name) for name in names)}",
        warnings=(*_of_all(asked, names), *_stale_elsewhere(sight, [], tuple(names), "not in effect")),
        nothing="verify changes nothing",
    )

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What ``deploy.yml`` does: scripts, units and files of keys as the inventory describes them, on bare machines as on such that serve. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import scoping
from .asked import Asked
from .mistakes import Mistakes
from .pdops_error import PdopsError
from .plan import Plan
from .sight import Sight

_CALLED = {"key": "file of keys"}


def _offered(sight: Sight) -> dict[str, Mapping[str, Any]]:
    """By instance, what the machines offer; refuses with everything that they and their instances have against it."""
    offers: dict[str, Mapping[str, Any]] = {}
    wrong = Mistakes("obstacles")
    for info in sight.infos:
        offers.update(info.get("deploy", {}))
        wrong.add(*map(str, info.get("obstacles", [])))
    for item in sight.instances:
        offer = offers.get(item.name)
        if offer is None:
            raise PdopsError(f"{item.name}: nothing was worked out for it; nothing was changed.")
        if offer.get("refused"):
            details = dict(offer.get("details") or {})
            said = details.pop("mistakes", [offer["refused"]])
            wrong.add(*(f"{item.name}: {sentence}" for sentence in said))
            wrong.details = {**details, **wrong.details}
    wrong.refuse()
    return offers


def _each_once(sight: Sight, offers: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All edits; of a file of keys that several instances of a machine name one, with all of them as its users."""
    edits: list[dict[str, Any]] = []
    keys: dict[tuple[str, str], dict[str, Any]] = {}
    for item in sight.instances:
        for offered in offers[item.name]["edits"]:
            edit = dict(offered)
            if edit["kind"] == "key":
                first = keys.setdefault((item.machine, edit["path"]), edit)
                if first is not edit:
                    first["users"] = [*first["users"], *edit["users"]]
                    continue
            edits.append(edit)
    return edits


def _why(sight: Sight, edits: list[dict[str, Any]]) -> dict[str, str]:
    """Why an instance is to be restarted, of those for which there is a reason of their own."""
    why: dict[str, str] = {}
    for item in sight.instances:
        seen = sight.by_name[item.name]
        mine = [
            edit
            for edit in edits
            if item.name in edit.get("users", [edit["instance"]]) and edit["sha256_before"] != edit["sha256_after"]
        ]
        if any(not edit["existed"] for edit in mine if edit["instance"] == item.name):
            why[item.name] = "it is new"
        elif mine:
            why[item.name] = (
                f"its {' and its '.join(dict.fromkeys(_CALLED.get(edit['kind'], edit['kind']) for edit in mine))} changes"
            )
        elif seen.get("error"):
            raise PdopsError(f"{item.name}: {seen['error']}")
        elif seen["unit"]["pid"] is None:
            why[item.name] = "it does not run"
        elif seen.get("stale"):
            row = seen["stale"][0]
            why[item.name] = f"its process does not have {row['knob']} as its script says"
    return why


def plan_deploy(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """Everything that differs is written; engines restart together, the router alone when only it has a reason.

    Kept values (``take=host``) are told as what to write into the variables.
    """
    offers = _offered(sight)
    edits = _each_once(sight, offers)
    notes = []
    for item in sight.instances:
        for name, value in offers[item.name]["write_down"].items():
            told = f"{name}: {value}" if value is not None else f"{name}: null"
            notes.append(
                f"{item.name}: the machine keeps its value; write {told} into its variables, or the next deploy sets it"
            )
    notes += [str(sentence) for edit in edits for sentence in edit["warnings"]]
    why = _why(sight, edits)
    if not edits and not why:
        sentence = (
            f"nothing to deploy: scripts, units, key files and processes of {deployment} are as the inventory says"
        )
        return Plan(deployment, asked.verb, sentence, nothing=sentence, warnings=tuple(notes))
    expect = {edit["instance"]: dict(edit["expect"]) for edit in edits if edit["expect"]}
    changed = list(dict.fromkeys(edit["instance"] for edit in edits))
    summary = f"deployed {deployment}" + (f" ({', '.join(changed)})" if changed else " (nothing was written)")
    scope = scoping.scope_of_deploy(sight, asked, why)
    restart = tuple(scoping.in_scope(sight, scope))
    return Plan(
        deployment,
        asked.verb,
        summary,
        edits=tuple(edits),
        restart=restart,
        scope=scope,
        why={name: why.get(name, "restarted with it, so that the pair meets afresh") for name in restart},
        expect=expect,
        warnings=tuple(notes),
    )

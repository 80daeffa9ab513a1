# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What ``deploy_kernels.yml`` does: the knobs that select a kernel package, all of them as one change. Pure."""

from __future__ import annotations

from typing import Any

from . import scoping
from .asked import Asked
from .pdops_error import PdopsError
from .plan import Plan
from .sight import Sight, refuse_unreadable


def _late(sight: Sight, name: str, knobs: dict[str, Any]) -> list[str]:
    """Knobs of the package that the running process is known not to have, though its script says so."""
    return [row["knob"] for row in sight.by_name[name].get("stale", []) if row["knob"] in knobs]


def plan_kernels(deployment: str, sight: Sight, asked: Asked) -> Plan:
    """One edit for each instance that is to have the package; what restarts is decided as for any knob (:mod:`.scoping`).

    A script that selects it already, with a process that does not have it, is restarted and not written.
    """
    refuse_unreadable(sight, asked)
    package = str(asked.kernels.get("package", ""))
    wanted = {name: dict(knobs) for name, knobs in asked.kernels.get("knobs", {}).items()}
    if not wanted:
        raise PdopsError("no instance was named that could have kernels; say role=decode or instance=NAME.")
    edits = [
        dict(edit) for item in sight.instances if item.name in wanted for edit in sight.by_name[item.name]["edits"]
    ]
    for edit in edits:
        if edit.get("refused"):
            raise PdopsError(f"{edit['instance']}: {edit['refused']}", other_lines=edit.get("other_lines", []))
    why = {edit["instance"]: "its script changes" for edit in edits if not edit.get("in_effect")}
    for name, knobs in wanted.items():
        late = _late(sight, name, knobs)
        if name not in why and late:
            why[name] = f"its process does not have {', '.join(late)} as its script says"
        elif name not in why and sight.by_name[name]["unit"]["pid"] is None:
            why[name] = "it does not run"
    called = ", ".join(sight.called(item.name) for item in sight.instances if item.name in wanted)
    if not edits and not why:
        sentence = f"nothing to deploy: {called} has {package} already"
        return Plan(deployment, asked.verb, sentence, nothing=sentence)
    scope, rule = "none", ""
    restart: tuple[str, ...] = ()
    if why:
        changed = {name for edit in edits for name in edit.get("knobs", {})}
        scope, rule = scoping.scope_of_edit(sight, asked, list(why), changed)
        restart = tuple(scoping.in_scope(sight, scope, list(why)))
        scoping.refuse_alone(sight, scope, list(restart))
    return Plan(
        deployment,
        asked.verb,
        f"deployed kernels {package} on {called}",
        edits=tuple(edits),
        restart=restart,
        scope=scope,
        why={name: why.get(name, "restarted with it, so that the pair meets afresh") for name in restart},
        rule=rule,
        expect={name: knobs for name, knobs in wanted.items() if name in restart or not restart},
        warnings=tuple(str(sentence) for edit in edits for sentence in edit.get("warnings", [])),
    )

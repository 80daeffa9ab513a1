# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What to type next, as whole commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Optional

from ..as_typed import COLLECTION
from ..secret_masking import is_secret
from . import clean
from .story import Story

#: To be put in by the operator; the playbook refuses it as it stands.
_REASON = "WHY"

_PLAYBOOKS = {
    "restore": "restore_knob",
    "set": "set_knob",
    "revert": "revert_knob",
    "restart": "restart",
    "verify": "verify",
    "kernels": "deploy_kernels",
}


def play(story: Story, verb: str, **given: Any) -> str:
    """`ansible-playbook set_knob.yml -l dsv4 -e knob=X -e value=4`, quoted for a shell. None is left out."""
    name = _PLAYBOOKS.get(verb, verb)
    words = ["ansible-playbook", f"{COLLECTION}{name}" if story.collection else f"{name}.yml"]
    if story.deployment:
        words += ["-l", story.deployment]
    for name, value in given.items():
        if value is None or value == "":
            continue
        plain = f"{name}={value}"
        # Ansible splits key=value at blanks and quotes, and reads no backslash as it stands.
        odd = any(character.isspace() or character in "\"'\\\\{}" for character in plain)
        words += ["-e", json.dumps({name: str(value)}, ensure_ascii=False) if odd else plain]
    return " ".join(shlex.quote(word) for word in words)


def way_back(story: Story, edit: Mapping[str, Any]) -> Optional[str]:
    """The command that undoes a confirmed edit; None when there is nothing to undo."""
    knob = clean.text(edit.get("knob"))
    if story.outcome != "confirmed" or not knob:
        return None
    if story.verb in ("revert", "rollback"):  # to revert a revert would be another guess; this change itself is meant
        return play(story, "rollback", change=story.change_id)
    return play(story, "revert", knob=knob, instance=clean.text(edit.get("instance")), reason=_REASON)


def again(story: Story) -> Optional[str]:
    """The command of this run: as it was typed if that is known, otherwise made of its plan."""
    if story.command:
        return story.command
    if story.verb not in _PLAYBOOKS:
        return None
    edits = clean.sequence(story.plan.get("edits"))
    if story.verb == "restart":
        scope = clean.text(story.plan.get("scope"))
        return play(story, "restart", scope=scope if scope in ("decode", "router") else None)
    if story.verb == "kernels":
        return play(story, "kernels")
    if story.verb == "verify" or len(edits) != 1:
        return play(story, story.verb) if story.verb in ("verify", "restore") else None
    edit = clean.mapping(edits[0])
    knob, instance = clean.text(edit.get("knob")), clean.text(edit.get("instance"))
    if not knob or is_secret(knob):
        return None
    if story.verb != "set":
        return play(story, story.verb, knob=knob, instance=instance, reason=_REASON if story.verb == "revert" else None)
    if edit.get("after") is None:
        return play(story, "set", knob=knob, state="absent", instance=instance)
    return play(story, "set", knob=knob, value=clean.text(edit["after"]), instance=instance)


def next_commands(story: Story) -> list[dict[str, str]]:
    """What to do next by the outcome: dictionaries ``{why, command}``, the most useful first."""
    found: list[dict[str, str]] = []

    def add(why: str, command: Optional[str]) -> None:
        if command and all(item["command"] != command for item in found):
            found.append({"why": why, "command": command})

    edits = [clean.mapping(edit) for edit in clean.sequence(story.plan.get("edits"))]
    verify = play(story, "verify")
    if story.outcome == "confirmed":
        add("Prove it again, changing nothing", verify)
        if story.verb == "kernels" and edits:
            add("Take the kernels off again", play(story, "rollback", change=story.change_id))
        for edit in edits:
            undone = story.verb if story.verb in ("revert", "rollback") else ""
            add(f"Undo this {undone}" if undone else f"Take {clean.text(edit.get('knob'))} back", way_back(story, edit))
        # What was taken over is no edit of this run's plan, and was confirmed with it.
        if story.plan.get("take_over") and any(event.files for event in story.events):
            add("Undo this, with what it took over", play(story, "rollback", change=story.change_id))
    elif story.outcome == "check":
        add("Do it", again(story))
    elif story.outcome == "rolled-back":
        add("See that the old state serves", verify)
        add("Try again, once the cause is gone", again(story))
    elif story.outcome in ("rollback-failed", "failed", "unknown"):
        add("See what stands and what does not, changing nothing", verify)
        touched = any(event.kind in ("stop", "start", "apply") for event in story.events)
        ill = any(gate.result == "failed" for event in story.events for gate in event.gates)
        if touched or ill or story.outcome == "rollback-failed":
            add("Bring all instances up in order, each with its gates", play(story, "restart"))
        if story.outcome == "failed":
            add("Try again, once the cause is gone", again(story))
    elif story.outcome == "refused":
        add("See how the deployment stands", verify)
    else:
        add("Prove that it works, changing nothing", verify)
    return found

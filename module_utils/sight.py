# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the machines of a deployment said, joined per instance; and what can be refused by that alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .asked import Asked
from .deployment import Instance, start_order
from .knobs import near_name, refuse_near_name
from .pdops_error import PdopsError

Info = Mapping[str, Any]
_MOST_SOURCES = 10


class Sight:
    """What the machines said, joined per instance."""

    def __init__(self, instances: list[Instance], infos: list[Info]) -> None:
        self.instances = start_order(instances)
        self.infos = infos
        self.by_name: dict[str, Mapping[str, Any]] = {}
        for info in infos:
            self.by_name.update(info["instances"])
        missing = [item.name for item in self.instances if item.name not in self.by_name]
        if missing:
            raise PdopsError(
                f"nothing is known of {', '.join(missing)}: its machine did not answer; nothing was changed."
            )

    def called(self, name: str) -> str:
        """The role where it is the only one of its kind, else the instance's name."""
        role = next(item.role for item in self.instances if item.name == name)
        alone = sum(item.role == role for item in self.instances) == 1
        return role if alone else name

    def open_changes(self) -> list[Mapping[str, Any]]:
        return [info["open_change"] for info in self.infos if info.get("open_change")]

    def left_out(self) -> list[str]:
        """Engines that an interrupted rolling restart took out of a router and did not put back."""
        found = [name for change in self.open_changes() for name in (change.get("undone") or {}).get("out", [])]
        return [name for name in dict.fromkeys(found) if name in self.by_name]


def refuse_unknown_knob(sight: Sight, asked: Asked) -> None:
    """A knob that no script, version or backup here ever had is a slip of the pen, and not "nothing to do"."""
    wanted = [item.name for item in sight.instances if asked.wants(item)]
    if asked.knob is None or any((sight.by_name[name].get("knob") or {}).get("known") for name in wanted):
        return
    raise PdopsError(
        f"{asked.knob} is in no script, version or backup of {', '.join(wanted)}{meant(sight, wanted, asked.knob)}; "
        "correct the name, or set it with set_knob.yml."
    )


def refuse_misspelled_knob(sight: Sight, asked: Asked) -> None:
    """A name that is nowhere in the deployment and nearly one that is would be exported, read by nobody, and pass for done."""
    if asked.knob is None or asked.unset or asked.new_knob or asked.knob in asked.pair_knobs:
        return
    reports = [sight.by_name[item.name] for item in sight.instances]
    if any((report.get("knob") or {}).get("known") for report in reports):
        return
    known = {name for report in reports for name in report.get("known_knobs", [])} | set(asked.pair_knobs)
    refuse_near_name(
        asked.knob, known, f"no script, version or backup of {', '.join(item.name for item in sight.instances)}"
    )


def meant(sight: Sight, names: list[str], knob: str) -> str:
    known = {other for name in names for other in sight.by_name[name].get("known_knobs", [])}
    close = near_name(knob, known)
    return f" (did you mean {close}?)" if close else ""


def refuse_unknown_source(sight: Sight, asked: Asked) -> None:
    wanted = [item.name for item in sight.instances if asked.wants(item)]
    if asked.source is None or any(sight.by_name[name].get("source_known") for name in wanted):
        return
    # A knob that goes back and forth gives the same content again and again: each is told once, with its newest label.
    by_content: dict[tuple[str, str], str] = {}
    for name in wanted:
        for source in sight.by_name[name].get("sources", []):
            by_content.setdefault((name, source["name"]), f"{source['told']} of {name}")
    listed = list(by_content.values())
    more = f" and {len(listed) - _MOST_SOURCES} more, which history.yml lists" if len(listed) > _MOST_SOURCES else ""
    raise PdopsError(
        f"from={asked.source} is no version and no backup of a script; there are: "
        f"{', '.join(listed[:_MOST_SOURCES]) or 'none'}{more}."
    )


def refuse_unreadable(sight: Sight, asked: Asked) -> None:
    for item in sight.instances:
        error = sight.by_name[item.name].get("error")
        if error and asked.wants(item):
            raise PdopsError(f"{item.name}: {error}")

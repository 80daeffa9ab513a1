# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Looks at one machine, read-only: scripts, their versions and backups, running processes, the open change;
and works out which edits a verb would make here."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any

from . import knobs
from .asked import Asked
from .change import record as rules
from .change.book import Book
from .change.split import NEWEST
from .change.survey import change_seen, ended_seen
from .change.timings import timings
from .change.undoing import (
    began_with,
    edit_back,
    edit_forward,
    redo_of,
    reverted_by,
    undo_of,
    unit_edits_back,
)
from .deployment import Instance
from .gates.effective import observe_knobs
from .knob_edit import EditRequest, masked_diff, plan_edit, refuse_empty
from .left_to_unit import leave_to_unit
from .managed.knob_block import is_managed
from .pdops_error import PdopsError
from .script_differences import shown_lines
from .script_views import masked_beside
from .scripts.deciding import has_knob, knob_line, same_knob
from .scripts.diffing import changed_lines
from .scripts.reading import read_script
from .services.base import ServiceManager, UnitStatus
from .services.choosing import manager_for
from .serving.last_confirmed import moves_of
from .several_knobs import edit_of_several
from .shown_values import hide, shown, stale_rows
from .source_values import chosen_of, names_in, values_in
from .store.atomic import read_regular
from .store.backups import MOST_BYTES
from .store.sources import Source, sources_of
from .store.store import Store
from .store.versions import PREVIOUS


class _Look:
    """One instance under observation."""

    def __init__(
        self,
        instance: Instance,
        store: Store,
        asked: Asked,
        undo: rules.Record | None = None,
        redo: rules.Record | None = None,
    ) -> None:
        self.undo, self.redo = undo, redo
        self.reverted: rules.Record | None = None
        self.instance = instance
        self.store = store
        self.asked = asked
        try:
            self.content = read_regular(instance.serve_script, MOST_BYTES)
            refuse_empty(instance.serve_script, self.content)
        except PdopsError as error:
            error.details["no_script"] = True
            raise
        self.reading = read_script(self.content)
        self.now = values_in(self.reading)
        former = sources_of(instance.serve_script, store)
        self.sources = list(former.found)
        self.skipped = former.skipped
        self.manager: ServiceManager = manager_for(instance.manager, instance.supervisor_config)
        self.status: UnitStatus = self.manager.status(instance.unit)

    def chosen(self) -> list[Source]:
        """The sources that `from=` leaves."""
        path, content = self.instance.serve_script, self.content
        if self.asked.source == PREVIOUS:
            content = began_with(Book(self.store), path, self.asked.verb, content)
        return chosen_of(path, self.sources, self.asked.source, content)

    def running(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """What the running process has: ``{name: {state: set|absent|unknown, value, evidence}}``."""
        if self.status.pid is None or not names:
            return {name: {"state": "unknown", "value": None, "evidence": "no process"} for name in names}
        return observe_knobs(
            self.manager, self.instance.unit, self.status, self.instance.url, sorted(names), self.instance.role
        )

    def edit(
        self, knob: str, source: Source | None, value: str | None, state: str, lines_only: bool = False
    ) -> dict[str, Any]:
        """Work one edit out with the very code that would make it; a refusal is part of the answer.

        ``line_after`` is the line that decides the knob after the edit when only a run tells its value (``after`` is
        None then, and so it is for a knob that is unset).
        """
        request = EditRequest(
            path=self.instance.serve_script,
            knobs={knob: value},
            state=state,
            from_version=source.name if source and source.kind == "version" and state == "restored" else None,
            from_backup=source.name if source and source.kind == "backup" and state == "restored" else None,
            expect_only=self.asked.expect_only,
            lines_only=lines_only,
        )
        answer: dict[str, Any] = {
            "instance": self.instance.name,
            "path": self.instance.serve_script,
            "knob": knob,
            "before": self.now.get(knob),
            "after": value,
            "line_after": None,
            "source": source.as_dict() if source else None,
            "request": {
                "path": request.path,
                "knobs": {knob: value},
                "state": state,
                "from_version": request.from_version,
                "from_backup": request.from_backup,
                "expect_only": request.expect_only,
                "lines_only": request.lines_only,
            },
            "refused": None,
        }
        try:
            plan = plan_edit(request, self.store)
        except PdopsError as error:
            return {**answer, "refused": str(error), **error.details}
        return {
            **answer,
            "line_after": self.line_told(plan.after, knob) if value is None else None,
            "sha256_before": plan.sha256_before,
            "sha256_after": plan.sha256_after,
            "changed": plan.sha256_before != plan.sha256_after,
            "changed_lines": shown_lines(plan.before, plan.after, changed_lines(plan.before, plan.after)),
            "diff": masked_diff(plan),
            "warnings": list(plan.warnings),
            "other_lines": list(plan.other_lines),
        }

    def line_told(self, content: bytes, knob: str) -> str | None:
        """The line of a knob whose value only a run tells; None when there is none."""
        return masked_beside([content], knob_line(content, knob)) if has_knob(content, knob) else None

    def restorable(self) -> list[dict[str, Any]]:
        """Edits that bring a knob back that the script lacks; one per knob, from its best source."""
        edits = []
        there = names_in(self.content)
        if self.asked.knob is not None:
            if self.asked.source is None and self.asked.value is None and self.asked.knob in there:
                return []  # it is there; whether it is in effect is another question
            wanted = {self.asked.knob}
        else:
            wanted = set()
            for source in self.chosen():
                wanted |= names_in(source.content) - there
        for knob in sorted(wanted):
            for source in self.chosen():
                value = values_in(read_script(source.content)).get(knob)
                if knob not in names_in(source.content) or same_knob(source.content, self.content, knob):
                    continue
                if self.asked.value is not None and value != self.asked.value:
                    continue
                edits.append(
                    {**self.edit(knob, source, value, "restored"), "other_values": self.othervalues_in(knob, value)}
                )
                break
        return edits

    def othervalues_in(self, knob: str, taken: str | None) -> dict[str, str]:
        """Values that other sources have, each with the best source that has it."""
        if self.asked.value is not None or self.asked.source is not None:
            return {}
        found: dict[str, str] = {}
        for source in self.chosen():
            value = values_in(read_script(source.content)).get(knob)
            if value is not None and value not in (taken, self.now.get(knob)):
                found.setdefault(value, source.told)
        return found

    def settable(self) -> list[dict[str, Any]]:
        knob = str(self.asked.knob)
        edit = self.edit(
            knob, None, None if self.asked.unset else self.asked.value, "absent" if self.asked.unset else "present"
        )
        return [edit] if edit["refused"] or edit["changed"] else []

    def revertible(self) -> list[dict[str, Any]]:
        """The edit that puts the knob back to what it was before its newest change: its former line, as it was.

        None when that newest change was a revert of it, unless a content or value is named.
        """
        knob = str(self.asked.knob)
        if self.asked.source is None and self.asked.value is None:
            self.reverted = reverted_by(Book(self.store), self.instance.serve_script, knob, self.content)
            if self.reverted is not None:
                return []
        for source in self.chosen():
            before = values_in(read_script(source.content)).get(knob)
            if same_knob(source.content, self.content, knob):
                continue
            if self.asked.value is not None and before != self.asked.value:
                continue
            if not has_knob(source.content, knob):
                edit = self.edit(knob, source, None, "absent")
            else:
                edit = self.edit(knob, source, before, "restored", lines_only=True)
                if edit["refused"] and before is not None:
                    # Its line means something else in the script of today; its value can still be set.
                    edit = self.edit(knob, source, before, "present")
            return [edit] if edit["refused"] or edit["changed"] else []
        return []

    def undone(self) -> list[dict[str, Any]]:
        """The edit that puts the whole script back to what it was before a confirmed change."""
        if self.undo is None:
            return []
        edit = edit_back(self.store, self.undo, self.instance.name, self.instance.serve_script, self.asked.expect_only)
        units = unit_edits_back(self.store, self.undo, self.instance.name, self.asked.expect_only)
        return units if edit is None else [edit, *units]

    def selecting(self) -> list[dict[str, Any]]:
        """The one edit that selects a kernel package: several knobs of one script, so that going back is one step."""
        wanted = self.asked.kernels.get("knobs", {}).get(self.instance.name)
        if not wanted:
            return []
        label = f"kernels {self.asked.kernels.get('package', '')}".strip()[:120]
        edit = edit_of_several(self.instance, wanted, label, self.store)
        return [edit] if edit["refused"] or edit["changed"] else []

    def redone(self) -> list[dict[str, Any]]:
        """The edit that gives the script what a change wrote that went back here and holds on another machine."""
        edit = None if self.redo is None else edit_forward(self.store, self.redo, self.instance.name)
        return [] if edit is None else [edit]

    def known(self, knob: str) -> bool:
        """Whether the script, a version or a backup names the knob."""
        return knob in self.reading.active() or any(
            knob in read_script(source.content).active() for source in self.sources
        )

    def report(self) -> dict[str, Any]:
        edits: list[dict[str, Any]] = []
        if self.asked.wants(self.instance):
            makers = {"restore": self.restorable, "set": self.settable, "revert": self.revertible}
            makers.update(rollback=self.undone, kernels=self.selecting, recover=self.redone)
            maker = makers.get(self.asked.verb)
            edits = maker() if maker else []
        names = set(self.now) | {edit["knob"] for edit in edits if edit["knob"]}
        names |= {name for edit in edits for name in edit.get("expect", {})}
        if self.asked.knob:
            names.add(self.asked.knob)
        names |= set(self.asked.kernels.get("knobs", {}).get(self.instance.name, ()))
        leave_to_unit(self.instance, edits)
        running = self.running(names)
        for edit in edits:
            if "expect" in edit:
                told = edit["expect"].items()
                edit["in_effect"] = bool(told) and all(self._same(running[name], value) for name, value in told)
                continue
            seen = running.get(edit["knob"], {})
            edit["in_effect"] = edit["line_after"] is None and self._same(seen, edit.get("left", edit["after"]))
        managed = is_managed(self.content)
        if not managed:  # the values of a managed script are written down on the controller, where they came from
            for edit in edits:
                hide(edit)
        answer: dict[str, Any] = {
            "role": self.instance.role,
            "unit": {
                "state": self.status.state,
                "pid": self.status.pid,
                "started_ticks": self.status.started_ticks,
                "age_s": self.status.since_s,
            },
            "script": {
                "path": self.instance.serve_script,
                "managed": managed,
                "sha256": hashlib.sha256(self.content).hexdigest(),
                "younger_s": self._younger_s(),
                "findings": [
                    {"line": item.line, "code": item.code, "said": knobs.mask_text(item.sentence)}
                    for item in self.reading.findings
                ],
            },
            "sources": [source.as_dict() for source in self.sources],
            "skipped_sources": list(self.skipped),
            "source_known": bool(self.chosen()),
            "intended": dict(self.now) if managed else shown(self.now),
            "known_knobs": sorted(
                {name for source in self.sources for name in values_in(read_script(source.content))} | set(self.now)
            ),
            "running": {name: {**seen, "value": shown({name: seen["value"]})[name]} for name, seen in running.items()},
            "stale": self._stale(running),
            "edits": edits,
        }
        if is_managed(self.content):
            moves = moves_of(Book(self.store), self.instance)
            answer.update({"confirmed": moves} if moves else {})
        if self.reverted is not None:
            answer["reverted"] = rules.summary_of(self.reverted)
        if self.asked.knob:
            seen = answer["running"][self.asked.knob]
            answer["knob"] = {
                "known": self.known(self.asked.knob),
                "script": shown(self.now).get(self.asked.knob),
                "former": self._former(self.asked.knob),
                "script_line": None if self.asked.knob in self.now else self.line_told(self.content, self.asked.knob),
                "running": f"={seen['value']} ({seen['evidence']})"
                if seen["state"] == "set"
                else f"{seen['state']} ({seen['evidence']})",
            }
        return answer

    def _former(self, knob: str) -> list[str]:
        """The values that the versions and backups have of a knob, masked; one each."""
        values = [values_in(read_script(source.content)).get(knob) for source in self.chosen()]
        told = {shown({knob: value})[knob] for value in values if value is not None}
        return sorted(value for value in told if value is not None)

    def _younger_s(self) -> float | None:
        """By how many seconds the script's content is younger than the process; None without a process."""
        if self.status.since_s is None:
            return None
        try:
            return os.stat(self.instance.serve_script).st_mtime - (time.time() - self.status.since_s)
        except OSError:
            return None

    def _stale(self, running: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Knobs for which the process is known to differ from the script. Unknown is never called stale."""
        found: list[tuple[str, str | None, Mapping[str, Any]]] = [
            (name, value, running[name])
            for name, value in sorted(self.now.items())
            if running[name]["state"] != "unknown" and not self._same(running[name], value)
        ]
        knob = self.asked.knob
        if knob and knob not in self.now and knob not in self.reading.active() and running[knob]["state"] == "set":
            found.append((knob, None, running[knob]))
        return stale_rows(found)

    @staticmethod
    def _same(seen: Mapping[str, Any], value: str | None) -> bool:
        if value is None:
            return seen.get("state") == "absent"
        return seen.get("state") == "set" and seen.get("value") == value


def observe(instances: list[Instance], asked: Asked, state_dir: str) -> dict[str, Any]:
    """Everything a plan needs from one machine, as data without secrets.

    ``instances`` are those of one deployment on this machine. An instance that cannot be looked at gets
    an ``error`` sentence instead of a report, so that the plan can name it.
    """
    store = Store(state_dir)
    book = Book(store)
    specs = [instance.as_dict() for instance in instances]
    reports: dict[str, Any] = {}
    undo = undo_of(book, specs, asked.change) if asked.verb == "rollback" else None
    redo = redo_of(book, specs, asked.change) if asked.verb == "recover" else None
    for instance in instances:
        try:
            reports[instance.name] = _Look(instance, store, asked, undo, redo).report()
        except PdopsError as error:
            no_script = error.details.get("no_script", False)
            reports[instance.name] = {
                "role": instance.role,
                "error": str(error),
                "no_script": no_script,
                "edits": [],
                "stale": [],
            }
    open_change = book.open_for(specs)
    return {
        "instances": reports,
        "open_change": change_seen(book, open_change, None) if open_change else None,
        "ended": [
            ended_seen(item)
            for item in [
                one for one in reversed(book.all()) if rules.overlaps(one, specs) and one["state"] in rules.ENDED
            ][:NEWEST]
        ],
        "timings": timings(item for item in book.all() if rules.overlaps(item, specs)),
        "undo": {**rules.summary_of(undo), "verb": undo["verb"]} if undo else None,
        "unreported": [rules.summary_of(item) for item in book.newest_unreported(specs)],
    }

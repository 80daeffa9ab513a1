# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keeps the records of changes under ``<state_dir>/changes``, one JSON file each, replaced atomically."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import foreign_json
from ..pdops_error import PdopsError
from ..store.atomic import ABSENT, read_own, read_regular, sha256_of
from ..store.backups import MOST_BYTES
from ..store.store import Store
from . import guard_place, who
from . import record as rules

#: What the module ``pd_change`` was given.
Params = Mapping[str, Any]


def now_utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def told_of(record: rules.Record, changed: bool) -> dict[str, Any]:
    """A change as a verb returns it."""
    return {"changed": changed, "change": rules.summary_of(record), "steps": record["steps"]}


def _contents(record: rules.Record) -> dict[str, str]:
    """Path to sha256 of what the files of a change have now, or ``absent``; one that cannot be read is not in it."""
    found = {}
    for item in record["files"]:
        path = item["path"]
        try:
            found[path] = sha256_of(read_regular(path, MOST_BYTES)) if os.path.lexists(path) else ABSENT
        except PdopsError:
            continue
    return found


class Book:
    """The changes of one machine. Every verb takes the store's lock for its short time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.folder = os.path.join(store.state_dir, "changes")

    def _path(self, change_id: str) -> str:
        return os.path.join(self.folder, f"{rules.check_id(change_id)}.json")

    def _save(self, record: rules.Record) -> None:
        content = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
        self.store.write_state(self._path(record["id"]), content)

    def load(self, change_id: str) -> rules.Record:
        """The record, or :class:`PdopsError` when this machine has none of that id or cannot read it."""
        path = self._path(change_id)
        try:
            loaded = foreign_json.loads(read_own(path))
        except FileNotFoundError:
            raise PdopsError(
                f"there is no change {change_id} under {self.folder}; see `ansible-playbook verify.yml`."
            ) from None
        except (OSError, ValueError) as error:
            told = getattr(error, "strerror", None) or str(error)
            raise PdopsError(f"the record {path} cannot be read ({told}); move it away after looking at it.") from None
        if not isinstance(loaded, dict) or loaded.get("id") != change_id or not set(loaded) >= rules.REQUIRED:
            raise PdopsError(f"the record {path} is not one of change {change_id}; move it away after looking at it.")
        wrong = rules.misshapen(loaded)
        if wrong:
            raise PdopsError(f"the record {path} says nothing usable in {wrong}; move it away after looking at it.")
        return loaded

    def load_listed(self, name: str) -> rules.Record:
        """As :meth:`load`, of a name that the folder has, which anybody may have put there."""
        try:
            rules.check_id(name)
        except PdopsError:
            path = os.path.join(self.folder, f"{name}.json")
            raise PdopsError(
                f"{path} is no record of a change (its name is no change id); move it away after looking at it."
            ) from None
        return self.load(name)

    def exists(self, change_id: str) -> bool:
        return os.path.exists(self._path(change_id))

    def all(self) -> list[rules.Record]:
        """All records, oldest first. An unreadable one raises: it may be the open one."""
        return sorted((self.load_listed(name) for name in self.names()), key=lambda item: str(item["opened"]))

    def names(self) -> list[str]:
        """Ids of all records, sorted, so that those of one second stay in their order."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PdopsError(f"{self.folder} cannot be read ({error}); run as the user who owns it.") from None
        # Temporary files of a write that a crash cut short are no records.
        return [name[:-5] for name in sorted(names) if name.endswith(".json") and not name.startswith(".")]

    def readable(self) -> tuple[list[rules.Record], list[str]]:
        """As :meth:`all`, but a record that cannot be read is a sentence of the second list."""
        records: list[rules.Record] = []
        trouble: list[str] = []
        for name in self.names():
            try:
                records.append(self.load_listed(name))
            except PdopsError as error:
                trouble.append(str(error))
        return sorted(records, key=lambda item: str(item["opened"])), trouble

    def open_for(self, instances: Iterable[Mapping[str, Any]]) -> rules.Record | None:
        """The newest open change that shares a unit or script with ``instances``, if any."""
        return next(iter(self._open_ones(instances)), None)

    def _open_ones(self, instances: Iterable[Mapping[str, Any]]) -> list[rules.Record]:
        """Newest first. More than one only after a crash in the middle of taking over."""
        wanted = list(instances)
        found = [item for item in self.all() if item["state"] in rules.OPEN and rules.overlaps(item, wanted)]
        return found[::-1]

    def is_free(self, record: rules.Record, take_over: str | None) -> bool:
        """Whether another run may supersede this open change.

        It may when its controller is dead, when it was told to, or when its lease is over and no guard lives to act
        on that (the machine was rebooted). A rollback that is under way is never cut short.
        """
        guarded = guard_place.is_alive(self.folder, record["id"])
        if record["state"] == "rolling-back":
            return not guarded
        if take_over == record["id"] or who.is_gone(record["leader"]) is True:
            return True
        return not guarded and rules.lease_left_s(record) <= 0

    def summary(self, record: rules.Record, take_over: str | None = None) -> dict[str, Any]:
        """What a plan needs to know of an open change."""
        guarded = guard_place.is_alive(self.folder, record["id"])
        return {**rules.summary_of(record), "free": self.is_free(record, take_over), "guard_alive": guarded}

    def newest_unreported(self, instances: Iterable[Mapping[str, Any]]) -> list[rules.Record]:
        """Ended changes of which no run has told an operator yet (the guard rolled them back).

        A rollback that failed is told by every run until a later change has ended well: whoever looks next may be
        somebody else, and nothing else would say why the deployment is down.
        """
        wanted = list(instances)
        found: list[rules.Record] = []
        for record in self.all():
            if not rules.overlaps(record, wanted):
                continue
            if record["state"] == "confirmed":
                found = [item for item in found if item["state"] != "rollback-failed"]
            elif record["state"] == "rollback-failed" or (
                record["state"] == "rolled-back" and not record.get("reported")
            ):
                found.append(record)
        return found

    def has_begun(self, change_id: str) -> bool:
        """Whether the journal says that a change began here, whatever became of its record."""
        return any(row.get("verb") == "begin" and row.get("change_id") == change_id for row in self.store.journal())

    def admit(self, record: rules.Record, take_over: str | None) -> None:
        """Refuse what :meth:`begin` is going to refuse, before anything is started for it."""
        with self.store.lock(f"begin {record['id']}"):
            self._admitted(record, take_over)

    def _admitted(self, record: rules.Record, take_over: str | None) -> tuple[list[rules.Record], rules.Record | None]:
        """The open changes in its way, all of which it may supersede; and the one that has begun under its own id already, if any."""
        open_ones = self._open_ones(record["instances"])
        mine = next((item for item in open_ones if item["id"] == record["id"]), None)
        if mine is not None:
            return [item for item in open_ones if item["id"] in mine["inherits"]], mine
        if os.path.exists(self._path(record["id"])):
            self.load(record["id"])
            raise PdopsError(f"change id {record['id']} was used before; take another.")
        if take_over and os.path.exists(self._path(take_over)):
            former = self.load(take_over)
            if former["state"] in ("rolled-back", "rollback-failed"):
                # It was open at the look, or it would not be named here; the plan counted on files that the guard has put back meanwhile.
                raise PdopsError(
                    f"change {take_over}, which this run was to go on from, was {former['state']} by its guard at "
                    f"{former['ended']}; nothing was touched; run the same command again."
                )
        for former in open_ones:
            # What one took over itself, and crashed in the middle of that, comes along with it.
            along = any(former["id"] in other["inherits"] for other in open_ones)
            if not along and not self.is_free(former, take_over):
                guarded = guard_place.is_alive(self.folder, former["id"])
                raise PdopsError(rules.held_sentence(former, guarded), held_by=rules.summary_of(former))
        return open_ones, None

    def begin(self, record: rules.Record, take_over: str | None) -> rules.Record:
        """Open the change, which is the lock against a second operator.

        Re-entrant by id. An open change whose controller is provably dead, or that ``take_over``
        names, is superseded and its files are inherited; any other is refused, and so is ``take_over`` of one that went back since
        the look.
        """
        # The other verbs come more often, and imports are most of what they cost.
        from .inheriting import as_far_as_it_came, inherit

        with self.store.lock(f"begin {record['id']}"):
            open_ones, mine = self._admitted(record, take_over)
            if mine is not None:
                self._supersede(open_ones, mine)
                return mine
            # A clock that was set back must not reorder what happened.
            record = {**record, "opened": max([record["opened"], *(item["opened"] for item in self.all())])}
            # The newest first: what was there before the oldest of them is what has to come back.
            for former in open_ones:
                record = inherit(record, as_far_as_it_came(former, _contents(former)))
            # The new record first: a crash in between leaves two open ones with the same files, never none.
            self._save(record)
            self._journal(record, "begin", {"summary": record["summary"], "inherits": record["inherits"]})
            self._supersede(open_ones, record)
            return record

    def _supersede(self, open_ones: Iterable[rules.Record], record: rules.Record) -> None:
        for former in open_ones:
            reason = f"taken over by {record['id']} of {who.told(record['leader'])}"
            self._save(rules.ended(former, "superseded", reason, now_utc()))
            self._journal(former, "superseded", {"by": record["id"]})

    def update(self, change_id: str, verb: str, step: Callable[[rules.Record], rules.Record]) -> rules.Record:
        """Apply a pure ``step`` to an open change and keep the result; refuse when the change has ended, or its lease."""
        with self.store.lock(f"{verb} {change_id}"):
            record = step(rules.require_lease(self.load(change_id), verb))
            self._save(record)
            return record

    def note_step(self, change_id: str, step: str, instance: str, said: str, budget_s: float) -> rules.Record:
        """Write a step before its effect, and give it a lease of ``budget_s`` seconds."""

        def write(record: rules.Record) -> rules.Record:
            noted = rules.with_step(record, step, instance, said, now_utc())
            return rules.with_lease(noted, f"{step} {instance}".strip(), budget_s, now_utc())

        record = self.update(change_id, step, write)
        self._journal(record, step, {"instance": instance, "said": said})
        return record

    def confirm(self, change_id: str, said: str, outage_s: float | None = None) -> rules.Record:
        """End the change for good. Re-entrant: confirming a confirmed change is no error.

        ``outage_s`` is for how long the deployment did not answer, where the controller knows it.
        """
        with self.store.lock(f"confirm {change_id}"):
            record = self.load(change_id)
            if record["state"] == "confirmed":
                return record
            record = rules.ended(rules.require_lease(record, "confirm"), "confirmed", said, now_utc())
            record = record if outage_s is None else {**record, "outage_s": round(outage_s, 3)}
            self._save(record)
            self._journal(record, "confirm", {"said": said})
            return record

    def set_state(self, change_id: str, state: str, reason: str, allowed: Iterable[str]) -> rules.Record:
        """Move a change to ``state`` when it is in one of ``allowed``; refuse otherwise."""
        with self.store.lock(f"{state} {change_id}"):
            record = self.load(change_id)
            if record["state"] not in tuple(allowed):
                rules.require_open(record, state)
            if state in rules.ENDED:
                record = rules.ended(record, state, reason, now_utc())
            else:
                record = {**record, "state": state, "reason": reason}
            self._save(record)
            self._journal(record, state, {"reason": reason})
            return record

    def note_rollback(self, change_id: str, step: str, instance: str, said: str) -> rules.Record:
        """Write a step of a rollback; the change is not open any more, so no lease is renewed."""
        with self.store.lock(f"rollback {change_id}"):
            record = rules.with_step(self.load(change_id), step, instance, said, now_utc())
            self._save(record)
            self._journal(record, f"rollback: {step}", {"instance": instance, "said": said})
            return record

    def note_led(self, change_id: str) -> rules.Record:
        """The controller leads the way back machine by machine, so that this one's guard need not wait for others."""
        with self.store.lock(f"rollback {change_id}", try_write=False):
            record = {**self.load(change_id), "led": True}
            self._save(record)
            return record

    def mark_reported(self, change_id: str) -> None:
        with self.store.lock(f"report {change_id}"):
            self._save({**self.load(change_id), "reported": now_utc()})

    def _journal(self, record: rules.Record, verb: str, more: Mapping[str, Any]) -> None:
        self.store.write_journal(
            {
                "verb": verb,
                "change_id": record["id"],
                "deployment": record["deployment"],
                "actor": who.told(record["leader"]),
                **more,
            }
        )

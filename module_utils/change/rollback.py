# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Puts the old state back on one machine: the files, then the instances in order. The only way back there is."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Optional

from ..deployment import Instance, instance_from_dict, start_order
from ..gates.base import PASSED
from ..gates.ladder import run_ladder
from ..gates.request import target_from
from ..pdops_error import PdopsError
from ..services.choosing import manager_for
from ..services.instance import Request, bring
from ..store.atomic import ABSENT, replace_file, write_private
from . import elsewhere
from . import record as rules
from .book import Book
from .contents import content_now, disable_units, newly_made, take_away, units_put_back, users_of

#: What each role passes before the next one starts. The router's own gates show that requests pass again.
GATES = {
    "prefill": ["unit", "port", "health", "rendezvous"],
    "decode": ["unit", "port", "health"],
    "router": ["unit", "port", "health", "router", "completion"],
}

#: Between two tries to write the end of a rollback down.
_END_POLL_S = 1.0
#: For a verb that holds the store's lock; without the lock the old script would not come back.
_LOCK_WAIT_S = 60.0
#: A process that began less than this before its script was changed may have read the new one.
_CLOCKS_S = 2.0
#: Decode forgets a prefill after two lost heartbeats of 5 s each (reference/sglang-pd.md E.4).
PREFILL_DOWN_S = 20.0


def restore_files(book: Book, record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Put every file of the change back; return what was restored and what could not be, a sentence each.

    A file that is neither the old content nor one of ours was edited by somebody else in the meantime and is left
    alone; one that is gone is written again. One file's trouble does not keep the others from coming back.
    """
    said: list[str] = []
    trouble: list[str] = []
    try:
        disable_units(record["files"])
    except PdopsError as error:
        trouble.append(str(error))
    for item in record["files"]:
        path = str(item["path"])
        try:
            now = content_now(path)
            if now == item["sha256_before"]:
                continue
            if now != ABSENT and now != item["sha256_after"] and now not in item.get("ours", []):
                trouble.append(
                    f"{path} is neither the old nor the new content (sha256 {now[:12]}): somebody edited it during the change, "
                    "so it was left alone; compare it with the stored versions and put it right by hand"
                )
                continue
            if item["sha256_before"] == ABSENT:
                take_away(path)
                said.append(f"{os.path.basename(path)} is gone again; its content is a stored version")
                continue
            _put_back(book, record, path, now, item["sha256_before"], int(item.get("mode") or 0o755), item.get("owner"))
        except PdopsError as error:
            trouble.append(str(error))
            continue
        said.append(f"{os.path.basename(path)} is back at {item['sha256_before'][:12]}")
    try:
        units_put_back(record["files"])
    except PdopsError as error:
        trouble.append(str(error))
    return said, trouble


def _put_back(
    book: Book, record: Mapping[str, Any], path: str, now: str, old: str, mode: int, owner: Optional[list[int]]
) -> None:
    content = book.store.content(old)
    with book.store.lock(f"rollback {record['id']}", _LOCK_WAIT_S, try_write=False):
        if now == ABSENT:
            write_private(os.path.realpath(path), content, mode)
            if owner is not None and os.geteuid() == 0:
                os.chown(path, owner[0], owner[1])
        else:
            try:
                replace_file(path, content, expect_sha256=now)
            except PdopsError as error:
                # Only the folder's fsync failed: the old content is in place all the same.
                if not error.details.get("replaced"):
                    raise
        actor = record["leader"].get("user") or "guard"
        try:
            book.store.add_version(path, content, f"rollback of {record['id']}", actor, record["id"])
        except (PdopsError, OSError) as error:  # the content is stored already; only the row is missing
            _log(f"change {record['id']}: {path} is back, not noted as a version: {error}")


def began_with_new(record: Mapping[str, Any]) -> list[str]:
    """Names of instances whose process began after its script had been changed, although the change did not start it.

    After a reboot, or when a service manager starts a unit again that died, a process has the new script while the
    change was still far from restarting it. A manager that cannot be asked is not there, and starts them later, with the
    old script.
    """
    found = []
    for item, name in [(row, name) for row in record["files"] for name in users_of(row)]:
        instance = next((one for one in record["instances"] if one["name"] == name), None)
        try:
            if instance is None or content_now(item["path"]) in (item["sha256_before"], ABSENT):
                continue
            made = os.stat(item["path"]).st_mtime
            since_s = _manager(instance_from_dict(instance)).status(instance["unit"]).since_s
        except (PdopsError, OSError) as error:
            _log(f"change {record['id']}: {name} could not be looked at: {error}")
            continue
        if since_s is not None and time.time() - since_s >= made - _CLOCKS_S:
            found.append(name)
    return [name for name in dict.fromkeys(found) if name not in record["touched"]]


def to_restart(record: Mapping[str, Any]) -> list[Instance]:
    """Which instances of this machine a rollback restarts, in start order.

    None when the change had not stopped or started any, here or on another machine, and none began with its script; only the
    router when nothing else was touched; otherwise all, because a pair in an unclear state meets afresh
    (reference/sglang-pd.md E.4). Of a rolling restart those that were touched: the others serve, and never met an unclear state.
    Those that the change made are not among them.
    """
    made = newly_made(record)
    instances = start_order(instance_from_dict(item) for item in record["instances"] if item["name"] not in made)
    touched = [item for item in instances if item.name in record["touched"]]
    if rules.is_rolling(record):
        return touched
    far = [item for item in record.get("elsewhere", []) if item["name"] in record["touched"]]
    if not touched and not far:
        return []
    if all(item.role == "router" for item in touched) and all(item["role"] == "router" for item in far):
        return touched
    return instances


def _restart_all(record: rules.Record, instances: list[Instance], note: elsewhere.Note) -> None:
    """Stop in reverse order, start in order, each with its gates; a decode and a router only when the prefills are back."""
    began = time.monotonic()
    for instance in reversed(instances):
        _stop(instance, note)
    waited = False
    for instance in instances:
        if instance.role != "prefill" and not waited:
            waited = True
            elsewhere.await_prefills(record, began, note)
        # The router proves the whole, so it waits for the loads of the other machines.
        far = sum(item["load_timeout_s"] for item in record.get("elsewhere", [])) if instance.role == "router" else 0.0
        _start(instance, note, instance.load_timeout_s + far)


def _restart_one_by_one(record: rules.Record, instances: list[Instance], note: elsewhere.Note) -> None:
    """Each taken out of the routers, so that the others go on serving; the one first that was touched last, since it is out now."""
    for instance in sorted(instances, key=lambda item: -record["touched"].index(item.name)):
        if instance.role != "router":
            elsewhere.in_routers(record, instance, "absent", note)
        _stop(instance, note)
        if instance.role == "prefill":
            note("hold down", instance.name, f"{PREFILL_DOWN_S:.0f} s, so that decode notices")
            time.sleep(PREFILL_DOWN_S)
        _start(instance, note, instance.load_timeout_s)
        if instance.role != "router":
            elsewhere.in_routers(record, instance, "present", note)


def _stop(instance: Instance, note: elsewhere.Note) -> None:
    note("stop", instance.name, f"at most {instance.drain_s:.0f} s")
    bring(_manager(instance), _request(instance, "stopped"))


def _start(instance: Instance, note: elsewhere.Note, timeout_s: float) -> None:
    note("start", instance.name, f"at most {timeout_s:.0f} s")
    begin = time.monotonic()
    bring(_manager(instance), _request(instance, "started"))
    prove(instance, GATES[instance.role], timeout_s)
    note("serving", instance.name, f"after {time.monotonic() - begin:.1f} s")


def prove(instance: Instance, gates: list[str], timeout_s: float) -> None:
    """Climb the ladder to its end; :class:`PdopsError` names the gate that did not pass."""
    target = target_from({**instance.as_dict(), "request_timeout_s": 60.0})
    state = run_ladder(target, gates, None, timeout_s, remaining_s=timeout_s)
    if state.outcome != PASSED and state.last is not None:
        raise PdopsError(
            f"{instance.name}: gate {state.last.gate} did not pass within {timeout_s:.0f} s: {state.last.said}",
            log_tail=list(state.log_tail),
        )


def _log(line: str) -> None:
    """Into the guard's log, which may lie on the same full disk."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _note(book: Book, change_id: str, step: str, instance: str, said: str) -> None:
    """A full or broken state folder must not keep the old scripts from coming back: then only the guard's log has the step."""
    try:
        book.note_rollback(change_id, step, instance, said)
    except (PdopsError, OSError) as error:
        _log(f"change {change_id}: {step} {instance} {said} (not noted: {error})")


def _end(book: Book, change_id: str, state: str, reason: str) -> rules.Record:
    """Write down what has happened, as soon as that can be: to begin again from the top would stop what serves."""
    told = ""
    while True:
        try:
            return book.set_state(change_id, state, reason, rules.OPEN)
        except (PdopsError, OSError) as error:
            record = book.load(change_id)
            if record["state"] in rules.ENDED:
                return record
            if str(error) != told:
                told = str(error)
                _log(f"change {change_id} is {state}, which is not written down yet: {told}")
        time.sleep(_END_POLL_S)


def roll_back(book: Book, change_id: str, reason: str) -> rules.Record:
    """Carry the rollback of ``change_id`` through, writing each step before its effect.

    Ends in ``rolled-back`` or ``rollback-failed``. Re-entrant: a killed guard starts it again from the top.
    """
    record = book.load(change_id)
    try:
        _note(book, change_id, "files", "", "the old scripts are put back")
        for name in began_with_new(record):
            # Before the files come back, because nothing shows it afterwards.
            _note(book, change_id, "restart", name, "it was started with the new script, though not by this change")
            record = {**record, "touched": [*record["touched"], name]}
        trouble = _stop_made(book, record)
        restored, more = restore_files(book, record)
        trouble += more
        for sentence in restored:
            _note(book, change_id, "restored", "", sentence)
        for sentence in trouble:
            _note(book, change_id, "not restored", "", sentence)

        def note(step: str, instance: str, said: str) -> None:
            _note(book, change_id, step, instance, said)

        if rules.is_rolling(record):
            _restart_one_by_one(record, to_restart(record), note)
        else:
            _restart_all(record, to_restart(record), note)
        if trouble:
            # The instances serve again, with what is there.
            raise PdopsError("; ".join(trouble))
    except (PdopsError, OSError) as error:
        details = error.details if isinstance(error, PdopsError) else {}
        tail = "".join(f"\n  log: {line}" for line in details.get("log_tail", [])[-5:])
        versions = ", ".join(
            f"{item['path']}: old {item['sha256_before'][:12]}, new {item['sha256_after'][:12]}"
            for item in record["files"]
        )
        return _end(
            book,
            change_id,
            "rollback-failed",
            f"THE ROLLBACK FAILED TOO: {error}{tail}\n"
            + (
                f"Both versions are kept in {book.store.state_dir}/objects ({versions}). "
                if versions
                else "No script was changed. "
            )
            + f"Put the cause right, then run ansible-playbook restart.yml\nThe change was rolled back because: {reason}",
        )
    return _end(book, change_id, "rolled-back", reason)


def _stop_made(book: Book, record: Mapping[str, Any]) -> list[str]:
    """Instances that the change made are stopped while their unit file still says how; return what went wrong."""
    trouble = []
    made = newly_made(record)
    for instance in reversed(
        start_order(instance_from_dict(item) for item in record["instances"] if item["name"] in made)
    ):
        try:
            manager = _manager(instance)
            manager.status(instance.unit)
        except PdopsError:
            continue  # its unit was not written yet
        _note(book, record["id"], "stop", instance.name, "it was not there before this change")
        try:
            bring(manager, _request(instance, "stopped"))
        except PdopsError as error:
            trouble.append(str(error))
            continue
        _note(book, record["id"], "stopped", instance.name, "for good")
    return trouble


def _request(instance: Instance, state: str) -> Request:
    ports = (instance.bootstrap_port,) if instance.role == "prefill" and instance.bootstrap_port else ()
    return Request(instance.unit, state, instance.drain_s, instance.url, ports, metrics_url=instance.metrics_url)


def _manager(instance: Instance) -> Any:
    return manager_for(instance.manager, instance.supervisor_config)

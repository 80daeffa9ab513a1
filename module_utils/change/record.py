# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The record of a change on one machine: what it is about, its steps, its lease; and the rules for moving on.

Pure: dictionaries in, dictionaries out. ``book.py`` keeps them on disk, ``guard.py`` acts on them.

States::

    open ----confirm----> confirmed
      |  \\---supersede--> superseded       a later run took over and inherited the files
      |--rollback--> rolling-back --> rolled-back
                                  \\-> rollback-failed --(rollback again)--> rolling-back
"""

from __future__ import annotations

import calendar
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..pdops_error import PdopsError
from . import who

Record = dict[str, Any]

OPEN = ("open", "rolling-back")
ENDED = ("confirmed", "rolled-back", "rollback-failed", "superseded")

#: Without these a record says too little to act on.
REQUIRED = {
    "id",
    "deployment",
    "summary",
    "leader",
    "opened",
    "state",
    "reason",
    "files",
    "instances",
    "steps",
    "touched",
    "lease",
}

_TEXTS = ("id", "deployment", "summary", "opened", "state", "reason")

#: Of a change whose guard was killed, or did not come back after a reboot.
NO_GUARD = ", and NO GUARD watches it, so nothing happens by itself: put the old state back with ansible-playbook recover.yml -e finish=back"

#: Steps by which an instance stops answering, or is no longer asked.
OUT = ("stop", "restart", "take out")

_STAMP = "%Y%m%dT%H%M%S"

#: Between the end of a step's budget and the moment at which the guard acts.
LEASE_SLACK_S = 15.0


def check_id(change_id: str) -> str:
    """A change id names a file; refuse anything else."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{3,79}", change_id):
        raise PdopsError(
            f"change id {change_id!r} is not usable; take 4 to 80 letters, digits, dots and dashes, a letter or digit first."
        )
    return change_id


def misshapen(record: Mapping[str, Any]) -> str:
    """The first field of a whole record that holds what no verb could act on; '' when there is none."""
    for name in _TEXTS:
        if not isinstance(record[name], str):
            return name
    if record["state"] not in (*OPEN, *ENDED):
        return "state"
    for name, needed in (
        ("files", ("path",)),
        ("instances", ("unit", "serve_script")),
        ("steps", ("step", "instance")),
    ):
        rows = record[name]
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and all(isinstance(row.get(key), str) for key in needed) for row in rows
        ):
            return name
    if not isinstance(record["touched"], list) or not isinstance(record["leader"], dict):
        return "touched" if not isinstance(record["touched"], list) else "leader"
    left = record.get("inherited", [])
    if not isinstance(left, list) or not all(
        isinstance(row, dict) and isinstance(row.get("knobs"), list) and isinstance(row.get("again"), list)
        for row in left
    ):
        return "inherited"
    lease = record["lease"]
    deadline = lease.get("deadline_s") if isinstance(lease, dict) else None
    return "" if isinstance(deadline, (int, float)) and "boot_id" in lease else "lease"


def new_change_id(verb: str, known: Iterable[str] = ()) -> str:
    """A fresh id that sorts by time: `20261129T164512-restore-1f2e3d`; after all ``known`` ones, also when a clock was set back."""
    stamp = time.strftime(_STAMP, time.gmtime())
    newest = max((found[0] for found in (re.match(r"\d{8}T\d{6}(?=-)", one) for one in known) if found), default="")
    if newest >= stamp:
        try:
            stamp = time.strftime(_STAMP, time.gmtime(calendar.timegm(time.strptime(newest, _STAMP)) + 1))
        except (ValueError, OverflowError):
            pass  # somebody's own id, which is no time
    return f"{stamp}-{verb}-{secrets.token_hex(3)}"


def new_record(
    change_id: str,
    deployment: str,
    verb: str,
    summary: str,
    leader: who.Leader,
    files: Iterable[Mapping[str, Any]],
    instances: Iterable[Mapping[str, Any]],
    budget_s: float,
    now_utc: str,
    slack_s: float = LEASE_SLACK_S,
    elsewhere: Iterable[Mapping[str, Any]] = (),
    scope: str = "co",
    restart: Iterable[str] = (),
    why: Mapping[str, Any] | None = None,
    finishes: Mapping[str, Any] | None = None,
) -> Record:
    """Make the record of a change that starts now.

    ``files`` are ``{instance, path, sha256_before, sha256_after, knobs}``; ``instances`` are
    :class:`..deployment.Instance` dictionaries in start order, of this machine only, and ``elsewhere`` those of the
    deployment's other machines. ``scope`` is the plan's: of a rolling restart only what was touched goes back. ``restart`` are
    the names, of all machines, that the plan restarts.
    ``why`` (why it is wanted) and ``finishes`` (the interrupted change that it carries through) are for the record, which another run
    may write.
    """
    record: Record = {
        "id": check_id(change_id),
        "deployment": deployment,
        "verb": verb,
        "summary": summary,
        "leader": leader,
        "opened": now_utc,
        "state": "open",
        "reason": "",
        "files": [dict(item) for item in files],
        "instances": [dict(item) for item in instances],
        "elsewhere": [dict(item) for item in elsewhere],
        "scope": scope,
        "restart": list(restart),
        "steps": [],
        "touched": [],
        "inherits": [],
        "slack_s": slack_s,
        "why": dict(why or {}),
        "finishes": dict(finishes or {}),
    }
    return with_lease(record, "begin", budget_s, now_utc)


def with_lease(record: Record, step: str, budget_s: float, now_utc: str) -> Record:
    """Renew: the step may take ``budget_s`` seconds, then the guard waits the change's slack more and acts."""
    lease = {
        "step": step,
        "budget_s": budget_s,
        "boot_id": who.this_boot(),
        "deadline_s": who.boot_clock_s() + budget_s + record["slack_s"],
        "renewed": now_utc,
    }
    return {**record, "lease": lease}


def lease_left_s(record: Record) -> float:
    """Seconds until the guard acts; 0 or less when it is due. A lease of an earlier boot is over."""
    if not of_this_boot(record):
        return 0.0
    return float(record["lease"]["deadline_s"]) - who.boot_clock_s()


def of_this_boot(record: Record) -> bool:
    """Whether the lease was written since the machine started last."""
    return bool(record["lease"]["boot_id"] == who.this_boot())


def with_touched(record: Record, names: Iterable[str]) -> Record:
    """Note what is about to be stopped, started or taken out of a router on *another* machine of the deployment.

    Without this a machine whose own instances were not reached yet would leave them as they are, although the pair that
    they belong to meets afresh.
    """
    return {**record, "touched": list(dict.fromkeys([*record["touched"], *names]))}


def with_step(record: Record, step: str, instance: str, said: str, now_utc: str) -> Record:
    """Note a step *before* its effect. Steps that stop or start an instance, or take a worker out of it, mark it as touched."""
    touched = list(record["touched"])
    # Of a rolling restart the router's registry is put right by registering, not by restarting the router.
    spared = routers_of(record) if step == "take out" and record.get("scope") == "rolling" else set()
    if step in ("stop", "start", "restart", "take out") and instance and instance not in {*touched, *spared}:
        touched.append(instance)
    note = {"at": now_utc, "step": step, "instance": instance, "said": said}
    return {**record, "steps": [*record["steps"], note], "touched": touched}


def routers_of(record: Mapping[str, Any]) -> set[str]:
    """Names of the deployment's routers, on this machine and elsewhere."""
    return {
        item["name"] for item in [*record["instances"], *record.get("elsewhere", [])] if item.get("role") == "router"
    }


def is_rolling(record: Mapping[str, Any]) -> bool:
    """Whether one at a time was restarted, and it never came to a restart of all."""
    return record.get("scope") == "rolling" and not routers_of(record) & set(record["touched"])


def left_undone(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """What the leader had still to do, by the steps of this machine: ``restart``, instances here that were to be restarted and
    were not started, and ``out``, engines that routers here lack, where a rolling restart took them out."""
    here = {item["name"] for item in record["instances"]}
    routers = routers_of(record)
    started: set[str] = set()
    out: list[str] = []
    for note in record["steps"]:
        name = note["instance"]
        if note["step"] in ("start", "restart"):
            started.add(name)
            out = [] if name in routers else out
        elif note["step"] == "take out" and name not in routers:
            out.append(name)
        elif note["step"] == "register" and name in out:
            out.remove(name)
    waiting = [name for name in record.get("restart", []) if name in here and name not in started]
    return {"restart": waiting, "out": list(dict.fromkeys(out))}


def require_open(record: Record, verb: str) -> Record:
    """Refuse a late verb: a change that has ended takes nothing more."""
    if record["state"] == "open":
        return record
    sentence = f"change {record['id']} is {record['state']}"
    if record.get("reason"):
        sentence += f" ({record['reason']})"
    raise PdopsError(
        f"{sentence}, so {verb} is refused; run the playbook again to start a new change.",
        change=summary_of(record),
    )


def require_lease(record: Record, verb: str) -> Record:
    """Refuse what comes when the lease is over: from then on the guard has the word, which may not have written so yet."""
    require_open(record, verb)
    if lease_left_s(record) > 0:
        return record
    raise PdopsError(
        f"change {record['id']}: the lease of step '{record['lease']['step']}' is over, so {verb} is refused and its guard puts the "
        "old state back; run the playbook again to start a new change.",
        change=summary_of(record),
    )


def ended(record: Record, state: str, reason: str, now_utc: str) -> Record:
    """Close the record. A confirmed change is never undone by its guard: that is the point of confirming."""
    if state not in ENDED:
        raise ValueError(state)
    return {**record, "state": state, "reason": reason, "ended": now_utc}


def overlaps(record: Record, instances: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a change and a list of instances share a unit or a serve script."""
    ours = {(item["unit"], item["serve_script"]) for item in record["instances"]}
    units = {unit for unit, _path in ours}
    paths = {path for _unit, path in ours}
    return any(item["unit"] in units or item["serve_script"] in paths for item in instances)


def _ended_well(record: Record) -> bool:
    """Confirmed, or rolled back with a restart: either ends with every gate passed."""
    return record["state"] == "confirmed" or (record["state"] == "rolled-back" and bool(record["touched"]))


def settled(record: Record, later: Iterable[Record]) -> bool:
    """Whether a change whose rollback failed is history: a later one of the same instances ended with all of them serving.

    To try such a rollback again would undo that later one.
    """
    return any(_ended_well(other) and overlaps(other, record["instances"]) for other in later)


def unsettled(records: Iterable[Record]) -> list[Record]:
    """Of all records, oldest first: those that somebody still has to bring to an end, newest first."""
    found: list[Record] = []
    later: list[Record] = []
    for record in reversed(list(records)):
        failed = record["state"] == "rollback-failed" and not settled(record, later)
        if record["state"] in OPEN or failed:
            found.append(record)
        later.append(record)
    return found


def last_step(record: Record) -> str:
    """`stop lab-decode`, or `begin` when nothing has happened yet."""
    if not record["steps"]:
        return "begin"
    note = record["steps"][-1]
    return f"{note['step']} {note['instance']}".strip()


def summary_of(record: Record) -> dict[str, Any]:
    """What a person and a result need to know of a change."""
    return {
        "id": record["id"],
        "deployment": record["deployment"],
        "verb": record["verb"],
        "summary": record["summary"],
        "who": who.told(record["leader"]),
        "opened": record["opened"],
        "ended": record.get("ended"),
        "state": record["state"],
        "reason": record["reason"],
        "last_step": last_step(record),
        "lease_left_s": round(lease_left_s(record), 1),
        "controller_gone": who.is_gone(record["leader"]),
        "files": [
            {key: item.get(key) for key in ("instance", "path", "sha256_before", "sha256_after", "knobs")}
            for item in record["files"]
        ],
        "touched": record["touched"],
        "out_before": record.get("out_before", []),
        "rolling": is_rolling(record),
        "undone": left_undone(record),
        "why": record.get("why", {}),
        "finishes": record.get("finishes", {}),
        "inherited": record.get("inherited", []),
    }


def lease_told(left_s: float, guarded: bool = True) -> str:
    """Until when an open change is in the way of others, and what comes then."""
    if left_s > 0:
        return f"its lease runs {left_s:.0f} s more" + ("" if guarded else NO_GUARD)
    if guarded:
        return "its lease is over and its guard is about to put the old state back"
    return f"its lease is over{NO_GUARD}"


def held_sentence(record: Record, guarded: bool = True) -> str:
    """Tell a second operator who has the deployment, since when, for what, until when, and how to take over.

    What its guard is putting back can be waited for only.
    """
    held = (
        f"{record['deployment']} is held by change {record['id']} ({record['summary']}) of {who.told(record['leader'])}, "
        f"open since {record['opened']}, now at '{last_step(record)}'"
    )
    if record["state"] == "rolling-back":
        return f"{held}; it is being rolled back now by its guard. Wait until that ends, then run again."
    return f"{held}; {lease_told(lease_left_s(record), guarded)}. Wait for it to end, or take it over with -e take_over={record['id']}."

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate kernels: the kernel package that the serve script selects is the one that serves.

SGLang swallows a plugin that raises and serves its stock kernel as if nothing were wrong, so the plugin's own record
is the evidence (:mod:`..kernel_package.status_record`). The gate is climbed only where a script selects a package.
"""

from __future__ import annotations

from typing import Optional, Sequence

from ..kernel_package.selection import PATH, STATUS, selected, version_of
from ..kernel_package.status_record import Record, read_records
from ..pdops_error import PdopsError
from .base import Look, Target, Verdict, failed, passed, pending, unseen
from .effective import expectations_of
from .evidence import look_at

#: States in which the stock kernel serves, or nothing does.
_NOT_OURS = ("failed", "stock", "ended")


def applicable(target: Target, gates: Sequence[str]) -> list[str]:
    """``gates`` without this one where the instance's script selects no kernel package; asked for alone, it stays."""
    others = [gate for gate in gates if gate != "kernels"]
    return list(gates) if not others or len(others) == len(gates) or _folder(target) is not None else others


def _folder(target: Target) -> Optional[str]:
    if target.serve_script is None or target.role == "router":
        return None
    try:
        return selected(expectations_of(target.serve_script).get(PATH))
    except PdopsError:
        return None


def check(target: Target, look: Look) -> Verdict:
    """Judge the records of the unit's processes: none that gave up, and, after requests, one that serves."""
    main = look.main
    if main is None:
        return pending(f"{target.unit} has no main process yet")
    if target.serve_script is None:
        return unseen("without serve_script it is not known which kernels are selected")
    exported = expectations_of(target.serve_script)
    folder = selected(exported.get(PATH))
    if folder is None:
        return passed("no kernel package is selected by the script")
    status = exported.get(STATUS)
    if not status:
        return unseen(f"the script selects {folder} and exports no {STATUS}, so nothing tells which kernel serves")
    pids = look.manager.processes(target.unit)
    try:
        records = read_records(status, pids)
    except PermissionError:
        return unseen(f"{status} cannot be looked into")
    schedulers = look_at(pids, main, engine=True).scheduler_pids
    return judge(folder, records, schedulers, target.kernels_serve)


def judge(folder: str, records: dict[int, Record], schedulers: Sequence[int], serve: bool) -> Verdict:
    """:arg serve: requests went through already, so that ``hooked`` alone is not enough."""
    wanted = version_of(folder)
    told = {str(pid): record.as_dict() for pid, record in sorted(records.items())}
    if not records:
        return failed(
            f"the stock kernel serves: no process wrote a record, so the plugin of {folder} was not loaded or raised at "
            "its import, which SGLang logs and swallows",
            folder=folder,
            records={},
        )
    bad = next((record for record in records.values() if record.state in _NOT_OURS), None)
    if bad is not None:
        what = "the process was ended" if bad.state == "ended" else "the stock kernel serves"
        return failed(f"{what} ({bad.state}): {bad.error or 'no reason is recorded'}", folder=folder, records=told)
    other = next((record for record in records.values() if record.package != wanted), None)
    if other is not None:
        return failed(f"version {other.package} runs, and the script selects {wanted}", folder=folder, records=told)
    if any(record.state == "loading" for record in records.values()):
        return pending("the plugin is being loaded", folder=folder, records=told)
    # The launcher and the detokenizer load the plugin, too, and serve nothing with it.
    mine = [records[pid] for pid in schedulers if pid in records]
    served = [record for record in mine or records.values() if record.state == "serving"]
    mine = mine or served or list(records.values())
    idle = [record for record in mine if record.state != "serving"]
    if serve and idle:
        reasons = ", ".join(
            f"{count} x {reason.rstrip('.')}" for record in idle for reason, count in sorted(record.fallbacks.items())
        )
        return failed(
            f"requests were answered, and process {idle[0].pid} has served none with these kernels"
            + (f": {reasons}" if reasons else ""),
            folder=folder,
            records=told,
        )
    first = next((record for record in mine if record.state == "serving"), mine[0])
    return passed(first.told(), folder=folder, records=told)

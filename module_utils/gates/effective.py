# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate effective: the running process has the knobs that it should have."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..knobs import MASK, check_name, is_secret
from ..pdops_error import PdopsError
from ..processes import ProcessId, age_s
from ..secret_masking import mask_value
from ..services.base import ServiceManager, UnitStatus
from .base import PASSED, Look, Target, Verdict, failed, passed, pending, unseen
from .engine_info import NO_ENV_VARS, env_vars, server_info
from .evidence import ABSENT, SET, UNKNOWN, Finding, find, finding_dict, look_at, own_env_vars

SERVER_INFO_S = 5.0
TO_SEE = "SPT_NOENV=1 in the serve script keeps it whole"
CLOCKS_S = 2.0  # a change this soon after the start may be of before it, by another clock
MANY = 3  # more knobs than that are counted and not listed


def _mask(name: str, value: Optional[str]) -> Optional[str]:
    if value is None:
        return None
    return mask_value(name, value.encode("utf-8", "replace").decode())


def _whole(name: str, value: Optional[str]) -> Optional[str]:
    """For a comparison with a script; whoever tells it masks it."""
    if value is None:
        return None
    return MASK if is_secret(name) else value.encode("utf-8", "replace").decode()


def _differs(name: str, there: Optional[str], expected: Optional[str]) -> bool:
    """A plan tells no secrets: what it expects may be masked, and only the rest can be compared then."""
    if there is not None and expected is not None and MASK in expected:
        return _mask(name, there) != _mask(name, expected)
    return there != expected


def _unmasked(wanted: Dict[str, Optional[str]], path: Optional[str]) -> Dict[str, Optional[str]]:
    """The expectations with what is masked in them as the serve script has it, when that is the same but for the mask."""
    if path is None or not any(value is not None and MASK in value for value in wanted.values()):
        return wanted
    own = expectations_of(path)
    return {
        name: own[name]
        if value is not None and MASK in value and name in own and _mask(name, own[name]) == value
        else value
        for name, value in wanted.items()
    }


def observe_knobs(
    manager: ServiceManager,
    unit: str,
    status: UnitStatus,
    url: str,
    names: Sequence[str],
    role: str = "",
    api_key: Optional[str] = None,
) -> Dict[str, Dict[str, Any]]:
    """What the running process has, for planning: ``{name: {state: set|absent|unknown, value, evidence}}``.

    :arg role: "router" expects no scheduler processes; "" works it out from the processes.
    """
    if status.main is None:
        return {name: {"state": UNKNOWN, "value": None, "evidence": "no process"} for name in names}
    pids = manager.processes(unit)
    sources = look_at(pids, status.main, engine=role in ("prefill", "decode"))
    open_names = [name for name in names if find(name, sources, None, "").state == UNKNOWN]
    own, why = own_env_vars(url, api_key, SERVER_INFO_S) if open_names else (None, "/server_info was not asked")
    return {name: finding_dict(find(name, sources, own, why), _whole) for name in names}


def expectations_of(path: str) -> Dict[str, Optional[str]]:
    """What a serve script exports, as far as that can be known without running it."""
    from ..scripts.reading import read_script

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise PdopsError(f"the serve script {path} cannot be read ({error.strerror}): check pd_serve_script") from None
    return {name: export.value for name, export in read_script(data).active().items() if export.value is not None}


def check(target: Target, look: Look) -> Verdict:
    """Compare the running process with the expectations, by the ladder of evidence.py.

    A value that differs is final. One that the engine itself changed after its start (env_vars) fails only for
    expectations that were named; of those taken from the script it is reported, since hooks of SGLang
    do that to whole families of knobs.
    """
    named = look.expectations is not None
    wanted = dict(look.expectations or {})
    if not named:
        if target.serve_script is None:
            return unseen("nothing to compare with: neither expectations nor serve_script were given")
        wanted = expectations_of(target.serve_script)
    for name in wanted:
        check_name(name)
    wanted = _unmasked(wanted, target.serve_script)
    main = look.main
    if main is None:
        return pending(f"{target.unit} has no main process yet")
    engine = target.role in ("prefill", "decode")
    sources = look_at(look.manager.processes(target.unit), main, engine)
    if sources.starting or (engine and not sources.scheduler_pids and "health" not in look.done):
        return pending(sources.obstacle)
    own, why = None, "the router has no /server_info of its own"
    if engine:
        info, why, status = server_info(target.url, target.api_key, look.request_s(SERVER_INFO_S))
        if status in (401, 403):
            return failed(why, status=status)
        own = env_vars(info) or None if info is not None else None
        why = NO_ENV_VARS if info is not None and own is None else why
    findings = {name: find(name, sources, own, why) for name in sorted(wanted)}
    processes = {"main_pid": sources.main_pid, "scheduler_pids": list(sources.scheduler_pids)}
    verdict = judge(wanted, findings, named, processes, why if engine and own is None else "")
    late_s = 0.0 if named or target.serve_script is None else _changed_after_start_s(target.serve_script, main)
    if verdict.result != PASSED or late_s < CLOCKS_S:
        return verdict
    said = (
        f"{verdict.said}; the serve script was changed {late_s:.0f} s after this process had started, "
        "and only its knobs are compared: its flags may not be in effect"
    )
    return replace(verdict, said=said, evidence={**verdict.evidence, "script_changed_after_start_s": round(late_s, 1)})


def _changed_after_start_s(path: str, main: ProcessId) -> float:
    """By how many seconds the content of the script is younger than the process; negative when it is older."""
    try:
        return os.stat(path).st_mtime - (time.time() - age_s(main.started_ticks))
    except OSError:
        return 0.0


def judge(
    wanted: Mapping[str, Optional[str]],
    findings: Mapping[str, Finding],
    named: bool,
    processes: Dict[str, Any],
    no_env_vars: str = "",
) -> Verdict:
    """Failed if one is wrong, else not-observable if one cannot be seen, else passed.

    :arg no_env_vars: why what an engine changed after its start cannot be seen.
    """
    told = {}
    wrong: List[str] = []
    hidden: List[Finding] = []
    changed: List[str] = []
    own: List[str] = []
    for name, expected in wanted.items():
        finding = findings[name]
        told[name] = {"expected": _mask(name, expected), **finding_dict(finding, _mask)}
        if finding.state == UNKNOWN:
            hidden.append(finding)
        elif _differs(name, finding.value, expected):
            wrong.append(f"{_words(name, finding)} by the {finding.evidence}, expected {_expected(name, expected)}")
        elif finding.now is not None and _differs(name, finding.now, expected):
            was, now = _mask(name, expected), _mask(name, finding.now)
            if expected is None:
                # Not to be set by the script, and it is not; what the engine chooses then is its own affair.
                own.append(f"{name} is not set by the script, and the engine itself has set it to {now}")
            else:
                changed.append(f"{name} was started with {was}, but the engine itself has set it to {now}")
    evidence: Dict[str, Any] = {
        "knobs": told,
        "processes": processes,
        "expected_from": "request" if named else "serve script",
    }
    if wrong or (changed and named):
        return failed("; ".join(wrong + (changed if named else [])), **evidence)
    if hidden:
        names = ", ".join(finding.name for finding in hidden)
        cure = f"; {TO_SEE}" if "overwritten" in hidden[0].evidence else ""
        return unseen(f"{names} cannot be seen: {hidden[0].evidence}{cure}", **evidence)
    said = [_passed_words(wanted, findings), *changed, *own]
    if no_env_vars and wanted:
        evidence["env_vars"] = no_env_vars
        said.append(f"what the engine itself changed after its start cannot be seen: {no_env_vars}")
    return passed("; ".join(said), **evidence)


def _passed_words(wanted: Mapping[str, Optional[str]], findings: Mapping[str, Finding]) -> str:
    if not wanted:
        return "no knobs to look for"
    by = sorted({findings[name].evidence for name in wanted})
    if len(wanted) <= MANY:
        return ", ".join(_words(name, findings[name]) for name in wanted) + f" by the {' and the '.join(by)}"
    return f"{len(wanted)} knobs in effect by the {' and the '.join(by)}"


def _words(name: str, finding: Finding) -> str:
    return f"{name} is not set" if finding.state == ABSENT else f"{name}={_mask(name, finding.value)}"


def _expected(name: str, value: Optional[str]) -> str:
    return "that it is not set" if value is None else str(_mask(name, value))


__all__ = ["SET", "check", "expectations_of", "judge", "observe_knobs"]

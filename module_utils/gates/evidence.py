# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the running processes of an instance have in their environment, and how surely that is known.

The ladder, best first (DESIGN 6, cases/recorded/README.md; all seen on SGLang 0.5.23):

1. the environ of the schedulers, if whole. setproctitle overwrites it unless SPT_NOENV=1 is set.
2. the environ of the helper process that Python's multiprocessing starts.
3. the environ of the main process, if the schedulers are its descendants and started after it.
4. ``env_vars`` of /server_info (SGLANG_EXPOSE_OWN_ENV_VARS=1), for names that SGLang registers.

1 to 3 show the environment at exec. ``env_vars`` is what the scheduler has now, so where it holds a name
it also shows what a model hook of the engine changed afterwards (reference/sglang-pd.md B.3).
The main process has the word where 1 or 2 hold another value than it was launched with: SGLang sets some twenty
names itself before it starts its children, and a script is judged by what it exports.
A name that is missing in a damaged environ, or in env_vars, is unknown and not absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..processes import Environ, Process, ProcessId, arguments, descendants, is_shell, process_table, read_environ
from .engine_info import NO_ENV_VARS, env_vars, server_info

SET, ABSENT, UNKNOWN = "set", "absent", "unknown"
SCHEDULER, HELPER, MAIN, ENV_VARS = "scheduler", "multiprocessing helper", "main process", "env_vars of /server_info"
# Titles of SGLang 0.5.23; the kernel keeps 15 bytes of the title as the command name.
_SCHEDULER_TITLE, _SCHEDULER_COMMAND = "sglang::scheduler", "sglang::schedul"
_OTHER_TITLES = ("sglang::detokenizer", "sglang::data_parallel", "sglang::router", "sglang::tokenizer")


@dataclass(frozen=True)
class Source:
    """The environ of one kind of process; of several equal processes (tensor parallel ranks) all of them."""

    kind: str
    pids: Tuple[int, ...]
    environs: Tuple[Environ, ...]

    @property
    def whole(self) -> bool:
        return bool(self.environs) and all(environ.whole for environ in self.environs)

    @property
    def told(self) -> str:
        return f"environ of the {self.kind} {', '.join(str(pid) for pid in self.pids)}"

    @property
    def trouble(self) -> str:
        why = next((environ.why for environ in self.environs if not environ.whole), "")
        return f"{self.told} is {why}" if why else ""


@dataclass(frozen=True)
class Finding:
    """What is known of one knob. ``value`` may be a secret: mask before showing."""

    name: str
    state: str  # set, absent or unknown
    value: Optional[str]
    evidence: str  # where it was read, or why it is not known
    now: Optional[str] = None  # value in env_vars when that differs: the engine itself changed it


@dataclass(frozen=True)
class Sources:
    ladder: Tuple[Source, ...]  # best first; damaged ones too
    main_pid: Optional[int]
    scheduler_pids: Tuple[int, ...]
    starting: bool  # the serve script has not reached its exec yet
    obstacle: str  # why the main process is no evidence, if so


def look_at(pids: Sequence[int], main: ProcessId, engine: bool) -> Sources:
    """Sort the processes of a unit into sources.

    :arg pids: all processes of the unit (cgroup, or tree and session), found by membership and not by title.
    :arg engine: prefill or decode, so that schedulers are expected; a router is one process.
    """
    table = process_table()
    members = {pid: table[pid] for pid in pids if pid in table and not table[pid].dead}
    top = _engine_main(main.pid, members)
    if top is None:
        return Sources((), None, (), True, "the serve script has not started the engine yet")
    below = descendants([top.pid], table) - {top.pid}
    others = [process for pid, process in sorted(members.items()) if pid != top.pid and not is_shell(pid)]
    titles = {process.pid: _title(process) for process in others}
    schedulers = [process for process in others if titles[process.pid] == SCHEDULER]
    helpers = [process for process in others if titles[process.pid] == HELPER and process.pid in below]
    ladder = []
    if schedulers:
        ladder.append(_source(SCHEDULER, schedulers))
    if helpers:
        ladder.append(_source(HELPER, helpers[:1]))
    astray = [p for p in schedulers if p.pid not in below or p.started_ticks < top.started_ticks]
    obstacle = ""
    if astray:
        obstacle = f"the scheduler {astray[0].pid} is not a child of the main process {top.pid}"
    elif engine and not schedulers:
        obstacle = f"the main process {top.pid} has no scheduler process"
    if not obstacle or not engine:
        ladder.append(_source(MAIN, [top]))
    elif astray:
        ladder = [source for source in ladder if source.kind == SCHEDULER]
    return Sources(tuple(ladder), top.pid, tuple(p.pid for p in schedulers), False, obstacle)


def _source(kind: str, processes: Sequence[Process]) -> Source:
    return Source(kind, tuple(p.pid for p in processes), tuple(read_environ(p.pid) for p in processes))


def _engine_main(pid: int, members: Dict[int, Process]) -> Optional[Process]:
    """The main process, or below it when that is a shell: its environ lacks what the script exports.

    A serve script should end in exec; one that does not leaves bash as the main process.
    """
    while pid in members:
        if not is_shell(pid):
            return members[pid]
        children = [p for p in members.values() if p.ppid == pid]
        if not children:
            return None
        pid = min(children, key=lambda p: p.started_ticks).pid
    return None


def _title(process: Process) -> str:
    words = arguments(process.pid)
    first = words[0] if words else ""
    if first.startswith(_SCHEDULER_TITLE) or process.command.startswith(_SCHEDULER_COMMAND):
        return SCHEDULER
    if first.startswith(_OTHER_TITLES):
        return first
    if any("multiprocessing.resource_tracker" in word or "multiprocessing.forkserver" in word for word in words):
        return HELPER
    return ""


def own_env_vars(url: str, api_key: Optional[str], timeout_s: float) -> Tuple[Optional[List[Dict[str, str]]], str]:
    """``internal_states[].env_vars`` of /server_info, one per data parallel rank, or None and why not.

    /server_info of a wedged scheduler never answers (reference/sglang-pd.md C.1): hence the time limit.
    """
    info, why, _status = server_info(url, api_key, timeout_s)
    if info is None:
        return None, why
    found = env_vars(info)
    return (found, "") if found else (None, NO_ENV_VARS)


def find(name: str, sources: Sources, env_vars: Optional[List[Dict[str, str]]], no_env_vars: str) -> Finding:
    """What is known of one name, by the best source that can tell."""
    now = {one[name] for one in env_vars or () if name in one}
    for source in sources.ladder:
        if not source.whole:
            continue
        values = {environ.values.get(name) for environ in source.environs}
        if len(values) > 1:
            said = f"the {source.kind} processes {', '.join(map(str, source.pids))} differ"
            return Finding(name, UNKNOWN, None, said)
        value = values.pop()
        launched = _launched(name, sources)
        if launched is not None and launched[1] != value and value is not None:
            # SGLang 0.5.23 sets some 20 names itself before it starts its children (NCCL_CUMEM_ENABLE and others,
            # seen on the real pair): what the script exports is what the main process was launched with.
            told, was = launched
            return Finding(name, ABSENT if was is None else SET, was, told, value)
        other = next((seen for seen in sorted(now) if seen != value), None)
        return Finding(name, ABSENT if value is None else SET, value, source.told, other)
    if len(now) == 1:
        return Finding(name, SET, now.pop(), ENV_VARS)
    if len(now) > 1:
        return Finding(name, UNKNOWN, None, "the ranks differ in env_vars of /server_info")
    why = [sources.obstacle] + [source.trouble for source in sources.ladder]
    why.append(
        f"{name} is not in env_vars, which holds only what SGLang registers" if env_vars is not None else no_env_vars
    )
    return Finding(name, UNKNOWN, None, "; ".join(part for part in why if part))


def _launched(name: str, sources: Sources) -> Optional[Tuple[str, Optional[str]]]:
    """Evidence and value of the main process, where its environ is whole."""
    main = next((source for source in sources.ladder if source.kind == MAIN and source.whole), None)
    return None if main is None else (main.told, main.environs[0].values.get(name))


def finding_dict(finding: Finding, mask: Any) -> Dict[str, Any]:
    """As modules return it; ``mask(name, value)`` hides secrets."""
    found = {"state": finding.state, "value": mask(finding.name, finding.value), "evidence": finding.evidence}
    if finding.now is not None:
        found["engine_changed_it_to"] = mask(finding.name, finding.now)
    return found

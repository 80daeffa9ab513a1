# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a gate looks at, and what it says."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

from ..plain_text import plain
from ..processes import ProcessId
from ..services.base import ServiceManager

PASSED, FAILED, PENDING, UNSEEN = "passed", "failed", "pending", "not-observable"

#: In the order in which they prove something (reference/sglang-pd.md C.7).
GATES = (
    "unit",
    "port",
    "bootstrap",
    "health",
    "rendezvous",
    "effective",
    "kernels",
    "router",
    "completion",
    "transfer",
)
#: Of prefill's /route. Some models and backends serve pairs of unequal size, others hang (llm-d#2433): equal unless said otherwise.
SIZES = ("attn_tp_size", "attn_cp_size", "dp_size", "pp_size")


@dataclass(frozen=True)
class Watched:
    """Another instance on the same machine that must stay alive while this one is judged.

    Without ``process`` it is the one that runs at the first look.
    """

    name: str
    unit: str
    process: Optional[ProcessId]
    manager: str
    supervisor_config: Optional[str] = None


@dataclass(frozen=True)
class Peer:
    """Another instance of the deployment, as far as it can be asked from the target's machine."""

    name: str
    role: str
    url: str
    bootstrap_port: Optional[int] = None
    api_key: Optional[str] = field(default=None, repr=False)


@dataclass(frozen=True)
class Target:
    """The instance that a ladder judges. URLs are as seen from its machine, times in seconds."""

    name: str
    role: str  # prefill, decode or router
    unit: str
    url: str
    manager: str = "systemd"
    supervisor_config: Optional[str] = None
    bootstrap_port: Optional[int] = None
    metrics_url: Optional[str] = None
    serve_script: Optional[str] = None
    api_key: Optional[str] = field(default=None, repr=False)
    not_process: Optional[ProcessId] = None
    started_after: Optional[float] = None  # seconds since the epoch
    workers: Tuple[str, ...] = ()  # URLs that the router must know and call healthy
    model: Optional[str] = None
    request_timeout_s: float = 60.0
    watched: Tuple[Watched, ...] = ()
    peers: Tuple[Peer, ...] = ()
    may_differ: Tuple[str, ...] = ()  # parallel sizes that the roles need not share
    longest_prompt_tokens: int = 20480
    kernels_serve: bool = False  # requests went through, so a kernel package must have served

    def engines(self, *roles: str) -> Tuple[Peer, ...]:
        """The peers of these roles."""
        return tuple(peer for peer in self.peers if peer.role in roles)


@dataclass(frozen=True)
class Verdict:
    """What one look at one gate gave. ``said`` is one sentence without the names of instance and gate."""

    result: str
    said: str
    evidence: Dict[str, Any]

    def __post_init__(self) -> None:
        # Words of services are in it, and it goes to the operator's terminal.
        object.__setattr__(self, "said", plain(self.said))


def passed(said: str, **evidence: Any) -> Verdict:
    return Verdict(PASSED, said, evidence)


def pending(said: str, **evidence: Any) -> Verdict:
    """Not yet; waiting cures it."""
    return Verdict(PENDING, said, evidence)


def failed(said: str, **evidence: Any) -> Verdict:
    """Final; waiting does not cure it."""
    return Verdict(FAILED, said, evidence)


def unseen(said: str, **evidence: Any) -> Verdict:
    """The source that would tell is off or not permitted: neither good nor bad."""
    return Verdict(UNSEEN, said, evidence)


@dataclass
class Look:
    """What the gates of one slice share: the manager, and what earlier slices remembered."""

    manager: ServiceManager
    memory: Dict[str, Any]  # JSON; one dict over the whole ladder
    deadline: float  # time.monotonic() at which the whole ladder must be decided
    expectations: Optional[Dict[str, Optional[str]]] = None
    done: Tuple[str, ...] = ()  # gates that passed already
    gates: Tuple[str, ...] = ()  # all gates of this ladder

    @property
    def main(self) -> Optional[ProcessId]:
        found = self.memory.get("main")
        return ProcessId(int(found[0]), int(found[1])) if found else None

    @main.setter
    def main(self, process: ProcessId) -> None:
        self.memory["main"] = [process.pid, process.started_ticks]

    def request_s(self, most: float) -> float:
        """How long one request may take now."""
        return max(0.5, min(most, self.deadline - time.monotonic()))


def uptime_s() -> float:
    """The clock that slices of one ladder share: it goes on over sleeps, and no one can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate transfer: over the requests of gate completion no KV transfer failed, and transfers did happen.

The router sends a failed request again, so that an answer alone hides a pair that fails every second time; and a
decode that quietly computes the prompt itself answers as well (vllm#26896). The engines' counters tell both.

Where they move, seen on the real pair (0.5.23, two completions and two minutes of health probes): the prefill counts
only real transfers (kv_transfer_total_mb, _latency_ms, _speed_gb_s: 2), the decode counts its health probes as well,
whose peer is a fake (kv_transfer_bootstrap_ms, _alloc_ms: 28), and is therefore the weaker witness.
All ranks report the same transfer.

A completion may be asked again after a bad answer, so the counters are compared with those before the first try of the
ladder: a pair that failed first and answered then is no pair whose transfers do not fail. Only a request that was given
up after its time may have been aborted by that alone (the first one compiles kernels): such failures are told, not judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Optional

from .base import Look, Peer, Target, Verdict, failed, passed, pending, unseen, uptime_s
from .metrics import fetch, total

FAILURES = ("num_transfer_failed_reqs_total", "num_bootstrap_failed_reqs_total")
MOVED = {
    "prefill": ("kv_transfer_total_mb_count", "kv_transfer_latency_ms_count", "kv_transfer_speed_gb_s_count"),
    "decode": ("kv_transfer_bootstrap_ms_count", "kv_transfer_alloc_ms_count"),
}
METRICS_S = 3.0
#: A histogram is written when the transfer is over for the scheduler, which may be after the client's answer.
SETTLED_S = 3.0

Counts = Dict[str, Optional[float]]


def _count(peer: Peer, look: Look) -> Dict[str, Any]:
    """The counters of one engine, or why there are none."""
    text, why, status = fetch(peer.url, look.request_s(METRICS_S))
    if text is None and status == 404:
        why = f"{peer.name} has no /metrics: put --enable-metrics into its serve script and restart it"
    elif text is None:
        why = f"{peer.name}: {why}"
    if text is None:
        return {"why": why}
    return {name: total(text, f"sglang:{name}") for name in (*FAILURES, *MOVED[peer.role])}


def remember(target: Target, look: Look) -> None:
    """Keep the counters as they are before the requests."""
    look.memory["transfer_before"] = {peer.name: _count(peer, look) for peer in target.engines("prefill", "decode")}
    look.memory.setdefault("transfer_first", look.memory["transfer_before"])
    tries: Dict[str, int] = look.memory.get("transfer_tries") or {"bad": 0, "late": 0}
    if tries["bad"] == tries["late"]:
        # All that failed so far was given up by us: what is to be judged begins here.
        look.memory["transfer_judged"] = look.memory["transfer_before"]
    look.memory.pop("transfer_since", None)


def note_bad_try(look: Look, late: bool) -> None:
    """Keep that a completion was not answered well; ``late``: it was given up after its time."""
    tries: Dict[str, int] = look.memory.setdefault("transfer_tries", {"bad": 0, "late": 0})
    tries["bad"] += 1
    tries["late"] += late


def _step(before: Counts, after: Counts, name: str) -> float:
    """By how much a counter moved; one that is not shown has not moved yet."""
    return (after.get(name) or 0.0) - (before.get(name) or 0.0)


def _failures(peers: List[Peer], before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    return [
        f"{name} of {peer.name} stepped by {_step(before[peer.name], after[peer.name], name):g}"
        for peer in peers
        for name in FAILURES
        if _step(before[peer.name], after[peer.name], name) > 0
    ]


def explain(target: Target, look: Look, verdict: Verdict) -> Verdict:
    """A completion that was not answered well, with what the counters say since the first try."""
    before = look.memory.get("transfer_first") or {}
    seen = [peer for peer in target.engines("prefill", "decode") if "why" not in before.get(peer.name, {"why": ""})]
    after = {peer.name: _count(peer, look) for peer in seen}
    told = _failures([peer for peer in seen if "why" not in after[peer.name]], before, after)
    if not told:
        return verdict
    return replace(verdict, said=f"{verdict.said}; {', '.join(told)}", evidence={**verdict.evidence, "counters": told})


def check(target: Target, look: Look) -> Verdict:
    peers = list(target.engines("prefill", "decode"))
    before = look.memory.get("transfer_before")
    if not peers:
        return unseen("no engine is known whose /metrics can be asked from here")
    if before is None:
        return unseen("the counters were not read before a completion: run gate completion before gate transfer")
    first = look.memory.get("transfer_first") or before
    judged = look.memory.get("transfer_judged") or first
    after = {peer.name: _count(peer, look) for peer in peers}
    hidden = [one["why"] for one in (*before.values(), *after.values()) if "why" in one]
    seen = _seen(peers, before, after)
    evidence: Dict[str, Any] = {
        "counters": {peer.name: {"before": before.get(peer.name), "after": after[peer.name]} for peer in peers}
    }
    told = _failures(seen, before, after) or _failures(_seen(seen, judged, after), judged, after)
    if told:
        return failed(
            f"{', '.join(told)} over {_requests(look)}: a transfer failed and was tried again; "
            "look into the logs of both engines, and restart both if it goes on",
            **evidence,
        )
    back = [
        peer.name for peer in seen for name in before[peer.name] if _step(before[peer.name], after[peer.name], name) < 0
    ]
    if back:
        return failed(f"the counters of {back[0]} went back: it was restarted meanwhile", **evidence)
    if hidden:
        return unseen("; ".join(dict.fromkeys(hidden)), **evidence)
    excused = _failures(_seen(seen, first, before), first, before)
    verdict = _judge_moved(look, seen, before, after, evidence)
    if not excused:
        return verdict
    words = f"{', '.join(excused)} while a request was given up after its time; since then {verdict.said}"
    return replace(verdict, said=words)


def _seen(peers: List[Peer], before: Dict[str, Any], after: Dict[str, Any]) -> List[Peer]:
    """The engines whose counters are known at both times."""
    return [peer for peer in peers if all("why" not in one.get(peer.name, {"why": ""}) for one in (before, after))]


def _requests(look: Look) -> str:
    number = len(look.memory.get("completions") or [])
    words = f"{number} completions" if number != 1 else "one completion"
    bad = int((look.memory.get("transfer_tries") or {}).get("bad", 0))
    return f"{words} and {bad} before them that {'was' if bad == 1 else 'were'} not answered well" if bad else words


def _moved(peers: List[Peer], role: str, before: Dict[str, Any], after: Dict[str, Any]) -> Dict[str, float]:
    """Steps by counter name, over all peers of the role; names that no engine shows are left out."""
    steps: Dict[str, float] = {}
    for peer in peers:
        for name in MOVED[role] if peer.role == role else ():
            if after[peer.name].get(name) is not None:
                steps[name] = steps.get(name, 0.0) + _step(before[peer.name], after[peer.name], name)
    return steps


def _judge_moved(
    look: Look, peers: List[Peer], before: Dict[str, Any], after: Dict[str, Any], evidence: Dict[str, Any]
) -> Verdict:
    prefill, decode = _moved(peers, "prefill", before, after), _moved(peers, "decode", before, after)
    evidence["moved"] = {"prefill": prefill, "decode": decode}
    by_role = [("prefill", prefill)] if prefill else [("decode", decode)]
    for role, steps in by_role:
        name, step = max(steps.items(), key=lambda item: item[1], default=("", 0.0))
        if step > 0:
            weak = "; the prefill shows no kv_transfer counters, and decode's also count health probes"
            words = f"none failed over {_requests(look)}, and {name} of the {role} moved by {step:g}"
            return passed(words + (weak if role == "decode" else ""), **evidence)
    since = float(look.memory.setdefault("transfer_since", uptime_s()))
    if uptime_s() - since < SETTLED_S:
        return pending(f"none failed over {_requests(look)}, but no transfer is counted yet", **evidence)
    if not prefill and not decode:
        names = ", ".join(f"{role}: {', '.join(MOVED[role])}" for role in MOVED)
        return unseen(f"none failed, but neither engine shows a counter of transfers ({names})", **evidence)
    return failed(
        f"{_requests(look)} answered, but no transfer was counted ({', '.join({**prefill, **decode})} did not move): "
        "decode may have computed the prompts itself",
        **evidence,
    )

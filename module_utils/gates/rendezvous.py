# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Gate rendezvous: all ranks of the prefill are registered, and what both roles must share is equal.

Decode compares at the first request and not at its start, and dies of a difference: the exception ends its scheduler
although every health check passed (try_ensure_parallel_info of SGLang 0.5.23; reference/sglang-pd.md E.3; seen on the
real pair with page sizes 1 and 16: "RuntimeError: Page size mismatch", then SIGQUIT).
Hence the same comparison here, before a request is sent: /route of the prefill against the decode's own
/server_info, and against each other what only /server_info tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..endpoint import Answer, Failure, parse_url, request
from ..pdops_error import PdopsError
from .base import FAILED, PASSED, SIZES, Look, Peer, Target, Verdict, failed, passed, pending, unseen
from .engine_info import Info, argument, env_vars, server_info, whole_number
from .http_gates import from_failure

# All ranks registered: 200; else 503 "not fully registered" (disaggregation/common/conn.py of 0.5.23).
# engine_rank and target_dp_group are what older servers ask for; newer ones ignore them.
ROUTE = (
    "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1&engine_rank=-1&target_dp_group=-1"
)
INFO_S, PEER_INFO_S = 5.0, 2.0

#: Of /route, by the name of the server argument that says the same of decode. A difference ends decode.
SHARED = {
    "page_size": "page_size",
    "kv_cache_dtype": "kv_cache_dtype",
    "kv_layout": "kv_layout",
    "decode_allocation_policy": "disaggregation_decode_allocation_policy",
}
#: Of both /server_info. dsv4_attn_backend and SGLANG_DSV4_KV_LAYOUT make up kv_layout.
ARGUMENTS = ("disaggregation_transfer_backend", "dsv4_attn_backend", "speculative_dspark_block_size")
#: decode_allocation_policy is refused request by request; without a common backend no transfer can be.
REFUSED = ("decode_allocation_policy", "disaggregation_transfer_backend")
VARIABLES = ("SGLANG_DSV4_KV_LAYOUT",)

EQUAL, DIFFERS, ALLOWED, OPEN = "equal", "differs", "may differ", "not compared"


@dataclass(frozen=True)
class Compared:
    """One field of a pair. ``why`` says why it is not compared."""

    name: str
    prefill: Any
    decode: Any
    result: str
    why: str = ""

    def as_dict(self) -> Dict[str, Any]:
        told = {"prefill": self.prefill, "decode": self.decode, "result": self.result}
        return {**told, "why": self.why} if self.why else told


def decode_side(info: Info) -> Dict[str, Any]:
    """What /route would tell of a decode, from its /server_info; a field that it does not tell is not in it."""
    told = {name: argument(info, name_there) for name, name_there in SHARED.items()}
    tensor, context = whole_number(info, "tp_size"), whole_number(info, "attn_cp_size") or 1
    data = whole_number(info, "dp_size") or 1
    if tensor is not None:
        # Only with DP attention do the data parallel ranks share the tensor parallel ones.
        told["attn_tp_size"] = tensor // context // (data if argument(info, "enable_dp_attention") else 1)
    told.update(attn_cp_size=context, dp_size=data, pp_size=whole_number(info, "pp_size"))
    return {name: value for name, value in told.items() if value is not None}


def _field(name: str, there: Any, here: Any, prefill: str, decode: str) -> Compared:
    for value, who in ((there, prefill), (here, decode)):
        if value is None:
            return Compared(name, there, here, OPEN, f"{who} does not tell it")
    if there != here:
        return Compared(name, there, here, DIFFERS)
    if here == "auto":
        return Compared(name, there, here, OPEN, "auto on both sides, which each resolves itself")
    return Compared(name, there, here, EQUAL)


def compare(
    route: Dict[str, Any], theirs: Optional[Info], own: Info, may_differ: Sequence[str] = ()
) -> Tuple[Compared, ...]:
    """The fields of one pair.

    Of kv_cache_dtype /route tells what the prefill made of auto, where it made something of it, and /server_info only
    what was asked for: a decode that says auto is not compared. One that names a type must find it in /route, letter
    by letter, since the engine compares the words. Of two dsv4_attn_backend one of which is auto nothing is known.

    :arg route: answer of the prefill's /route.
    :arg theirs: the prefill's /server_info, if it could be had.
    :arg own: the decode's /server_info.
    """
    mine = decode_side(own)
    found = [_field(name, route.get(name), mine.get(name), "/route", "decode") for name in (*SHARED, *SIZES)]
    found = [
        replace(one, result=OPEN, why="decode says auto, which it resolves itself")
        if one.result == DIFFERS and one.decode == "auto"
        else one
        for one in found
    ]
    for name in ARGUMENTS:
        there, here = (argument(theirs, name) if theirs else None), argument(own, name)
        one = _field(name, there, here, "prefill", "decode")
        if one.result == DIFFERS and "auto" in (there, here):
            one = replace(one, result=OPEN, why="auto on one side, which it resolves itself")
        found.append(one)
    for name in VARIABLES:
        there, here = _variable(theirs, name), _variable(own, name)
        if there or here:  # set on one side only is a difference as well
            found.append(_set_or_not(name, there, here, theirs, own))
    return tuple(
        replace(one, result=ALLOWED) if one.result == DIFFERS and one.name in may_differ else one for one in found
    )


def _variable(info: Optional[Info], name: str) -> Optional[str]:
    values = {one[name] for one in env_vars(info or {}) if name in one}
    return values.pop() if len(values) == 1 else None


def _set_or_not(name: str, there: Optional[str], here: Optional[str], theirs: Optional[Info], own: Info) -> Compared:
    for info, who in ((theirs, "prefill"), (own, "decode")):
        if not env_vars(info or {}):
            return Compared(name, there, here, OPEN, f"{who} shows no env_vars (SGLANG_EXPOSE_OWN_ENV_VARS=1)")
    return Compared(name, there, here, EQUAL if there == here else DIFFERS)


def check(target: Target, look: Look) -> Verdict:
    return _check_prefill(target, look) if target.role == "prefill" else _check_decode(target, look)


def bootstrap_url(url: str, port: int, path: str) -> str:
    host = parse_url(url).host
    return (f"http://[{host}]" if ":" in host else f"http://{host}") + f":{port}{path}"


def check_bootstrap(target: Target, look: Look) -> Verdict:
    """Gate bootstrap: the server answers. It starts with the tokenizer manager, before the model is loaded (engine.py of 0.5.23)."""
    port = target.bootstrap_port or 0
    reply = request(bootstrap_url(target.url, port, "/health"), timeout_s=look.request_s(INFO_S))
    if isinstance(reply, Failure):
        return from_failure(reply)
    if reply.status == 404:
        return failed(f"/health 404: port {port} is not a bootstrap server", status=reply.status)
    if reply.status != 200:
        return pending(f"/health of the bootstrap server {reply.status} ({reply.text(80)})", status=reply.status)
    return passed(f"the bootstrap server answers at port {port}, the model may still be loading", status=200)


def ask_route(url: str, port: int, look: Look) -> Tuple[Optional[Dict[str, Any]], Optional[Verdict]]:
    """The fields that the bootstrap server of a prefill tells, or what is said of an answer that has none."""
    reply = request(bootstrap_url(url, port, ROUTE), timeout_s=look.request_s(5.0))
    if isinstance(reply, Failure):
        return None, from_failure(reply)
    if reply.status != 200:
        words = f"/route {reply.status} ({reply.text(120)})"
        if reply.status == 404:
            return None, failed(f"{words}: port {port} is not a bootstrap server", status=reply.status)
        return None, pending(words, status=reply.status)
    return _fields(reply)


def _fields(reply: Answer) -> Tuple[Optional[Dict[str, Any]], Optional[Verdict]]:
    try:
        data = reply.data()
    except ValueError:
        return None, failed(f"/route 200, but its answer is no JSON: {reply.text(120)}", status=200)
    if not isinstance(data, dict) or data.get("page_size") is None:
        return None, failed(f"/route 200, but without page_size: {reply.text(120)}", status=200)
    return data, None


def _shown(route: Dict[str, Any]) -> Dict[str, Any]:
    return {name: route.get(name) for name in (*SHARED, *SIZES)}


def _check_prefill(target: Target, look: Look) -> Verdict:
    """All ranks are registered; a decode that is up already is compared, one that is down is compared by its own ladder."""
    if target.bootstrap_port is None:
        raise PdopsError(f"{target.name}: gate rendezvous needs bootstrap_port")
    route, verdict = ask_route(target.url, target.bootstrap_port, look)
    if route is None:
        return verdict or pending("no /route")
    evidence: Dict[str, Any] = {"status": 200, "route": _shown(route)}
    told = f"all ranks registered, page size {route['page_size']}"
    decodes = target.engines("decode")
    if not decodes:
        return passed(told, **evidence)
    theirs, why, status = server_info(target.url, target.api_key, look.request_s(INFO_S))
    if status in (401, 403):
        return failed(why, **evidence)
    pairs: List[Tuple[str, Tuple[Compared, ...]]] = []
    down = []
    for peer in decodes:
        own, why, status = server_info(peer.url, peer.api_key, look.request_s(PEER_INFO_S))
        if own is None:
            down.append(f"{peer.name} is not compared now ({why})")
        else:
            pairs.append((peer.name, compare(route, theirs, own, target.may_differ)))
    return _judge(told, target.name, pairs, down, evidence, prefill_is_target=True)


def _check_decode(target: Target, look: Look) -> Verdict:
    prefills = [peer for peer in target.engines("prefill") if peer.bootstrap_port is not None]
    if not prefills:
        return unseen("no prefill is known that can be asked from here: there is nothing to compare with")
    own, why, status = server_info(target.url, target.api_key, look.request_s(INFO_S))
    if own is None:
        return failed(why, status=status) if status in (401, 403, 404) else pending(why, status=status)
    pairs: List[Tuple[str, Tuple[Compared, ...]]] = []
    evidence: Dict[str, Any] = {"status": 200, "route": {}}
    for peer in prefills:
        route, verdict = _peer_route(peer, look)
        if route is None:
            return verdict
        evidence["route"][peer.name] = _shown(route)
        theirs, _why, _status = server_info(peer.url, peer.api_key, look.request_s(PEER_INFO_S))
        pairs.append((peer.name, compare(route, theirs, own, target.may_differ)))
    return _judge("", target.name, pairs, [], evidence, prefill_is_target=False)


def _peer_route(peer: Peer, look: Look) -> Tuple[Optional[Dict[str, Any]], Verdict]:
    route, verdict = ask_route(peer.url, peer.bootstrap_port or 0, look)
    said = f"{peer.name}: {verdict.said}" if verdict else ""
    return route, replace(verdict, said=said) if verdict else passed("")


def _judge(
    told: str,
    name: str,
    pairs: Sequence[Tuple[str, Tuple[Compared, ...]]],
    notes: List[str],
    evidence: Dict[str, Any],
    prefill_is_target: bool,
) -> Verdict:
    """One verdict over all pairs of the target; differences first, then what is not compared."""
    evidence["compared"] = {peer: {one.name: one.as_dict() for one in fields} for peer, fields in pairs}
    wrong: List[str] = []
    equal: List[str] = [told] if told else []
    for peer, fields in pairs:
        prefill, decode = (name, peer) if prefill_is_target else (peer, name)
        wrong += [_difference(one, prefill, decode) for one in fields if one.result == DIFFERS]
        good = [f"{one.name} {one.decode}" for one in fields if one.result == EQUAL and one.name in SHARED]
        equal.append(f"equal to {peer}: {', '.join(good) or 'nothing that could be compared'}")
        why: Dict[str, List[str]] = {}
        for one in fields:
            if one.result == OPEN and (one.decode != one.prefill or one.decode == "auto"):
                why.setdefault(one.why, []).append(one.name)
        if why:
            words = [f"{' and '.join(names)} ({reason})" for reason, names in why.items()]
            notes.append(f"not compared: {', '.join(words)}")
        allowed = [f"{one.name} {one.prefill} and {one.decode}" for one in fields if one.result == ALLOWED]
        if allowed:
            notes.append(f"differs as permitted: {', '.join(allowed)}")
    if wrong:
        return Verdict(FAILED, "; ".join(wrong), evidence)
    return Verdict(PASSED, "; ".join([*equal, *notes]), evidence)


def _difference(one: Compared, prefill: str, decode: str) -> str:
    words = f"{one.name} is {_value(one.prefill)} on {prefill} and {_value(one.decode)} on {decode}"
    if one.name in SIZES:
        return f"{words}: make them equal, or name {one.name} in pd_may_differ if this pair is meant to be unequal"
    after = "fails every request" if one.name in REFUSED else "dies at its first request"
    return f"{words}: decode {after} with that; make them equal and restart both"


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What restarts when something changes: the rules, each with its reason, which the plan shows. Pure.

A knob of the pair, and a changed prefill, restart both roles and the router: reports differ on whether a pair survives the
restart of one role (reference/sglang-pd.md E.4: sglang#33789, smg#2382, vllm#49238). Decodes of which there are several
restart one by one while the others serve. A scope that was asked for wins, unless it makes no sense.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .asked import Asked
from .managed.knob_block import PAIR_KNOBS
from .pdops_error import PdopsError
from .secret_masking import mask_value
from .sight import Sight

_ENGINES = ("prefill", "decode")
#: Why an instance is restarted that nobody named.
LEFT_OUT = "an interrupted run took it out of the router and did not put it back"
_ROLES = {"co": ("prefill", "decode", "router"), "decode": ("decode",), "router": ("router",), "none": ()}


def pair_knobs(asked: Asked) -> set[str]:
    """Names that must be equal on prefill and decode: SGLang's own, and those of ``pd_pair_knobs`` in the inventory."""
    return {*PAIR_KNOBS, *asked.pair_knobs}


def _several(sight: Sight, role: str) -> bool:
    return sum(item.role == role for item in sight.instances) > 1


def _roles(sight: Sight, names: Iterable[str]) -> set[str]:
    wanted = set(names)
    return {item.role for item in sight.instances if item.name in wanted}


def in_scope(sight: Sight, scope: str, named: Iterable[str] = ()) -> list[str]:
    """Names of the instances that a scope restarts, in start order; of ``rolling`` those that were named.

    What an interrupted run left out of a router comes first: with a second one out, nobody might be left to serve.
    """
    if scope == "rolling":
        wanted, first = set(named), sight.left_out()
        return [*first, *(item.name for item in sight.instances if item.name in wanted and item.name not in first)]
    return [item.name for item in sight.instances if item.role in _ROLES[scope]]


def refuse_one_sided(sight: Sight, asked: Asked, edits: Iterable[Mapping[str, Any]]) -> None:
    """A knob of the pair that would be unequal afterwards ends decode at its first request, or is compared by nobody."""
    chosen = list(edits)
    if asked.one_sided:
        return
    for knob in sorted({edit["knob"] for edit in chosen} & pair_knobs(asked)):
        values: dict[str, list[str]] = {}
        for item in sight.instances:
            if item.role not in _ENGINES:
                continue
            mine = [edit for edit in chosen if edit["instance"] == item.name and edit["knob"] == knob]
            value = mine[0]["after"] if mine else (sight.by_name[item.name].get("intended") or {}).get(knob)
            values.setdefault("unset" if value is None else f"={mask_value(knob, value)}", []).append(item.name)
        if len(values) > 1:
            told = "; ".join(f"{value} on {', '.join(names)}" for value, names in values.items())
            raise PdopsError(
                f"{knob} must be equal on prefill and decode, and would be {told}: leave role=, instance= and -l out to change it "
                "on all engines, or say -e one_sided=yes if that is meant."
            )


def scope_of_edit(sight: Sight, asked: Asked, names: list[str], knobs: Iterable[str]) -> tuple[str, str]:
    """What restarts when the scripts of these instances change, and why.

    Raises :class:`PdopsError` for an asked scope that would leave a changed script without effect, or a pair unequal meanwhile.
    """
    roles = _roles(sight, names)
    shared = sorted(set(knobs) & pair_knobs(asked))
    if asked.scope:
        return _asked_for(sight, asked, names, shared)
    if roles == {"router"}:
        return "router", "only the router's script changes"
    if shared:
        return "co", f"{shared[0]} is a knob of the pair, so prefill and decode restart together"
    if roles == {"decode"} and _several(sight, "decode"):
        return "rolling", "only scripts of decodes change, and there are several: one at a time, while the others serve"
    if "prefill" in roles:
        return "co", "a prefill changes, and decode has to meet it afresh"
    return (
        "co",
        "the pair meets afresh; decode alone restarts with -e scope=decode, and all of it once if no request passes then",
    )


def _asked_for(sight: Sight, asked: Asked, names: list[str], shared: list[str]) -> tuple[str, str]:
    roles, scope = _roles(sight, names), str(asked.scope)
    why = f"asked for with scope={scope}"
    if scope == "decode" and roles != {"decode"}:
        raise PdopsError(
            f"scope=decode does not restart {', '.join(sorted(roles - {'decode'}))}, whose script changes; take scope=co."
        )
    if scope in ("decode", "rolling") and shared:
        raise PdopsError(
            f"{shared[0]} must be equal on prefill and decode, and one at a time they would differ meanwhile; take scope=co."
        )
    if scope == "decode" and _several(sight, "decode"):
        return "rolling", f"{why}; there are several decodes, so one at a time, while the others serve"
    if scope == "rolling":
        refuse_single(sight, names)
    return scope, why


def scope_of_deploy(sight: Sight, asked: Asked, names: Iterable[str]) -> str:
    """What restarts when a deploy has a reason to restart these: engines together, the router alone when only it has one.

    Raises :class:`PdopsError` for an asked scope that would leave one of them as it is.
    """
    wanted = list(names)
    roles = _roles(sight, wanted)
    scope = "router" if roles == {"router"} else "co" if roles else "none"
    if asked.scope == "decode" and roles == {"decode"}:
        return "decode"
    if asked.scope in ("decode", "router") and asked.scope != scope:
        raise PdopsError(f"scope={asked.scope} does not restart {', '.join(wanted)}; leave scope out.")
    return scope


def scope_of_named(sight: Sight, asked: Asked) -> tuple[str, list[str], str]:
    """What ``scope=``, ``-l``, ``instance=`` and ``role=`` mean for a restart, never more than was named: scope, names, reason."""
    given = bool(asked.instances) or asked.role is not None
    named = [item.name for item in sight.instances if asked.wants(item)]
    roles = _roles(sight, named)
    if asked.scope:
        return _scope_and_named(sight, asked, named if given else [])
    if not given or len(named) == len(sight.instances):
        return "co", in_scope(sight, "co"), "nothing was named, so all of it"
    if roles == {"decode"} and _several(sight, "decode"):
        return "rolling", named, "there are several decodes, so one at a time, while the others serve"
    whole = named == [item.name for item in sight.instances if item.role in roles]
    if whole and len(roles) == 1 and roles != {"prefill"}:
        scope = roles.pop()
        return scope, in_scope(sight, scope), "only that was named"
    rolling = ", scope=rolling (one prefill at a time)" if _several(sight, "prefill") and "router" not in roles else ""
    raise PdopsError(
        f"{', '.join(sorted(named))} cannot be restarted by itself: a pair whose prefill was replaced meets afresh only when "
        f"decode restarts too; say -e scope=co (prefill, decode and router){rolling}, scope=decode or scope=router without -l, role= and instance=."
    )


def _scope_and_named(sight: Sight, asked: Asked, named: list[str]) -> tuple[str, list[str], str]:
    scope, why = str(asked.scope), f"asked for with scope={asked.scope}"
    if scope == "rolling" or (scope == "decode" and _several(sight, "decode")):
        names = named or [
            item.name
            for item in sight.instances
            if item.role in (_ENGINES if scope == "rolling" else ("decode",)) and _several(sight, item.role)
        ]
        if not names:
            raise PdopsError(
                "scope=rolling restarts one while the others serve, and there are not two of a role here; take scope=co or scope=decode."
            )
        refuse_single(sight, names)
        return "rolling", names, f"{why}; one at a time, while the others serve"
    names = in_scope(sight, scope)
    if named and not set(named) <= set(names):
        raise PdopsError(f"{asked.named_by(named)} is not in scope={scope}, which restarts {', '.join(names)}.")
    return scope, names, why


def refuse_single(sight: Sight, names: Iterable[str]) -> None:
    """One of its kind cannot be restarted while the others serve."""
    for role in sorted(_roles(sight, names)):
        if role == "router" or not _several(sight, role):
            what = "a router is what the others are taken out of" if role == "router" else f"there is one {role}"
            raise PdopsError(
                f"scope=rolling restarts one while the others serve, but {what}; take scope=co, or scope=decode."
            )


def refuse_alone(sight: Sight, scope: str, names: Iterable[str] = ()) -> None:
    """Decode alone, and each of a rolling restart, is taken out of a router and proved through it, so the others must run."""
    if scope not in ("decode", "rolling"):
        return
    restarted = set(names)
    others = [
        item.name
        for item in sight.instances
        if (item.role != "decode" if scope == "decode" else item.name not in restarted or len(restarted) > 1)
        and item.name not in sight.left_out()
    ]
    down = [name for name in others if (sight.by_name[name].get("unit") or {"pid": 0})["pid"] is None]
    if down:
        raise PdopsError(
            f"scope={scope} restarts {'decode' if scope == 'decode' else 'one'} while the others serve, but {', '.join(down)} "
            f"{'does' if len(down) == 1 else 'do'} not run; restart all with -e scope=co."
        )

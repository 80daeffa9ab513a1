# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Turns the options of pd_gate into a target, and refuses what makes no sense before anything is asked."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..endpoint import parse_url
from ..knobs import check_name, check_value, refuse_secret
from ..pdops_error import PdopsError
from ..processes import ProcessId
from .api_key import read_key
from .base import SIZES, Peer, Target, Watched


def expectations_from(given: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Optional[str]]]:
    """Knob names and values as strings; None stays "must not be set"."""
    if given is None:
        return None
    for name, value in given.items():
        if value is not None:
            refuse_secret(check_name(str(name)))
    return {check_name(str(name)): check_value(str(name), value) for name, value in given.items()}


def _process(given: Any, what: str) -> ProcessId:
    try:
        return ProcessId(int(given["pid"]), int(given["started_ticks"]))
    except (KeyError, TypeError, ValueError):
        raise PdopsError(f"{what} must hold pid and started_ticks, as pd_instance returns them") from None


def _peers(options: Mapping[str, Any], own_key: Optional[str]) -> List[Peer]:
    """Other instances. A key file that is not on this machine is another machine's: the instance's own key is tried."""
    name = str(options["name"])
    found: List[Peer] = []
    for peer in options.get("peers") or ():
        who = str(peer.get("name") or peer.get("url") or "?")
        if peer.get("role") not in ("prefill", "decode", "router") or not peer.get("url"):
            raise PdopsError(f"{name}: peer {who} needs a url, and a role that is prefill, decode or router")
        parse_url(str(peer["url"]))
        key_file = peer.get("api_key_file")
        found.append(
            Peer(
                name=who,
                role=str(peer["role"]),
                url=str(peer["url"]).rstrip("/"),
                bootstrap_port=int(peer["bootstrap_port"]) if peer.get("bootstrap_port") else None,
                api_key=read_key(str(key_file)) if key_file and os.path.exists(str(key_file)) else own_key,
            )
        )
    return found


def _may_differ(options: Mapping[str, Any]) -> Tuple[str, ...]:
    for field in options.get("may_differ") or ():
        if field not in SIZES:
            raise PdopsError(
                f"{options['name']}: may_differ holds {field!r}; only {', '.join(SIZES)} may, "
                "since decode dies of any other difference"
            )
    return tuple(options.get("may_differ") or ())


def target_from(options: Mapping[str, Any]) -> Target:
    """A target of the options of pd_gate; PdopsError for what is wrong with them."""
    name = str(options["name"])
    for option in ("url", "metrics_url"):
        if options.get(option):
            parse_url(options[option])
    key = options.get("api_key")
    if options.get("api_key_file"):
        key = read_key(options["api_key_file"])
    old = options.get("not_process")
    watched: List[Watched] = []
    for peer in options.get("watched") or ():
        who = str(peer.get("name") or peer.get("unit") or "?")
        if not peer.get("unit"):
            raise PdopsError(f"{name}: watched instance {who} has no unit")
        watched.append(
            Watched(
                name=who,
                unit=str(peer["unit"]),
                process=_process(peer, f"{name}: watched instance {who}") if peer.get("pid") is not None else None,
                manager=str(peer.get("manager") or options["manager"]),
                supervisor_config=peer.get("supervisor_config") or options.get("supervisor_config"),
            )
        )
    return Target(
        name=name,
        role=options["role"],
        unit=options["unit"],
        url=options["url"].rstrip("/"),
        manager=options["manager"],
        supervisor_config=options.get("supervisor_config"),
        bootstrap_port=options.get("bootstrap_port"),
        metrics_url=options.get("metrics_url"),
        serve_script=options.get("serve_script"),
        api_key=key,
        # A start task in check mode, or of an instance that was down, has no old process.
        not_process=_process(old, f"{name}: not_process") if old and old.get("pid") is not None else None,
        started_after=options.get("started_after"),
        workers=tuple(options.get("workers") or ()),
        model=options.get("model"),
        request_timeout_s=float(options.get("request_timeout_s") or 60.0),
        watched=tuple(watched),
        peers=tuple(_peers(options, key)),
        may_differ=_may_differ(options),
        longest_prompt_tokens=int(options.get("longest_prompt_tokens") or 20480),
        kernels_serve=bool(options.get("kernels_serve")),
    )

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Switches faults of simulated engines and of the proxy on and off, through one file that they re-read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import layout as files
from .folder import instance_name
from .runner import Lab, LabError

#: What each fault needs: nothing, a number of seconds or a count, or NAME=VALUE.
FAULTS = {
    "refuse_start_with": "NAME=VALUE; the engine exits while loading when it has that knob value",
    "slow_load": "SECONDS more of loading",
    "wedge": "the scheduler stops: its heartbeat freezes, requests hang",
    "lie_on_health": "/health says 200 while completions hang",
    "die_at_first_request": "the engine dies at the next completion",
    "finish_reason_error": "completions are answered 200 with finish_reason error and no content",
    "empty_content": "completions are answered 200 without content",
    "transfer_fail": "KV transfers fail, and the failure counter steps",
    "transfer_fail_times": "N; as transfer_fail, but only the next N transfers",
    "poisoned_by_new_decode": "once another decode process meets this prefill, its KV transfers fail until it is restarted",
    "never_register": "the prefill's ranks never register with its bootstrap server",
    "page_size": "N; the engine has another page size",
    "metrics_off": "/metrics is not there",
    "no_way_to_prefill": "the decode reaches no prefill, as when the network between their machines is cut",
    "wedge_after": "N; the proxy stops answering after N requests (--role proxy)",
}
_NEED_VALUE = ("refuse_start_with", "slow_load", "page_size", "transfer_fail_times", "wedge_after")
_LONGEST_S = 600


def _read(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError):
        raise LabError(f"{path} is damaged: write {{}} into it") from None


def _checked(name: str, value: str | None) -> Any:
    """The setting in the file. LabError: what the fault needs."""
    if name not in _NEED_VALUE:
        if value is not None:
            raise LabError(f"the fault {name} takes no value, and {value!r} was given")
        return True
    text = value or ""
    if name == "refuse_start_with":
        knob, equals, knob_value = text.partition("=")
        if not equals or not knob:
            raise LabError(f"the fault {name} needs NAME=VALUE, not {text!r}")
        return {knob: knob_value}
    if name == "slow_load":
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= _LONGEST_S:
            raise LabError(f"the fault {name} needs a number of seconds from 0 to {_LONGEST_S}, not {text!r}")
        return seconds
    least = 1 if name == "page_size" else 0
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise LabError(f"the fault {name} needs a whole number from {least}, not {text!r}")
    return int(text)


def _known(name: str) -> str:
    if name not in FAULTS:
        raise LabError(f"there is no fault {name!r}; there are {', '.join(sorted(FAULTS))}")
    return name


def _part(lab: Lab, role: str | None) -> str | None:
    """Of a role, or of one instance of several: decode-2 is named in full in the file."""
    return role if role in (None, "prefill", "decode", "proxy") else instance_name(lab, str(role))


def _role(name: str, role: str | None) -> str:
    role = role or ("proxy" if name == "wedge_after" else "decode")
    if (name == "wedge_after") != (role == "proxy"):
        raise LabError("wedge_after is for --role proxy, and the only fault that it has")
    return role


def _told(on: dict[str, dict[str, Any]]) -> str:
    """For people: decode: page_size 64, wedge; prefill: transfer_fail"""

    def one(name: str, value: Any) -> str:
        if isinstance(value, dict):
            value = ", ".join(f"{knob}={wanted}" for knob, wanted in value.items())
        return name if value is True else f"{name} {value}"

    return "; ".join(
        f"{role}: {', '.join(one(name, value) for name, value in sorted(on[role].items()))}" for role in sorted(on)
    )


def switch(lab: Lab, role: str | None, words: Sequence[str], clear: bool) -> str:
    """Switch faults on or off and return the closing sentence. Nothing is switched when one word is wrong.

    :arg words: NAME, NAME=VALUE or NAME VALUE, several; none with ``clear``: all faults (of the role) go off.
    """
    path = lab["faults_file"]
    on = _read(path)
    role = _part(lab, role)
    if clear:
        names = {_known(word) for word in words} or set(FAULTS)
        for one in list(on):
            if role in (None, one):
                on[one] = {name: value for name, value in on[one].items() if name not in names}
        on = {one: named for one, named in on.items() if named}
        files.write(path, json.dumps(on) + "\n")
        return f"still on: {_told(on)}" if on else "all faults are off"
    if not words:
        return f"on: {_told(on)}" if on else "no fault is on"
    rest = list(words)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        value = text if equals else None
        if _known(name) in _NEED_VALUE and value is None and rest and rest[0].partition("=")[0] not in FAULTS:
            value = rest.pop(0)
        on.setdefault(_role(name, role), {})[name] = _checked(name, value)
    files.write(path, json.dumps(on) + "\n")
    return f"on: {_told(on)}"

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an engine tells of itself (/server_info), and what is said when it wants another API key."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..endpoint import Failure, join, request

NO_ENV_VARS = "/server_info has no env_vars (SGLANG_EXPOSE_OWN_ENV_VARS=1 in the serve script shows them)"
Info = Dict[str, Any]


def key_words(what: str, status: int, key: Optional[str]) -> str:
    """One sentence for a 401 or 403. It never holds the key.

    :arg what: what answered, for example "/workers" or "lab-decode: /server_info".
    """
    trouble = "the API key of pd_api_key_file is not the one that it wants" if key else "it wants an API key"
    cure = "put the right one into that file" if key else "set pd_api_key_file"
    return f"{what} {status}: {trouble}; {cure}"


def server_info(url: str, api_key: Optional[str], timeout_s: float) -> Tuple[Optional[Info], str, Optional[int]]:
    """The answer, or None with the reason and the status.

    That of a wedged scheduler never comes (reference/sglang-pd.md C.1): hence the time limit.
    """
    reply = request(join(url, "/server_info"), timeout_s=timeout_s, api_key=api_key)
    if isinstance(reply, Failure):
        return None, f"/server_info: {reply.said}", None
    if reply.status in (401, 403):
        return None, key_words("/server_info", reply.status, api_key), reply.status
    if reply.status != 200:
        return None, f"/server_info answers {reply.status}", reply.status
    try:
        data = reply.data()
    except ValueError:
        data = None
    if not isinstance(data, dict):
        return None, "/server_info is no JSON of an engine", 200
    return data, "", 200


def _states(info: Info) -> List[Info]:
    """One of each data parallel rank: what its scheduler holds now."""
    states = info.get("internal_states")
    return [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []


def env_vars(info: Info) -> List[Dict[str, str]]:
    """``internal_states[].env_vars``; empty when SGLANG_EXPOSE_OWN_ENV_VARS is off."""
    found = [state["env_vars"] for state in _states(info) if isinstance(state.get("env_vars"), dict)]
    return [{str(name): str(value) for name, value in one.items()} for one in found]


def argument(info: Info, name: str) -> Any:
    """A server argument as the scheduler has it after its hooks, else as the HTTP process tells it; None if untold."""
    for state in _states(info):
        if state.get(name) is not None:
            return state[name]
    return info.get(name)


def whole_number(info: Info, name: str) -> Optional[int]:
    value = argument(info, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

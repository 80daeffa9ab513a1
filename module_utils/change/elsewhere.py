# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the guard of one machine asks of a deployment's other machines on its way back, by their URLs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..deployment import Instance, instance_from_dict
from ..endpoint import Answer, request
from ..gates.api_key import optional_key
from ..gates.rendezvous import ROUTE, bootstrap_url
from ..pdops_error import PdopsError
from ..router_workers import WorkerRequest, bring_worker

POLL_S, ASK_S = 0.5, 3.0
#: Guards of several machines act when the same lease is over, and it is renewed machine by machine.
TOGETHER_S = 15.0
REGISTER_S = 30.0

Note = Callable[[str, str, str], None]


def is_loopback(url: str) -> bool:
    """Whether a URL means the machine itself, so that it is of no use on another one."""
    host = urlsplit(url).hostname or ""
    return host.startswith("127.") or host in ("localhost", "::1")


def of_role(record: Mapping[str, Any], role: str, here: bool = True) -> list[Instance]:
    """Instances of a role that can be asked from this machine; without ``here`` only those of other machines."""
    own = [instance_from_dict(item) for item in record["instances"] if here and item["role"] == role]
    far = [item for item in record.get("elsewhere", []) if item["role"] == role and not is_loopback(str(item["url"]))]
    return [*own, *(instance_from_dict(item) for item in far)]


def await_prefills(record: Mapping[str, Any], began: float, note: Note) -> None:
    """Wait until the prefills of other machines were seen down and are registered again, each at most its load timeout.

    A decode that starts before its prefill went back would meet the one that is about to go (sglang-pd.md E.4). A prefill
    that was not seen down within its drain time is taken as it is: its machine may have gone back before.

    :arg began: when this machine's way back began, of ``time.monotonic``
    """
    if record.get("led"):
        return
    for prefill in of_role(record, "prefill", here=False):
        if prefill.bootstrap_port is None:
            continue
        note("wait for", prefill.name, f"at most {prefill.load_timeout_s:.0f} s")
        seen_down = False
        while True:
            reply = request(bootstrap_url(prefill.url, prefill.bootstrap_port, ROUTE), timeout_s=ASK_S)
            ready = isinstance(reply, Answer) and reply.status == 200
            spent = time.monotonic() - began
            seen_down = seen_down or not ready
            if ready and (seen_down or spent > prefill.drain_s + TOGETHER_S):
                break
            if spent > prefill.drain_s + prefill.load_timeout_s + TOGETHER_S:
                note("go on", "", f"{prefill.name} did not come back in time; the pair is proved by the router")
                break
            time.sleep(POLL_S)


def in_routers(record: Mapping[str, Any], instance: Instance, state: str, note: Note) -> None:
    """Take an instance out of all routers, or put it back. A router that cannot be asked is named, and raised for ``present``."""
    for router in of_role(record, "router"):
        note({"absent": "take out", "present": "register"}[state], router.name, instance.url)
        wanted = WorkerRequest(
            router.url,
            instance.url,
            instance.role,
            state,
            instance.bootstrap_port,
            REGISTER_S,
            optional_key(router.api_key_file),
        )
        try:
            bring_worker(wanted)
        except PdopsError as error:
            if state == "present":
                raise PdopsError(f"{error}; register it with ansible-playbook register_worker.yml") from None
            note("go on", "", str(error))

#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

DOCUMENTATION = r"""
module: pd_probe
short_description: Ask a deployment as its clients do, hop by hop, and name the hop that is ill
version_added: 0.1.0
description:
  - Sends real requests (chat, completions and C(/generate), whole and streamed, one longer than a KV page, one longer than a
    prefill chunk) and judges the bodies. A broken stream, an empty answer and V(finish_reason) V(error) are failures, whatever the status.
  - Holds a conversation that grows round by round, as an agent does, over one kept connection and then over fresh ones, with
    deadlines on the first byte and on the gaps between events. A proxy that wedges after some rounds is found at that round.
  - The hops are V(proxy), V(router) and V(pair). By V(pair), prefill and decode are asked at once and directly, as
    the router would ask them. When a round fails, it is tried by the hops further in, so that the result names the one that is ill.
  - A request that fails is aborted, and the queues of both engines are compared with those before the probe.
  - After a hop has failed, little more is sent by it. Failed requests count against the workers in the router, whose circuit
    breakers would then shut out all clients.
  - The action plugin of the same name prints a line per request and round while the probe runs in a process of its own on
    the machine. That process ends by itself, also when the controller is gone.
options:
  name:
    description: Name in messages, for example that of the deployment.
    type: str
    default: probe
  router_url:
    description: Address of the router as seen from the machine on which the module runs.
    type: str
  prefill_url:
    description: Address of a prefill. With O(decode_url) it makes the hop V(pair) possible, and the look at the queues.
    type: str
  decode_url:
    description: Address of a decode.
    type: str
  bootstrap_host:
    description: How decode reaches the bootstrap server of the prefill. If not set, the host of O(prefill_url), as the router does.
    type: str
  bootstrap_port:
    description: Bootstrap port of the prefill. If not set, decode takes its own default.
    type: int
  proxy_url:
    description: Address of what stands between the clients and the router.
    type: str
  hops:
    description: Ways to ask by. If not set, all whose addresses are given. The conversation goes by the outermost one.
    type: list
    elements: str
    choices: [proxy, router, pair]
  requests:
    description: Whether single requests of all kinds are sent.
    type: bool
    default: true
  rounds:
    description: Rounds of the conversation; V(0) holds none.
    type: int
    default: 24
  series:
    description: Connections over which the conversation is held, each from its first round to its last.
    type: list
    elements: str
    choices: [kept, fresh]
    default: [kept, fresh]
  model:
    description: Model to ask for. If not set, the first of C(/v1/models).
    type: str
  max_tokens:
    description: Longest answer, in tokens.
    type: int
    default: 32
  round_words:
    description: Words that each round adds to the conversation.
    type: int
    default: 40
  page_tokens:
    description: Size of a KV page. If not set, what the prefill's C(/server_info) says, or 256.
    type: int
  chunk_tokens:
    description: Size of a prefill chunk. If not set, what the prefill's C(/server_info) says, or 8192.
    type: int
  require_echo:
    description: Whether an answer fails that does not repeat the word that it was asked to repeat. Small models cannot.
    type: bool
    default: false
  first_byte_s:
    description: Longest time to the first event of a streamed answer.
    type: float
    default: 20
  gap_s:
    description: Longest time between two events of a streamed answer.
    type: float
    default: 20
  request_s:
    description: Longest time for one request.
    type: float
    default: 120
  timeout_s:
    description: Longest time for the whole probe.
    type: float
    default: 600
  api_key:
    description: Key that requests to router and proxy carry, and those to the engines unless O(engine_api_key_file) is set.
      Prefer O(api_key_file).
    type: str
  api_key_file:
    description: File on the machine, mode 0600, that holds the key.
    type: path
  engine_api_key_file:
    description: File on the machine, mode 0600, that holds the key of the engines, if it is another.
    type: path
  proxy_api_key_file:
    description: File on the machine, mode 0600, that holds the key of the proxy, if it is another.
    type: path
  resume:
    description: Set by the action plugin. Starts the probe as a process of its own, or looks at it.
    type: dict
attributes:
  check_mode:
    description: Says what it would send, and is skipped.
    support: full
notes:
  - Use the full name M(pdops.sglang.pd_probe). The action plugin needs it.
  - Proxy settings of the environment are ignored.
seealso:
  - module: pdops.sglang.pd_gate
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.waits
"""

EXAMPLES = r"""
- name: Find the hop that hangs
  pdops.sglang.pd_probe:
    name: dsv4
    proxy_url: http://192.0.2.10:9000
    router_url: http://127.0.0.1:8000
    prefill_url: http://127.0.0.1:30000
    decode_url: http://127.0.0.1:30001
    bootstrap_port: 8998
    first_byte_s: 10

- name: Ask the engines alone, without a conversation
  pdops.sglang.pd_probe:
    prefill_url: http://127.0.0.1:30000
    decode_url: http://127.0.0.1:30001
    bootstrap_port: 8998
    hops: [pair]
    rounds: 0
"""

RETURN = r"""
kind:
  description: Always V(probe).
  returned: through the action plugin
  type: str
instance:
  description: O(name).
  returned: through the action plugin
  type: str
began:
  description: When the task began, in seconds since the epoch on the controller.
  returned: through the action plugin
  type: float
ended:
  description: When the task ended, in seconds since the epoch on the controller.
  returned: through the action plugin
  type: float
verdict:
  description: Whether the probe V(passed) or V(failed). The task fails when it failed.
  returned: always, except in check mode
  type: str
said:
  description: The finding in one sentence.
  returned: always, except in check mode
  type: str
  sample: >-
    round 5 of 24, on the kept connection: the proxy http://127.0.0.1:9000 gave no first byte in 10 s; router hop fine (0.4 s);
    a fresh connection hangs too
hop:
  description: The hop that fails while those further in work, or null.
  returned: always, except in check mode
  type: str
hops:
  description: Hops that were asked for, outermost first, with their addresses.
  returned: always, except in check mode
  type: dict
model:
  description: The model that was asked.
  returned: always, except in check mode
  type: str
answers:
  description: One entry per single request.
  returned: always, except in check mode
  type: list
  elements: dict
  contains:
    kind:
      description: One of chat, completions and generate.
      type: str
    size:
      description: One of short, page (longer than a KV page) and chunk (longer than a prefill chunk).
      type: str
    streamed:
      description: Whether a stream was asked for.
      type: bool
    hop:
      description: The hop by which it was sent.
      type: str
    verdict:
      description: One of passed, failed and not-observable (it was not sent, RV(answers[].said) says why).
      type: str
    said:
      description: The finding in one sentence.
      type: str
    status:
      description: The HTTP status, or null.
      type: int
    characters:
      description: Length of the content, with that of the reasoning.
      type: int
    finish_reason:
      description: As the engine says it.
      type: str
    prompt_tokens:
      description: As the engine counts them.
      type: int
    completion_tokens:
      description: As the engine counts them.
      type: int
    echoed:
      description: Whether the word that was to be repeated is in the answer.
      type: bool
    events:
      description: Number of events of a stream.
      type: int
    first_byte_s:
      description: Seconds from sending to the first event, or to the first byte of the body of a whole answer.
      type: float
    gap_max_s:
      description: Longest time between two events.
      type: float
    gap_p50_s:
      description: Median of the times between two events.
      type: float
    total_s:
      description: Seconds from connecting to the end.
      type: float
    connection:
      description: Whether the connection was fresh or kept from the request before.
      type: str
    request_id:
      description: What was sent as X-Request-ID, by which the router's log names it.
      type: str
    aborted:
      description: For a failed request, the engine's id of it where known, and which engines were told to abort it.
      type: dict
conversation:
  description: What came of the conversation.
  returned: always, except in check mode; null with O(rounds=0)
  type: dict
  contains:
    rounds:
      description: The fields of RV(answers) for every round, with C(round) and C(series).
      type: list
      elements: dict
    failed_round:
      description: The round that failed and ended the conversation, or null.
      type: int
    series:
      description: The series in which it failed, kept or fresh.
      type: str
    hop:
      description: The hop that is ill; if none is, that by which the conversation went. Null when the probe's own time was over.
      type: str
    hop_asked:
      description: After a failure, the hop by which the conversation went.
      type: str
    said:
      description: The finding in one sentence.
      type: str
    verdict:
      description: One of passed, failed and not-observable (none was held, RV(conversation.said) says why).
      type: str
    tried:
      description: After a failure, the same round by other hops and over a fresh connection, with the fields of RV(answers).
      type: list
      elements: dict
    forgotten_rounds:
      description: How many old rounds were left out because the context of the model would not hold them.
      type: int
    waited_s:
      description: After a failure, for how many seconds the failed round was waited for.
      type: float
table:
  description: Lines of a table of all requests and series, for people.
  returned: always, except in check mode
  type: list
  elements: str
left_in_queues:
  description: Requests in the engines' queues beyond those before the probe. Null when they are not to be seen.
  returned: always, except in check mode
  type: int
queues:
  description: The queues before and after, what is left by engine and queue, and why one is not to be seen.
  returned: always, except in check mode; null when the engines' addresses are not given
  type: dict
seconds:
  description: Time for the whole probe.
  returned: always, except in check mode
  type: float
lines:
  description: New lines of progress, and RV(seen), RV(name), RV(result) for the action plugin.
  returned: from the module itself with O(resume)
  type: list
  elements: list
seen:
  description: How many lines of progress there were.
  returned: from the module itself with O(resume)
  type: int
name:
  description: Name of the process.
  returned: from the module itself with O(resume)
  type: str
result:
  description: All of the above once the probe has ended.
  returned: from the module itself with O(resume)
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.gates.base import FAILED
from ..module_utils.pdops_error import PdopsError
from ..module_utils.probe.plan import plan_from
from ..module_utils.probe.probing import run
from ..module_utils.probe.worker import look, start


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": "probe"},
            "router_url": {"type": "str"},
            "prefill_url": {"type": "str"},
            "decode_url": {"type": "str"},
            "bootstrap_host": {"type": "str"},
            "bootstrap_port": {"type": "int"},
            "proxy_url": {"type": "str"},
            "hops": {"type": "list", "elements": "str", "choices": ["proxy", "router", "pair"]},
            "requests": {"type": "bool", "default": True},
            "rounds": {"type": "int", "default": 24},
            "series": {"type": "list", "elements": "str", "choices": ["kept", "fresh"], "default": ["kept", "fresh"]},
            "model": {"type": "str"},
            "max_tokens": {"type": "int", "default": 32, "no_log": False},
            "round_words": {"type": "int", "default": 40},
            "page_tokens": {"type": "int", "no_log": False},
            "chunk_tokens": {"type": "int", "no_log": False},
            "require_echo": {"type": "bool", "default": False},
            "first_byte_s": {"type": "float", "default": 20},
            "gap_s": {"type": "float", "default": 20},
            "request_s": {"type": "float", "default": 120},
            "timeout_s": {"type": "float", "default": 600},
            "api_key": {"type": "str", "no_log": True},
            "api_key_file": {"type": "path", "no_log": False},
            "engine_api_key_file": {"type": "path", "no_log": False},
            "proxy_api_key_file": {"type": "path", "no_log": False},
            "slice_s": {"type": "float", "default": 2},
            "resume": {"type": "dict"},
        },
        mutually_exclusive=[("api_key", "api_key_file")],
        supports_check_mode=True,
    )
    given = module.params
    try:
        if given["resume"] and given["resume"].get("name"):
            name = str(given["resume"]["name"])
            module.exit_json(changed=False, name=name, **look(given["resume"], given["slice_s"]))
        plan = plan_from(given)
        if module.check_mode:
            module.exit_json(changed=False, skipped=True, msg=f"{given['name']}: {plan.would()}")
        if given["resume"] is not None:
            module.exit_json(changed=False, name=start(plan), lines=[], seen=0, result=None)
        found: dict[str, Any] = run(plan)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)
    if found["verdict"] == FAILED:
        module.fail_json(msg=f"{given['name']}: {found['said']}", **found)
    module.exit_json(changed=False, msg=f"{given['name']}: {found['said']}", **found)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

DOCUMENTATION = r"""
module: pd_gate
short_description: Wait until an instance proves that it works, gate by gate
version_added: 0.1.0
description:
  - Climbs a ladder of gates for one prefill, decode or router instance, each of which proves more than the one before.
    It waits for what time cures (a model that loads), and fails at once on what time does not cure, with the
    gate, the evidence and the last lines of the log.
  - The action plugin of the same name asks the machine in short slices, prints each gate as it is passed and a
    line while it waits, outlives a connection that is lost, and ends at its own deadline. What it returns is
    then failed and never unreachable, so that a rescue section sees it.
  - All requests are made on the machine of the instance, so URLs are those of that machine. Proxy settings are ignored.
  - Nothing is changed on the machine. Gate V(completion) sends two requests with short answers.
options:
  name:
    description: Name of the instance in messages, for example its name in the inventory.
    type: str
    required: true
  role:
    description: What the instance is.
    type: str
    choices: [prefill, decode, router]
    required: true
  unit:
    description: Name of the systemd unit or of the supervisor program.
    type: str
    required: true
  manager:
    description: Service manager that runs the unit.
    type: str
    choices: [systemd, supervisor]
    default: systemd
  supervisor_config:
    description: Path of the supervisord.conf on the machine, see M(pdops.sglang.pd_instance).
    type: path
  url:
    description: Address of the instance, for example C(http://127.0.0.1:30001).
    type: str
    required: true
  bootstrap_port:
    description: Bootstrap port of a prefill, needed by its gate V(rendezvous).
    type: int
  metrics_url:
    description: Address of the router's metrics. With it gate V(router) sees open circuit breakers.
    type: str
  serve_script:
    description:
      - Serve script of the instance. Without O(expectations) gate V(effective) expects what it exports.
      - Of a router it also tells the start-up timeout of workers and the time for which a circuit breaker stays open.
    type: path
  gates:
    description:
      - Gates to pass, in this order.
      - V(unit) - the unit runs, its main process is stable and new (O(not_process), O(started_after)), and
        no other process holds its port.
      - V(port) - the port is open, and it is the unit that holds it.
      - V(bootstrap) - the bootstrap server of a prefill answers. It does so minutes before the model is loaded, and proves
        only that decode may be started; see V(rendezvous).
      - V(health) - C(/health) answers 200.
      - V(rendezvous) - all ranks of a prefill are registered with its bootstrap server, and what prefill and decode must
        share (page size, KV cache type and layout, allocation policy, transfer backend, parallel sizes) is equal. Decode
        would die of a difference at its first request. A prefill is compared with those O(peers) of role decode
        that are up, a decode with those of role prefill. A field that one side does not tell, or that is C(auto) on both,
        is not compared, and named.
      - V(effective) - the running process has the knobs of O(expectations).
      - V(kernels) - the kernel package that O(serve_script) selects is the one that serves, by the record that its plugin writes. The gate
        is left out where the script selects none. SGLang swallows a plugin that raises, and serves its own kernel.
      - V(router) - the router is ready, knows its O(workers) in their roles, calls them healthy, and no circuit breaker is
        open. An open one is waited out. A worker that the router has given up fails at once.
      - V(completion) - real requests are answered, with content, a proper finish reason and a token count. One prompt is
        longer than a KV page, one longer than a prefill chunk.
      - V(transfer) - over those requests the failure counters of O(peers) did not move and their transfer counters
        did. Needs V(completion) before it, and engines with C(--enable-metrics).
    type: list
    elements: str
    choices: [unit, port, bootstrap, health, rendezvous, effective, kernels, router, completion, transfer]
    default: [unit, port, health]
  required:
    description:
      - Gates whose result must be V(passed). For the others V(not-observable) is enough to go on. Names of gates that are
        not among O(gates) mean nothing here.
      - If not set, all but V(effective) and V(transfer), whose sources may be off, and V(rendezvous) of a decode, whose
        prefill may be out of reach.
    type: list
    elements: str
    choices: [unit, port, bootstrap, health, rendezvous, effective, kernels, router, completion, transfer]
  expectations:
    description:
      - Knobs for gate V(effective), name to value (a string or an integer). A null value says that it must not be set.
      - Names that look like those of secrets are refused, since parameters are logged, unless the value is null. Those
        that a serve script exports are compared, and masked in all results.
    type: dict
  not_process:
    description:
      - The process before the restart, with C(pid) and C(started_ticks), as
        RV(pdops.sglang.pd_instance#module:before) has it.
        Gate V(unit) fails while it is still the main process.
    type: dict
  started_after:
    description: Gate V(unit) fails for a main process that started before this moment, in seconds since the epoch.
    type: float
  workers:
    description:
      - URLs of the workers that the router must know, as it knows them, without those that were taken out on purpose.
      - If not set, all that it knows must be healthy.
    type: list
    elements: str
    default: []
  watched:
    description:
      - Other instances on the same machine that must stay alive meanwhile, each with C(name) and C(unit), and C(manager)
        and C(supervisor_config) if they differ. If one dies, the ladder fails at once with the log of that one,
        even if its service manager has started it again.
      - With C(pid) and C(started_ticks), as RV(main) has them, it must still be that process; without, the
        one that runs at the first look.
    type: list
    elements: dict
    default: []
  peers:
    description:
      - Other instances of the deployment that can be asked from this machine, each with C(name), C(role), C(url) as seen from
        here, and C(bootstrap_port) and C(api_key_file) where there are such. Without C(api_key_file), or when that file is
        not on this machine, the key of the instance itself is used.
      - Gate V(rendezvous) compares with them, gate V(router) checks the roles and names of workers by them, gate V(completion)
        takes the sizes of its prompts from them, and gate V(transfer) reads their counters.
    type: list
    elements: dict
    default: []
  may_differ:
    description: Parallel sizes that prefill and decode need not share, for pairs that are unequal on purpose.
    type: list
    elements: str
    choices: [attn_tp_size, attn_cp_size, dp_size, pp_size]
    default: []
  longest_prompt_tokens:
    description: Most tokens of a prompt of gate V(completion). A prefill chunk that is longer is not reached, and that is said.
    type: int
    default: 20480
  kernels_serve:
    description:
      - Requests went through the instance, so gate V(kernels) wants a package that has served; otherwise it is enough that its
        hook took.
    type: bool
    default: false
  model:
    description: Model for gate V(completion). If not set, the first of C(/v1/models).
    type: str
  api_key:
    description: Key that requests carry. Prefer O(api_key_file).
    type: str
  api_key_file:
    description: File on the machine, mode 0600, that holds the key.
    type: path
  request_timeout_s:
    description: Longest time for one completion.
    type: float
    default: 60
  timeout_s:
    description: Longest time for the whole ladder. At its end the task fails.
    type: float
    default: 900
  log_lines:
    description: How many lines of the log a failure carries.
    type: int
    default: 20
  resume:
    description: Where the last slice ended. Set by the action plugin.
    type: dict
attributes:
  check_mode:
    description: Says what a run would wait for, and is skipped.
    support: full
notes:
  - Use the full name M(pdops.sglang.pd_gate). The action plugin needs it.
seealso:
  - module: pdops.sglang.pd_instance
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.waits
"""

EXAMPLES = r"""
- name: Wait until the decode has loaded its model and runs with the new knob
  pdops.sglang.pd_gate:
    name: decode
    role: decode
    unit: sglang-dsv4-decode.service
    url: http://127.0.0.1:30001
    gates: [unit, port, health, effective]
    required: [unit, port, health, effective]
    expectations:
      SGLANG_SM120_MMA_TARGET_CTAS: 512
    not_process: "{{ restarted.before }}"
    timeout_s: 900

- name: Send a real request through the router
  pdops.sglang.pd_gate:
    name: router
    role: router
    unit: sglang-dsv4-router.service
    url: http://127.0.0.1:8000
    metrics_url: http://127.0.0.1:29000
    gates: [router, completion, transfer]
    required: [router, completion, transfer]
    workers: [http://127.0.0.1:30000, http://127.0.0.1:30001]
    peers:
      - {name: prefill, role: prefill, url: "http://127.0.0.1:30000", bootstrap_port: 8998}
      - {name: decode, role: decode, url: "http://127.0.0.1:30001"}
    timeout_s: 180
"""

RETURN = r"""
gates:
  description: What was found at each gate that was reached, in order.
  returned: always, except in check mode
  type: list
  elements: dict
  contains:
    gate:
      description: Name of the gate.
      type: str
    result:
      description: One of passed, failed, not-observable and pending.
      type: str
    said:
      description: The finding in one sentence.
      type: str
    evidence:
      description: The finding as data.
      type: dict
    seconds:
      description: Time spent at this gate.
      type: float
  sample:
    - {gate: health, result: passed, said: /health 200 in 1.0 s, evidence: {status: 200}, seconds: 31.8}
outcome:
  description: Whether the ladder is V(passed), V(failed) or still V(pending).
  returned: always, except in check mode
  type: str
gate:
  description: The gate at which it ended or failed.
  returned: always, except in check mode
  type: str
evidence:
  description: The evidence of that gate.
  returned: always, except in check mode
  type: dict
main:
  description: The main process that was judged, C(pid) and C(started_ticks). It fits into O(watched).
  returned: always, except in check mode
  type: dict
kind:
  description: Always V(gates).
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
seconds:
  description: Time for the whole ladder.
  returned: always, except in check mode
  type: float
log_tail:
  description: Last lines of the log, keys masked.
  returned: on failure
  type: list
  elements: str
resume:
  description: State for the next slice.
  returned: from the module itself, not through the action plugin
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_gate
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_gate.INTERFACE), pd_gate.answer)


if __name__ == "__main__":
    main()

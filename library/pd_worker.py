#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

DOCUMENTATION = r"""
module: pd_worker
short_description: Register a worker with a router, or take it out
version_added: 0.1.0
description:
  - Brings the registry of an SGLang router into a state, and waits until the router acts on it.
  - A router that started long before an engine forgets it for ever after C(--worker-startup-timeout-secs); this registers it.
    An engine that is to be restarted alone is taken out first, since one that drains still takes requests.
  - Running requests of a worker that is taken out end as usual (measured with sglang-router 0.3.2). A worker that is
    registered again begins with a closed circuit breaker.
  - Runs on the router's machine.
author:
  - the pdops authors (@pdops)
attributes:
  check_mode:
    description: Looks at the registry and says what would be done.
    support: full
  diff_mode:
    description: Nothing in a file is changed.
    support: none
  action:
    description: The action plugin of the same name says who does this.
    support: full
options:
  router_url:
    description: Address of the router.
    type: str
    required: true
  url:
    description: Address of the worker, as the router reaches it.
    type: str
    required: true
  role:
    description: What the worker is.
    type: str
    choices: [prefill, decode]
    required: true
  state:
    description: V(present) registers the worker and waits until the router calls it healthy; V(absent) takes it out.
    type: str
    choices: [present, absent]
    default: present
  least:
    description: With V(absent), how many other healthy workers of this role the router must be left with; it is refused otherwise.
    type: int
    default: 0
  bootstrap_port:
    description: Bootstrap port of a prefill; needed to register one.
    type: int
  wait_s:
    description: Seconds that the router may take.
    type: float
    default: 60
  api_key_file:
    description: File on the machine, mode 0600, that holds the router's API key.
    type: path
  change_id:
    description: Id of the open change that this belongs to. The step is written into its record before its effect.
    type: str
  instance:
    description: Name of the router's instance in the record of the change, or in the journal.
    type: str
  actor:
    description: Who does this, for the journal where there is no O(change_id). The action sets this.
    type: str
    default: ""
  state_dir:
    description: Folder in which pdops keeps changes, and the journal that has what is done without one.
    type: path
    default: /var/lib/pdops
seealso:
  - module: pdops.sglang.pd_gate
  - module: pdops.sglang.pd_instance
"""

EXAMPLES = r"""
- name: Take the decode out of the router before it is restarted alone
  pdops.sglang.pd_worker:
    router_url: http://127.0.0.1:8000
    url: http://127.0.0.1:30001
    role: decode
    state: absent

- name: Register a prefill that the router has forgotten
  pdops.sglang.pd_worker:
    router_url: http://127.0.0.1:8000
    url: http://127.0.0.1:30000
    role: prefill
    bootstrap_port: 8998
"""

RETURN = r"""
cut_off:
  description: The machine was not reached any more, which the action plugin makes a failure of.
  returned: when it was not
  type: bool
before:
  description: The workers that the router had.
  returned: success
  type: list
  elements: dict
  sample: [{id: a2cfdb38-8a4f-42dd-b607-6c62e7257bb8, url: "http://127.0.0.1:30001", role: decode, healthy: true, bootstrap_port: null}]
after:
  description: The workers that the router has now; in check mode those that it had.
  returned: success
  type: list
  elements: dict
seconds:
  description: How long it took.
  returned: success
  type: float
workers:
  description: The workers that the router had when the wait ended.
  returned: when the router did not come to it in time
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_worker
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_worker.INTERFACE), pd_worker.answer)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

DOCUMENTATION = r"""
module: pd_instance
short_description: Start, stop, restart or look at one instance
version_added: 0.1.0
description:
  - Controls the unit of one prefill, decode or router instance through systemd or supervisor.
  - A stop is proven. The service manager sends SIGTERM, the instance gets O(drain_s) to finish its requests, what is
    still there afterwards is killed, and the module returns only when no process of the unit is left
    and its ports are free.
  - A start waits until the process exists and watches it for a second. It does not wait until the model
    is loaded, that is the work of M(pdops.sglang.pd_gate).
  - A process that does not belong to the unit but holds one of its ports is named and never killed.
options:
  unit:
    description: Name of the systemd unit, or of the supervisor program (NAME or GROUP:NAME).
    type: str
    required: true
  manager:
    description: Service manager that runs the unit.
    type: str
    choices: [systemd, supervisor]
    default: systemd
  supervisor_config:
    description:
      - Path of the supervisord.conf on the machine, from which the socket and the login are taken.
      - If not set, C(/etc/supervisord.conf) and C(/etc/supervisor/supervisord.conf) are tried.
      - Used only with O(manager=supervisor).
    type: path
  state:
    description:
      - V(started) and V(stopped) do nothing when it is so already. V(restarted) always stops and starts.
      - V(status) only looks, and lists the processes of the unit in RV(processes).
    type: str
    choices: [started, stopped, restarted, status]
    default: status
  drain_s:
    description:
      - Seconds between SIGTERM and SIGKILL. SGLang itself drains without any limit.
      - A shorter C(TimeoutStopSec) or C(stopwaitsecs) of the unit wins.
    type: float
    default: 30
  idle_first:
    description:
      - Before a stop, wait until C(/v1/loads) counts no request any more; this and the stop take at most O(drain_s) together, and 5 seconds.
      - For an instance that was taken out of its routers.
    type: bool
    default: false
  url:
    description: Address of the instance. Its port must be free after a stop and before a start.
    type: str
  metrics_url:
    description: Address of a router's metrics, to count the requests that it works on when it is stopped.
    type: str
  api_key_file:
    description: File on the machine, mode 0600, with the key that an engine wants before it tells its load.
    type: path
  change_id:
    description:
      - Id of the open change that this belongs to. The step is written into its record before its effect, and renews its lease.
      - Refused when that change has ended, so that a late start or stop has no effect.
    type: str
  instance:
    description: Name of the instance in the record of the change, or in the journal. The unit's name if not set.
    type: str
  actor:
    description: Who does this, for the journal where there is no O(change_id). The action sets this.
    type: str
    default: ""
  budget_s:
    description: Seconds that this step and what it needs afterwards (a load) may take before the guard of the change acts.
    type: float
    default: 120
  state_dir:
    description: Folder in which pdops keeps changes, and the journal that has what is done without one.
    type: path
    default: /var/lib/pdops
  ports:
    description: More ports of the instance that must be free, for example the bootstrap port of a prefill.
    type: list
    elements: int
    default: []
attributes:
  check_mode:
    description: Says in RV(ignore:changed) what a run would do, and touches nothing.
    support: full
  diff_mode:
    description: There is no file to compare.
    support: none
  action:
    description: Has an action plugin on the controller that says what is waited for while a stop drains.
    support: full
seealso:
  - module: pdops.sglang.pd_gate
author:
  - the pdops authors (@pdops)
"""

EXAMPLES = r"""
- name: Look at the decode
  pdops.sglang.pd_instance:
    unit: sglang-dsv4-decode.service
  register: decode

- name: Restart it, and give running requests at most 20 seconds
  pdops.sglang.pd_instance:
    unit: sglang-dsv4-decode.service
    state: restarted
    drain_s: 20
    url: http://127.0.0.1:30001

- name: Stop a prefill that supervisord runs
  pdops.sglang.pd_instance:
    unit: prefill
    manager: supervisor
    supervisor_config: /etc/supervisord.conf
    state: stopped
    url: http://127.0.0.1:30000
    ports: [8998]
"""

RETURN = r"""
cut_off:
  description: The machine was not reached any more, which the action plugin makes a failure of.
  returned: when it was not
  type: bool
before:
  description: The unit before the task.
  returned: always, except when there is no such unit
  type: dict
  contains:
    unit:
      description: Name of the unit.
      type: str
    state:
      description: One of active, activating, deactivating, inactive and failed.
      type: str
    pid:
      description: Main process, or none.
      type: int
    started_ticks:
      description: Start of the main process in clock ticks since boot. Pid and ticks name one process for ever.
      type: int
    age_s:
      description: Seconds since the main process started.
      type: float
    result:
      description: What the service manager says of the last run.
      type: str
    exit_code:
      description: Exit code of the last main process that ended, minus the number of the signal if one ended it.
      type: int
    detail:
      description: State in the words of the service manager.
      type: str
  sample: {unit: decode, state: active, pid: 4711, started_ticks: 123456, age_s: 12.5, detail: RUNNING}
after:
  description: The unit after the task, with the same fields as RV(before). In check mode it is the state before.
  returned: always, except when there is no such unit
  type: dict
  sample: {unit: decode, state: active, pid: 4801, started_ticks: 124999, age_s: 1.0, detail: RUNNING}
processes:
  description: All processes of the unit, keys on command lines masked.
  returned: O(state=status)
  type: list
  elements: dict
  sample: [{pid: 4711, ppid: 1, started_ticks: 123456, age_s: 12.5, command: python -m sglang.launch_server}]
killed:
  description: The main process did not end within O(drain_s) and was killed.
  returned: always, except when there is no such unit
  type: bool
leftovers:
  description: Other processes of the unit that outlived the main process and were killed.
  returned: always, except when there is no such unit
  type: list
  elements: int
requests:
  description: Requests that the instance had when the stop began, running or in a queue; none if that could not be seen.
  returned: always, except when there is no such unit
  type: int
lost:
  description: Requests that were lost because the instance was killed before they ended; none if that is not known.
  returned: always, except when there is no such unit
  type: int
kind:
  description: V(start), V(stop), V(restart) or V(look).
  returned: through the action plugin
  type: str
instance:
  description: O(instance), or O(unit).
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
  description: How long it took.
  returned: always, except when there is no such unit
  type: float
exit_code:
  description: Exit code of a process that died at once after its start.
  returned: on failure of a start
  type: int
log_tail:
  description: Last lines of the log, keys masked. Empty unless the task failed.
  returned: always, except when there is no such unit
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_instance
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_instance.INTERFACE), pd_instance.answer)


if __name__ == "__main__":
    main()

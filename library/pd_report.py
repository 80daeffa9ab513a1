#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

DOCUMENTATION = r"""
module: pd_report
short_description: Write the report of a run as one HTML page
version_added: 0.1.0
description:
  - Tells what a run did to a deployment as one self-contained HTML page, for a phone as for a desk, light and dark. It
    needs no network and no scripts.
  - Outcome first, then what failed and why, what changed, a timeline with a bar per step and gate, all gates with their
    evidence, answers of probes, versions and how to go back, and what to type next.
  - Also prints the same in three to six lines.
  - All of the work is done by the action plugin of the same name on the controller; no machine is touched.
  - Secrets are masked in every text and under every telling name. Control characters are taken out, and everything is escaped.
  - A report that cannot be written is a warning and never a failure, so that it cannot undo a good change.
options:
  story:
    description:
      - What happened. Any part may be missing; the page then says less.
      - C(deployment), C(verb), C(who), C(change_id), C(said), C(command) (as the operator typed it) are texts; C(began) and
        C(ended) are seconds since the epoch or ISO 8601.
      - C(outcome) is one of C(confirmed), C(rolled-back), C(rollback-failed), C(failed), C(refused), C(nothing), C(passed) (a probe) and C(check).
      - C(plan) is RV(pdops.sglang.pd_plan#module:plan), C(debt) is RV(pdops.sglang.pd_record#module:debt).
      - C(instances) is a list of C(name), C(role), C(machine), C(unit), C(url).
      - C(events) is a list of C(kind) (V(begin), V(apply), V(drain), V(stop), V(start), V(gates), V(readd), V(probe), V(confirm),
        V(rollback)), C(instance), C(machine), C(began), C(ended), C(result) (V(ok), V(failed), V(unreachable)) and C(said), and where
        they apply C(gates) as RV(pdops.sglang.pd_gate#module:gates), C(lost) (number of requests), C(versions) as C(applied) of
        M(pdops.sglang.pd_change), C(answers) and C(conversation) of M(pdops.sglang.pd_probe), C(log_tail), and of a rollback C(steps) of
        M(pdops.sglang.pd_change).
      - With C(simulation) the page says that its figures are those of simulated engines. It knows the lab's engines by itself.
    type: dict
    required: true
  folder:
    description:
      - Where to write, on the controller; relative to the current directory. It is made when it is not there.
      - Not beside the inventory, since Ansible would read a report in an inventory folder as an inventory.
      - If not set, C(reports/) and the name of the deployment.
    type: path
  quiet:
    description: Print only where the report is.
    type: bool
    default: false
attributes:
  check_mode:
    description: Writes the report also then, since it tells of the check. Nothing on a machine changes, so it never reports a change.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
notes:
  - Use the full name M(pdops.sglang.pd_report). The action plugin needs it.
seealso:
  - module: pdops.sglang.pd_plan
  - module: pdops.sglang.pd_gate
  - module: pdops.sglang.pd_change
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine.controller
"""

EXAMPLES = r"""
- name: Write the report
  pdops.sglang.pd_report:
    story: "{{ change_story }}"
    folder: "{{ pd_report_dir | default('reports') }}/{{ change_deployment }}"
"""

RETURN = r"""
path:
  description: The report, named by time, verb and change id. Empty when it could not be written.
  returned: always
  type: str
  sample: /home/op/reports/dsv4/20261129T200613Z-restore-20261129T200613-restore-0064ef.html
latest:
  description: The same page under a name that stays, V(latest.html).
  returned: always
  type: str
lines:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
warning:
  description: Why no report was written, otherwise empty.
  returned: always
  type: str
"""

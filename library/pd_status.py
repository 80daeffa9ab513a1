#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_status
short_description: Show the instances of a deployment on one machine and every place of their knobs
version_added: 0.1.0
description:
  - For each instance the state of its unit, its serve script with the newest stored version, and its knobs. For each
    knob the value that the next start gives to the engine, the place that decides it, all other places, and what the
    running process has.
  - Places are the serve script (exports in whatever state), the unit file and its drop-ins (C(Environment=)),
    C(EnvironmentFile=), C(PassEnvironment=), C(UnsetEnvironment=) and the service manager's own environment, or with
    supervisor C(environment=) of the program and of supervisord and supervisord's own environment. They are read with
    the rules of systemd, supervisor and bash; no script is run.
  - Changes nothing. Values of knobs with secret-looking names are masked. A file that cannot be read is reported as
    not readable, and what it may set is never reported as absent.
  - Its action plugin prints the state at once.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
  - pdops.sglang.machine.looks
  - pdops.sglang.machine.prints
  - pdops.sglang.machine.everyone
options:
  knob:
    description:
      - Name of one knob to show with all its places, also where nothing sets it.
      - Without it the knobs of the script and of the unit's own files are shown.
    type: str
  instance:
    description: Names of the instances to show, separated by commas or as a list; all when left out.
    type: raw
  role:
    description: The role of the instances to show; all when left out.
    type: str
    choices: [prefill, decode, router]
"""

EXAMPLES = r"""
- name: Show where one knob comes from on the machine of this deployment
  pdops.sglang.pd_status:
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
    knob: SGLANG_SM120_MMA_TARGET_CTAS
    role: decode
  delegate_to: dsv4-decode
"""

RETURN = r"""
instances:
  description: One report per instance, by its name.
  returned: success
  type: dict
  contains:
    role:
      description: The instance's role.
      type: str
      returned: always
    unit:
      description: Name, state, the manager's words, pid and age in seconds of the main process.
      type: dict
      returned: when the unit is known
    script:
      description:
        - Path, sha256, newest stored version, whether the script still is that one (RV(ignore:is_newest)), findings, and
          RV(ignore:error) when it cannot be read.
      type: dict
      returned: when the unit is known
    environment:
      description:
        - Whether all of the unit's environment could be read (RV(ignore:complete)), the files of C(EnvironmentFile=) with
          V(read), V(absent) or V(not readable), sentences on what could not be read, and notes.
      type: dict
      returned: when the unit is known
    kernels:
      description:
        - The kernel package that the script selects, V(null) for none. C(folder), C(version), C(there) (whether the folder is),
          C(records) of the plugin by process (C(state), C(package), C(policy), C(plans), C(fallbacks)), and C(said).
      type: dict
      returned: when the unit is known
    knobs:
      description:
        - One entry per knob. RV(ignore:value) is what the next start gives to the engine, RV(ignore:decided) is V(script), V(unit),
          V(run) (only known when the script runs) or V(nowhere), RV(ignore:place) is where the value stands.
        - RV(ignore:running) is what the process has, with the evidence; RV(ignore:remarks) are codes (V(stale), V(overridden),
          V(shadowed), V(from-unit), V(conditional), V(dead), V(commented), V(removed), V(pending), V(not-readable),
          V(not-observable) and others) with sentences; RV(ignore:places) are all places with kind, path, line, value and state
          (V(doubted) when a source that could not be read may override it).
      type: list
      elements: dict
      returned: when the unit is known
    error:
      description: Why the instance could not be looked at.
      type: str
      returned: when it could not
open_change:
  description: The change that is open on this machine for these instances.
  returned: success
  type: dict
lines:
  description: The state as it is printed.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.asked import read_asked
from ..module_utils.deployment import instance_from_dict
from ..module_utils.knobs import check_name
from ..module_utils.machine_arguments import EVERYONE, MACHINE
from ..module_utils.pdops_error import PdopsError
from ..module_utils.unit_environment.report import status_of
from ..module_utils.unit_environment.status_text import status_lines


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **MACHINE,
            "knob": {"type": "str"},
            "instance": {"type": "raw"},
            "role": {"type": "str", "choices": ["prefill", "decode", "router"]},
            **EVERYONE,
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        here = [instance_from_dict(item) for item in given["instances"]]
        everyone = [instance_from_dict(item) for item in given["all_instances"]] or here
        asked = read_asked("verify", {"instance": given["instance"], "role": given["role"]}, everyone)
        knob = check_name(given["knob"]) if given["knob"] else None
        found = status_of([item for item in here if asked.wants(item)], given["state_dir"], knob)
        module.exit_json(changed=False, lines=status_lines(found, knob), **found)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)


if __name__ == "__main__":
    main()

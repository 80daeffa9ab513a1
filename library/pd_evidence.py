#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_evidence
short_description: Read what a machine can tell for the record
version_added: 0.1.0
description:
  - Reads the fingerprint that evidence about a knob holds for, which is the packages that the running processes really use (version,
    every file against the package's RECORD, the commit of a checkout), the version and model that the engines tell, the
    arguments of the processes, GPUs and driver.
  - Reads the changes that the journal of the machine has, so that M(pdops.sglang.pd_record) can compare them with the record.
  - The knobs are no part of a fingerprint. What cannot be seen is reported as V(not observable), and is then never compared.
  - Changes nothing. Secrets in arguments are masked.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
  - pdops.sglang.machine.looks
seealso:
  - module: pdops.sglang.pd_record
"""

EXAMPLES = r"""
- name: Read what this machine can tell for the record
  pdops.sglang.pd_evidence:
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
  delegate_to: dsv4-decode
  register: told
"""

RETURN = r"""
fingerprint:
  description: Texts by name.
  returned: success
  type: dict
  sample:
    decode sglang: 0.5.23, files as installed
    decode arguments: --model-path /models/dsv4 --tp-size 4
    driver: 580.82.07
    gpu: 8 x NVIDIA B200
changes:
  description: Changes of these instances that have ended, the oldest first, at most 200.
  returned: success
  type: list
  elements: dict
findings:
  description:
    - What the journal of the machine has as found by V(verify) or V(probe), the oldest first, at most 100. RV(ignore:entry) is the id of
      the entry of the record.
  returned: success
  type: list
  elements: dict
trouble:
  description: Sentences about records of changes that cannot be read.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_evidence
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_evidence.INTERFACE), pd_evidence.answer)


if __name__ == "__main__":
    main()

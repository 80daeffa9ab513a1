#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors

from __future__ import annotations

DOCUMENTATION = r"""
module: pd_journal
short_description: Keep in the journal of a machine what was found there
version_added: 0.1.0
description:
  - Appends one line to the journal of a machine, for verbs that only look. What changes something writes its lines there itself.
  - What the newest line about the same place says already is not written again, until it was over or a change was confirmed or
    rolled back in between.
  - Never reports a change, since nothing but the journal differs. Secrets in texts are masked.
author:
  - the pdops authors (@pdops)
extends_documentation_fragment:
  - pdops.sglang.machine
attributes:
  check_mode:
    description: Writes nothing then.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  verb:
    description: V(found) is something that does not hold, V(over) ends all that O(by) had found here.
    type: str
    choices: [found, over]
    required: true
  by:
    description: The verb of pdops that found it.
    type: str
    required: true
  deployment:
    description: Name of the deployment.
    type: str
    required: true
  actor:
    description: Who ran the verb, and on which host.
    type: str
    default: ""
  instance:
    description: The instance that it is about.
    type: str
    default: ""
  found:
    description: What was found, in a word or two, as C(gate health).
    type: str
    default: ""
  said:
    description: The same in one sentence.
    type: str
    default: ""
  entry:
    description: Id of the entry of the record that tells it.
    type: str
    default: ""
seealso:
  - module: pdops.sglang.pd_record
  - module: pdops.sglang.pd_evidence
"""

EXAMPLES = r"""
- name: Keep that a gate failed
  pdops.sglang.pd_journal:
    verb: found
    by: verify
    deployment: dsv4
    instance: dsv4-decode
    found: gate health
    said: "{{ gates.msg }}"
    instances: "{{ hostvars | pdops.sglang.instances('dsv4', groups=groups) }}"
  delegate_to: dsv4-decode
"""

RETURN = r"""
noted:
  description: Whether a line was written, or would be.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ..module_utils.machine_calls import pd_journal
from ..module_utils.machine_calls.ending import end


def main() -> None:
    end(AnsibleModule(**pd_journal.INTERFACE), pd_journal.answer)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A filter that finds changes which hold on one machine and not on another."""

from __future__ import annotations

DOCUMENTATION = r"""
name: splits
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: Changes that hold on one machine of a deployment and not on another
description:
  - Compares what M(pdops.sglang.pd_recover) says of each machine. A later change that was confirmed everywhere settles an older one.
options:
  _input:
    description: Results of M(pdops.sglang.pd_recover), each with C(change_machine), the name of its machine.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what does not belong together
  ansible.builtin.debug:
    msg: "{{ change_survey.results | pdops.sglang.splits | map(attribute='lines') | flatten }}"
"""

RETURN = r"""
_value:
  description:
    - The newest first, each with C(id), C(confirmed) and C(not_confirmed) (names of machines), C(content) of its scripts,
      C(is_open), and C(lines) for a person.
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.change.split import splits


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"splits": splits}

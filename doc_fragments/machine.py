# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Options and attributes that several modules share; the options' types are in ``module_utils/machine_arguments.py``."""

from __future__ import annotations


class ModuleDocFragment:
    # Of a module that works on one machine's instances.
    DOCUMENTATION = r"""
options:
  instances:
    description:
      - Instances of one deployment that share the machine on which the module runs, in start order,
        as the filter P(pdops.sglang.instances#filter) returns them.
    type: list
    elements: dict
    required: true
  state_dir:
    description:
      - Folder on the machine in which pdops keeps versions, changes and its journal; private to the user who runs this.
    type: path
    default: /var/lib/pdops
"""

    # Of a module that needs only the folder. Written out again: ansible-test reads string literals only.
    STATE = r"""
options:
  state_dir:
    description:
      - Folder on the machine in which pdops keeps versions, changes and its journal; private to the user who runs this.
    type: path
    default: /var/lib/pdops
"""

    # Of a module that takes words which name instances of the whole deployment.
    EVERYONE = r"""
options:
  all_instances:
    description:
      - All instances of the deployment, also those on other machines, to check names against that somebody typed.
      - If not set, those in O(instances).
    type: list
    elements: dict
    default: []
"""

    # Of a module that only looks.
    LOOKS = r"""
attributes:
  check_mode:
    description: Runs in check mode just the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

    # Of a module whose action plugin checks words and prints lines.
    PRINTS = r"""
attributes:
  action:
    description: The action plugin of the same name checks what was asked for, and prints what the module finds.
    support: full
"""

    # Of a module whose action plugin asks it slice by slice until something is decided.
    WAITS = r"""
options:
  slice_s:
    description: Time that one call on the machine waits before it reports back.
    type: float
    default: 2
attributes:
  diff_mode:
    description: Nothing is changed.
    support: none
  action:
    description: Has an action plugin on the controller that waits and prints.
    support: full
"""

    # Of an action without a module.
    CONTROLLER = r"""
attributes:
  action:
    description: The work is done by the action plugin of the same name on the controller; there is no module to send to a machine.
    support: full
"""

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Options that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
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
      - Folder on the machine in which pdops keeps versions, changes and its journal.
    type: path
    default: /var/lib/pdops
"""

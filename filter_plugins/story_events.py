# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A filter that keeps of results of tasks what a change's report tells."""

from __future__ import annotations

DOCUMENTATION = r"""
name: story_events
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: Events of a change, out of the results of its tasks
description:
  - Keeps of each result what a report shows - when it began and ended, whether it went well, gates, lost requests, the log.
  - Results of skipped tasks, and of tasks that do not tell when they began, give no event.
options:
  _input:
    description: Results as registered; that of a loop counts as those of its items.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep how long the stops took
  ansible.builtin.set_fact:
    change_events: "{{ change_events + (change_step.results | pdops.sglang.story_events) }}"
"""

RETURN = r"""
_value:
  description: One dictionary per event, with C(kind), C(instance), C(machine), C(began), C(ended), C(result), C(said) and more.
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled
from ansible_collections.pdops.sglang.plugins.module_utils.story_events import events_of


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"story_events": events_of}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A filter that names playbooks as the operator of this run types them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: as_typed
author:
  - the pdops authors (@pdops)
version_added: 0.1.0
short_description: Sentences with playbooks named as this run's operator types them
description:
  - In the repo one types C(restart.yml), with the collection installed C(pdops.sglang.restart). What a role says to people goes through this,
    since it may name a playbook, or repeat a sentence that does.
  - A run that was started by the name of a playbook of the collection gets such names; any other text is returned as it is.
options:
  _input:
    description: A text, or a list of texts.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Say what to type
  ansible.builtin.debug:
    msg: "{{ 'see verify.yml' | pdops.sglang.as_typed }}"
"""

RETURN = r"""
_value:
  description: The same, with names of playbooks as they are typed.
  type: raw
"""

from typing import Any

from ansible import context
from ansible_collections.pdops.sglang.plugins.module_utils import as_typed as words
from ansible_collections.pdops.sglang.plugins.module_utils import bytecode  # noqa: F401 - what is imported after it is kept compiled


def as_typed(said: Any) -> Any:
    """See DOCUMENTATION. What is no text stays what it is."""
    if isinstance(said, list):
        return [as_typed(one) for one in said]
    return words.as_typed(said, context.CLIARGS.get("args", ())) if isinstance(said, str) else said


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"as_typed": as_typed}

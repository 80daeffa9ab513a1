# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Ends a module with what its work answers, the same way for all modules of this room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..pdops_error import PdopsError

#: Takes the module's parameters and whether it only looks; its result may carry ``warnings``, and a ``diff`` where one is shown.
Answer = Callable[[dict[str, Any], bool], dict[str, Any]]


def end(module: Any, answer: Answer) -> None:
    """Exit with the answer, or fail with the sentence and the details of a :class:`PdopsError`.

    :param module: an ``AnsibleModule``
    """
    try:
        result = answer(module.params, module.check_mode)
    except PdopsError as error:
        module.fail_json(msg=str(error), **error.details)
    if not module._diff:
        result.pop("diff", None)
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Sentences name playbooks as the repo has them (``restart.yml``); of the installed collection one types ``pdops.sglang.restart``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Union

COLLECTION = "pdops.sglang."
PLAYBOOKS = (
    "deploy",
    "deploy_kernels",
    "history",
    "probe",
    "record",
    "recover",
    "register_worker",
    "restart",
    "restore_knob",
    "revert_knob",
    "rollback",
    "set_knob",
    "status",
    "verify",
)
_NAMED = re.compile(rf"(?<![\w/.-])({'|'.join(PLAYBOOKS)})\.yml(?![\w/]|\.\w)")


def by_collection(typed: Union[str, Iterable[str]]) -> bool:
    """Whether a run was started by the name of a collection's playbook; ``typed`` are the arguments of its command."""
    return any(word.startswith(COLLECTION) for word in ([typed] if isinstance(typed, str) else typed))


def as_typed(text: str, typed: Union[str, Iterable[str]]) -> str:
    """The sentence with each playbook as this run's operator would type it."""
    return _NAMED.sub(rf"{COLLECTION}\1", text) if by_collection(typed) else text


def result_as_typed(result: Mapping[str, Any], typed: Union[str, Iterable[str]]) -> dict[str, Any]:
    """A task's result with its sentences (``msg``, ``said``) so; what is data is left alone."""
    found = dict(result)
    for name in ("msg", "said"):
        if isinstance(found.get(name), str):
            found[name] = as_typed(found[name], typed)
    return found

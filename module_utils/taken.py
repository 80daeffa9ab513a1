# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Which extra variables a verb takes. One that it would ignore is refused: whoever types it believes that it counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .asked import PARAMETERS, check_extra_names
from .pdops_error import PdopsError

_OF_ANY_CHANGE = ("take_over", "overlap", "probe", "reason", "docs")
_WHERE = ("instance", "role")
_PROBE = (
    *("hop", "rounds", "requests", "series", "model", "max_tokens", "require_echo"),
    *("first_byte_s", "gap_s", "request_s", "timeout_s", "proxy_url"),
)
#: By verb, as the operator calls it.
TAKEN: dict[str, tuple[str, ...]] = {
    "restore_knob": (
        *("knob", "value", "from", *_WHERE, "scope", "expect_only", "one_sided"),
        *_OF_ANY_CHANGE,
    ),
    "set_knob": ("knob", "value", "state", *_WHERE, "scope", "one_sided", "new_knob", *_OF_ANY_CHANGE),
    "revert_knob": (
        *("knob", "value", "from", *_WHERE, "scope", "expect_only", "one_sided", "review_by"),
        *_OF_ANY_CHANGE,
    ),
    "restart": (*_WHERE, "scope", *_OF_ANY_CHANGE),
    "verify": ("docs",),
    "rollback": ("change", "expect_only", *_OF_ANY_CHANGE),
    "deploy": ("take", "scope", *_OF_ANY_CHANGE),
    "deploy_kernels": (*_WHERE, "scope", "kernel_wheel", "kernel_sha256", *_OF_ANY_CHANGE),
    "recover": ("finish", "take_over", "overlap", "probe"),
    "status": ("knob", *_WHERE),
    "history": ("knob", *_WHERE),
    "probe": _PROBE,
    "register_worker": (),
}
_NAMES = {"restore": "restore_knob", "set": "set_knob", "revert": "revert_knob", "kernels": "deploy_kernels"}
_CHOICES = {"hop": ("proxy", "router", "pair"), "series": ("kept", "fresh")}
#: What else a verb is for, where a word that it does not take is likely to be tried.
_HINTS = {
    "verify": "it proves the whole deployment; status.yml shows one instance or role",
    "register_worker": "it registers all engines that a router lacks; -l DEPLOYMENT limits it",
}


def check_slips(verb: str, extra: Mapping[str, Any]) -> None:
    """Refuse what looks like a slip of the pen for a word that the verb, or any other, takes."""
    check_extra_names(extra, TAKEN[_NAMES.get(verb, verb)])


def check_taken(verb: str, extra: Mapping[str, Any]) -> None:
    """Refuse what a verb does not take, and what looks like a slip of the pen for what it takes.

    :param verb: as in ``asked.VERBS``, or the name of a playbook
    :param extra: the extra variables as they were typed; an empty one counts as none, as forms and surveys give it
    :raises PdopsError: with what the verb takes
    """
    name = _NAMES.get(verb, verb)
    takes = TAKEN[name]
    check_slips(verb, extra)
    for word, value in extra.items():
        if word in PARAMETERS and word not in takes and value not in (None, "", []):
            hint = _HINTS.get(name) or f"it takes {_listed([f'{one}=' for one in takes])}"
            raise PdopsError(f"{name} takes no {word}=; {hint}.")
    for word in takes:
        if word in _CHOICES and extra.get(word) not in (None, "", []):
            given = extra[word] if isinstance(extra[word], (list, tuple)) else str(extra[word]).split(",")
            for one in given:
                if str(one).strip() not in _CHOICES[word]:
                    raise PdopsError(f"{word}={one} is unknown; it must be one or more of {', '.join(_CHOICES[word])}.")


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

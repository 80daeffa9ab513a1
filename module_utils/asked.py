# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What an operator asked for on the command line, checked before anything is looked at."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from . import knobs
from .deployment import ROLES, Instance
from .pdops_error import PdopsError

VERBS = ("restore", "set", "revert", "restart", "verify", "recover", "rollback", "deploy", "kernels")
TAKES = ("host", "vars")
SCOPES = ("co", "decode", "router", "rolling")


@dataclass(frozen=True)
class Asked:
    """A verb with what narrows it.

    ``value`` is None when not given, and may be empty for ``set``; ``unset`` asks to take the knob off. ``source`` is what ``from=``
    named: a version (sha256 prefix of 6 or more, label, ``previous``) or a backup (label, file name, path).
    ``pair_knobs`` are the names in the inventory's ``pd_pair_knobs``.
    """

    verb: str
    knob: str | None = None
    value: str | None = None
    unset: bool = False
    source: str | None = None
    instances: tuple[str, ...] = ()
    role: str | None = None
    scope: str | None = None
    expect_only: bool = True
    change: str | None = None
    overlap: bool = False
    take: str | None = None
    one_sided: bool = False
    new_knob: bool = False
    pair_knobs: tuple[str, ...] = ()
    #: The ``-l`` that named the instances; empty when ``instance=`` did.
    limit: str = ""
    #: Of the verb of that name: ``package`` in words, and ``knobs``, by instance, that select it.
    kernels: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "instances": list(self.instances), "pair_knobs": list(self.pair_knobs)}

    def named_by(self, names: Iterable[str]) -> str:
        """How the operator named these instances."""
        return f"-l {self.limit}" if self.limit else f"instance={','.join(names)}"

    def wants(self, instance: Instance) -> bool:
        """Whether ``instance=`` and ``role=`` let this instance through."""
        if self.instances and instance.name not in self.instances:
            return False
        return self.role is None or instance.role == self.role


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    return None if value is None or value == "" else str(value)


_TEMPLATE = re.compile(r"\{[{%#]")


def _flag(given: Mapping[str, Any], key: str, default: bool) -> bool:
    value = given.get(key)
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("yes", "true", "1", "on"):
        return True
    if str(value).lower() in ("no", "false", "0", "off"):
        return False
    raise PdopsError(f"{key}={value} is not yes or no.")


#: What an operator may give with -e; other names are the inventory's and the roles' affair.
PARAMETERS = (
    "knob",
    "value",
    "from",
    "instance",
    "role",
    "scope",
    "state",
    "expect_only",
    "take_over",
    "take",
    "overlap",
    "one_sided",
    "new_knob",
    "probe",
    "finish",
    "change",
    "reason",
    "review_by",
    "docs",
)


#: Words whose value is a sentence, so that it is likely to be the one that a blank cut.
_SENTENCES = ("reason", "cause", "said")


def check_extra_names(names: Iterable[str], more: Iterable[str] = ()) -> None:
    """Refuse an extra variable that looks like a slip of the pen for one of ``PARAMETERS`` or ``more``, and one that names
    a knob of SGLang itself; Ansible would ignore it."""
    known = (*PARAMETERS, *more)
    names = list(names)
    for name in names:
        if name == "_raw_params":
            word = next((one for one in names if one in _SENTENCES), "value")
            raise PdopsError(
                f'a value with a blank was cut by -e: give it as JSON, for instance -e \'{{"{word}": "a b"}}\', or quote it twice.'
            )
        if re.fullmatch(r"SGLANG_[A-Z0-9_]+", name):
            raise PdopsError(f"-e {name}= sets no knob; type -e knob={name} -e value=VALUE.")
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        if name not in known and close:
            raise PdopsError(f"-e {name}= is unknown; did you mean {close[0]}=?")


def check_templates(extra: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse a parameter of the command line that Ansible took for a template and evaluated, or failed to, before we
    could see it.

    :param extra: the extra variables as they were typed
    :param given: the parameters as they came out of Ansible
    """
    for name in PARAMETERS:
        typed = extra.get(name)
        if isinstance(typed, str) and _TEMPLATE.search(typed) and given.get(name) != typed:
            raise PdopsError(
                f"-e {name}= holds a template ({{{{, {{% or {{#), which Ansible evaluates before anybody else sees it: "
                "type the text that is meant; a text that itself has such braces can only be edited in by hand."
            )


def check_typed(typed: Iterable[str]) -> None:
    """Refuse ``-e value=``: an empty value is as often a shell variable that was not set.

    :param typed: each ``-e`` as it was typed
    """
    for text in typed:
        if not text.lstrip().startswith(("@", "{", "[")) and re.search(r"(?:^|\s)value=(?:\s|$)", text):
            raise PdopsError(
                '-e value= has no value; to set a knob to the empty text type -e \'{"value": ""}\', '
                "to take it off -e state=absent."
            )


def limit_of(extra: Mapping[str, Any], variables: Mapping[str, Any] | None) -> str:
    """The ``-l`` that names instances for a run to which none was given with ``-e``; empty when there is none."""
    return "" if extra.get("instance") else str((variables or {}).get("ansible_limit") or "")


def read_asked(verb: str, given: Mapping[str, Any], instances: list[Instance], limit: str = "") -> Asked:
    """Check the extra variables of a playbook: ``knob value from instance role scope state expect_only change``.

    :param limit: of :func:`limit_of`; what is refused is told in the words that were typed

    Raises :class:`PdopsError` with what to type for unknown names and for combinations without meaning.
    """
    if verb not in VERBS:
        raise PdopsError(f"verb {verb!r} is unknown; it must be one of {', '.join(VERBS)}.")
    wanted = _instances(given.get("instance"), instances)
    role = _text(given, "role")
    if role is not None and role not in ROLES:
        raise PdopsError(f"role={role} is unknown; it must be prefill, decode or router.")
    if role is not None and not any(item.role == role and (not wanted or item.name in wanted) for item in instances):
        named = f"-l {limit}" if limit else f"instance={','.join(wanted)}"
        told = f"role={role} and {named} have nothing in common" if wanted else f"no instance has role={role}"
        raise PdopsError(f"{told}; instances: {', '.join(f'{item.name} ({item.role})' for item in instances)}.")
    scope = _text(given, "scope")
    if scope is not None and scope not in SCOPES:
        raise PdopsError(
            f"scope={scope} is unknown; it must be co (prefill, decode and router), decode, router or rolling (one at a time)."
        )
    knob = _text(given, "knob")
    state = _text(given, "state") or "present"
    raw = given.get("value")
    if raw == "" and not (verb == "set" and state == "present"):
        raw = None  # forms and surveys give what was left out as an empty text
    if state not in ("present", "absent"):
        raise PdopsError(f"state={state} is unknown; it must be present or absent.")
    if knob is not None:
        # `knob=NAME=VALUE` is what people type from memory.
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", knob)
        if match:
            knobs.refuse_secret(match[1])
            raise PdopsError(f"knob={knob} holds a value; type -e knob={match[1]} -e value={match[2]}.")
        knobs.check_name(knob)
        knobs.refuse_secret(knob)
    if raw not in (None, "") and knob is None:
        raise PdopsError("value= was given without a knob; add -e knob=NAME.")
    value = None if knob is None else knobs.check_value(knob, raw)
    if verb == "set":
        if knob is None:
            raise PdopsError(
                "set_knob needs a knob; type -e knob=NAME -e value=VALUE, or -e knob=NAME -e state=absent to take it off."
            )
        if value is None and state == "present":
            raise PdopsError(
                f'set_knob needs a value for {knob}; add -e value=VALUE (the empty one: -e \'{{"value": ""}}\'), '
                "or -e state=absent to take it off."
            )
        if value is not None and state == "absent":
            raise PdopsError(f"value={value} and state=absent contradict each other; give one of them.")
    if verb == "revert" and knob is None:
        raise PdopsError("revert_knob needs a knob; type -e knob=NAME.")
    change = _text(given, "change")
    if change is not None and verb not in ("rollback", "recover"):
        raise PdopsError(f"change={change} belongs to rollback.yml; {verb} takes none.")
    if verb == "rollback" and (wanted or role or scope or _text(given, "from")):
        raise PdopsError(
            "rollback puts a whole change back; it takes change= and expect_only=, nothing that narrows it."
        )
    take = _text(given, "take")
    if take is not None and (verb != "deploy" or take not in TAKES):
        raise PdopsError(
            f"take={take} is unknown here; deploy.yml takes host (keep what the machine has) or vars (overwrite it)."
        )
    if verb == "deploy" and (wanted or role or _text(given, "from")):
        raise PdopsError(
            "deploy.yml takes the whole deployment, since its instances share what must be equal; limit it with -l DEPLOYMENT only."
        )
    if verb == "kernels" and (knob is not None or value is not None or _text(given, "from")):
        raise PdopsError(
            "deploy_kernels.yml takes no knob; further knobs of the kernels go by pd_kernel_knobs or set_knob.yml, "
            "and restore_knob.yml or rollback.yml goes back."
        )
    if verb in ("restart", "verify", "recover", "rollback", "deploy") and (knob is not None or value is not None):
        raise PdopsError(f"{verb} takes no knob; use set_knob.yml, restore_knob.yml or revert_knob.yml.")
    if verb != "restart" and scope == "router":
        raise PdopsError(
            "scope=router would leave the engines as they are, so a knob would not take effect; leave scope out or take scope=co."
        )
    return Asked(
        verb=verb,
        knob=knob,
        value=value,
        unset=verb == "set" and state == "absent",
        source=_text(given, "from"),
        instances=wanted,
        limit=limit if wanted else "",
        role=role,
        scope=scope,
        expect_only=_flag(given, "expect_only", True),
        overlap=_flag(given, "overlap", False),
        one_sided=_flag(given, "one_sided", False),
        new_knob=_flag(given, "new_knob", False),
        pair_knobs=tuple(str(name) for name in given.get("pair_knobs") or ()),
        change=change,
        take=take,
        kernels=dict(given.get("kernels") or {}) if verb == "kernels" else {},
    )


def _instances(given: Any, instances: list[Instance]) -> tuple[str, ...]:
    if given is None or given == "":
        return ()
    asked = [str(item) for item in given] if isinstance(given, (list, tuple)) else str(given).split(",")
    found = []
    for name in (item.strip() for item in asked):
        match = [item.name for item in instances if name in (item.name, item.unit)]
        if not match:
            known = ", ".join(item.name for item in instances)
            raise PdopsError(f"instance={name} is unknown here; it must be one of {known}.")
        found.append(match[0])
    return tuple(found)

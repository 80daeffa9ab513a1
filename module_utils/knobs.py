# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Names and values of knobs: what is accepted, and what is secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Optional

from .pdops_error import PdopsError
from .secret_masking import MASK, is_secret, mask_env, mask_text

__all__ = [
    "MASK",
    "check_name",
    "check_value",
    "is_secret",
    "mask_env",
    "mask_text",
    "near_name",
    "refuse_near_name",
    "refuse_secret",
]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_name(name: str) -> str:
    """The name itself, when bash can export it; else :class:`PdopsError`."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise PdopsError(
            f"{name!r} cannot be the name of a knob: use letters, digits and underscores, "
            "not beginning with a digit, as in SGLANG_LOG_MS."
        )
    return name


def check_value(name: str, value: object) -> Optional[str]:
    """The value as the text that a script exports; None (unset) stays None.

    Strings and integers are taken. What YAML made of an unquoted ``yes``, ``1.0`` or a list is refused,
    since nobody can tell what text was meant (``010`` has become 8 before we see it, so integers
    are taken as they come). NUL bytes and line ends are refused: an environment cannot hold the first,
    and a knob on several lines could not be shown or compared line by line.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise PdopsError(
            f"The value of {name} is the boolean {str(value).lower()}, and the text that was meant cannot be told "
            f'from it: quote it, for example {name}: "{int(value)}" or {name}: "{str(value).lower()}".',
        )
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise PdopsError(_not_a_text(name, value))
    if "\0" in value:
        raise PdopsError(f"The value of {name} holds a NUL character, which no environment can hold: remove it.")
    if "\n" in value:
        raise PdopsError(f"The value of {name} has a line end in it: give a knob's value on one line.")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PdopsError(
            f"The value of {name} holds characters that cannot be written as UTF-8: replace them."
        ) from None
    return str(value)


def _not_a_text(name: str, value: object) -> str:
    """The types are asked for by ``isinstance``: what comes from Ansible is of classes of its own."""
    if isinstance(value, float):
        return (
            f"The value of {name} is the number {value!s}, and how it was written (1.5, 1.50, 15e-1) cannot be told from it: "
            f'quote it, for example {name}: "{value!s}".'
        )
    kind = "something else than a text"
    for types, words in (((list, tuple), "a list"), ((dict,), "a mapping"), ((bytes,), "a sequence of bytes")):
        if isinstance(value, types):
            kind = words
    return f"The value of {name} is {kind}, and a knob is one text or a whole number: write it as one quoted text."


def near_name(name: str, known: Iterable[str], cutoff: float = 0.8) -> Optional[str]:
    """The known name that is most likely meant by one that is not known; None when none is near.

    Whether letters are large or small is no difference here: ``sglang_log_ms`` is as near to ``SGLANG_LOG_MS`` as can be.

    :param cutoff: from 0 (anything is near) to 1 (nothing but another case is)
    """
    by_folded = {one.lower(): one for one in sorted(set(known), reverse=True)}
    close = difflib.get_close_matches(name.lower(), sorted(by_folded), n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def refuse_near_name(name: str, known: Iterable[str], where: str) -> None:
    """Raise :class:`PdopsError` when a name that is not known is nearly one that is: a slip of the pen, unless it is meant.

    :param where: what does not have the name, for the sentence
    """
    names = set(known)
    close = near_name(name, names, cutoff=0.9) if name not in names else None
    if close:
        raise PdopsError(f"{name} is in {where}; did you mean {close}? If you mean {name}, add -e new_knob=yes.")


def refuse_secret(name: str) -> None:
    """Raise :class:`PdopsError` when the name looks like a secret's: parameters show in logs and in ``-vvv``."""
    if is_secret(name):
        raise PdopsError(
            f"{name} looks like a secret, and secrets are not taken as parameters, since parameters are logged: "
            "put it on the machine into the engine's --config file with mode 0600, or into the script by hand."
        )

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Names and values of knobs: what is accepted, and what is secret."""

from __future__ import annotations

import re
from typing import Optional

from .pdops_error import PdopsError
from .secret_masking import MASK, is_secret, mask_env, mask_text

__all__ = ["MASK", "check_name", "check_value", "is_secret", "mask_env", "mask_text", "refuse_secret"]

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
        kind = {"float": "a number with a point", "list": "a list", "dict": "a mapping"}.get(
            type(value).__name__, "a " + type(value).__name__
        )
        raise PdopsError(f"The value of {name} is {kind}; a knob is a string or an integer: quote it.")
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


def refuse_secret(name: str) -> None:
    """Raise :class:`PdopsError` when the name looks like a secret's: parameters show in logs and in ``-vvv``."""
    if is_secret(name):
        raise PdopsError(
            f"{name} looks like a secret, and secrets are not taken as parameters, since parameters are logged: "
            "put it on the machine into the engine's --config file with mode 0600, or into the script by hand."
        )

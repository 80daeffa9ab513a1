# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Options of an engine or router, from mappings in the inventory to words of a command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Optional, Union

from .. import knobs
from ..pdops_error import PdopsError

_OPTION = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")

#: Spellings that SGLang 0.5.23 takes for the same option.
_ALIASES = {
    "model": "model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "ep": "ep-size",
    "expert-parallel-size": "ep-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
}

#: Decode compares these with prefill's at the first request, not at its start, and dies of a difference; a transfer backend
#: that one role does not name is mooncake there (reference: SGLang 0.5.23, ``try_ensure_parallel_info``).
PAIR_OPTIONS = (
    "disaggregation-transfer-backend",
    "disaggregation-decode-allocation-policy",
    "disaggregation-enable-kv-checksum",
    "dsv4-attn-backend",
    "kv-cache-dtype",
    "page-size",
)

Words = tuple[str, ...]


def check_word(what: str, value: object) -> str:
    """One word of a command line; strings and numbers are taken.

    :raises PdopsError: it is something else, or has a line end or a NUL in it
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise PdopsError(f"{what} is {type(value).__name__} {value!r}; give a string or a number.")
    text = str(value)
    if re.search(r"[\x00\r\n]", text):
        raise PdopsError(f"{what} has a line end or a NUL character in it; give it on one line.")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PdopsError(f"{what} holds characters that cannot be written as UTF-8; replace them.") from None
    return text


def _name(source: str, raw: object) -> str:
    text = raw if isinstance(raw, str) else str(raw)
    text = text[2:] if text.startswith("--") else text
    text = text.replace("_", "-")
    if not _OPTION.match(text):
        raise PdopsError(f"{source}: {raw!r} is no name of an option; write it as page-size, without the dashes.")
    return _ALIASES.get(text, text)


def read_options(source: str, given: object, owned: Mapping[str, str], secret_way: str) -> dict[str, Optional[Words]]:
    """One mapping of options, by their long names, each as its words; None for one that is left out on purpose.

    ``true`` is a bare flag; ``false`` and null leave the option out; a list gives several words, a mapping JSON.

    :param source: the variable, for sentences
    :param owned: options that come from elsewhere, each with the variable to use instead
    :param secret_way: what to do with a key, for the refusal
    """
    if not isinstance(given, Mapping):
        raise PdopsError(f"{source} is no mapping; write names and values, as in page-size: 64.")
    found: dict[str, Optional[Words]] = {}
    for raw, value in given.items():
        name = _name(source, raw)
        if knobs.is_secret(name):
            raise PdopsError(
                f"{source}: --{name} is a secret, and everybody on the machine sees command lines; {secret_way}"
            )
        if name in owned:
            raise PdopsError(f"{source}: --{name} is written from {owned[name]}; use that.")
        if name in found:
            raise PdopsError(f"{source} has --{name} twice under two spellings; keep one.")
        found[name] = _words(source, name, value)
    return found


def _words(source: str, name: str, value: object) -> Optional[Words]:
    what = f"{source}: the value of --{name}"
    if value is None or value is False:
        return None
    if value is True:
        return (f"--{name}",)
    if isinstance(value, Mapping):
        return _with_value(name, check_word(what, json.dumps(value, ensure_ascii=False)))
    if isinstance(value, (list, tuple)):
        words = [check_word(what, item) for item in value]
        if not words:
            return None
        if any(word.startswith("-") for word in words):
            raise PdopsError(
                f"{what} has an item that begins with a dash, which would be read as an option; leave it out."
            )
        return (f"--{name}", *words)
    return _with_value(name, check_word(what, value))


def _with_value(name: str, word: str) -> Words:
    # argparse takes a word that begins with a dash for the next option.
    return (f"--{name}={word}",) if word.startswith("-") else (f"--{name}", word)


def merge_options(
    what: str, pair: Mapping[str, Optional[Words]], own: Mapping[str, Optional[Words]]
) -> dict[str, Optional[Words]]:
    """The options of one engine: those of the pair, then its own.

    :raises PdopsError: a name is in both with different values, or must be the pair's
    """
    for name, words in own.items():
        if name in pair and pair[name] != words:
            raise PdopsError(
                f"{what}: --{name} is {_told(pair[name])} in pd_pair_arguments and {_told(words)} in pd_arguments; keep it in one of them."
            )
        if name in PAIR_OPTIONS and name not in pair:
            raise PdopsError(
                f"{what}: --{name} must be equal on prefill and decode; put it into pd_pair_arguments instead of pd_arguments."
            )
    return {**pair, **own}


def _told(words: Union[Words, None]) -> str:
    return "left out" if words is None else f"'{' '.join(words)}'"

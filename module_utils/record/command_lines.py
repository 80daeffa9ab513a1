# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two command lines of a fingerprint compared by their options: in what order these stand says nothing. Pure.

Only the order of an option that is given several times counts, since the last one wins (argparse).
"""

from __future__ import annotations

import re
import shlex

# "dsv4-decode: ", or "gpu1: dsv4-decode: ", before the words of one instance where they are not the same for all.
_LABEL = re.compile(r"(?:^|; )((?:[A-Za-z0-9_.@-]+: )+)")
_OPTION = re.compile(r"-{1,2}[A-Za-z]")


def alike(one: str, other: str) -> bool:
    """Whether two texts name the same options with the same values."""
    return differing(one, other) == ("", "")


def differing(one: str, other: str) -> tuple[str, str]:
    """The words that only the one has, and those that only the other has; ``(nothing)`` where it lacks what the other has."""
    before, after = _by_label(one), _by_label(other)
    labels = sorted({*before, *after} - {""}) or [""]
    gone: list[str] = []
    come: list[str] = []
    for label in labels:
        mine, theirs = (side.get(label, side.get("", {})) for side in (before, after))
        for name in sorted({*mine, *theirs}):
            if mine.get(name) == theirs.get(name):
                continue
            for side, told in ((mine, gone), (theirs, come)):
                if name in side:
                    told.append(f"{label}{side[name]}")
    if not gone and not come:
        return "", ""
    return " ".join(gone) or "(nothing)", " ".join(come) or "(nothing)"


def _by_label(text: str) -> dict[str, dict[str, str]]:
    """Label to option to its words as typed; one label '' when all instances have the same."""
    parts = _LABEL.split(text)
    texts = {"": parts[0]} if parts[0] else {}
    for label, words in zip(parts[1::2], parts[2::2]):
        texts[label] = f"{texts[label]} {words}" if label in texts else words
    found = {label: _options(words) for label, words in texts.items()}
    told = list(found.values())
    return {"": told[0]} if told and all(one == told[0] for one in told) else found


def _options(text: str) -> dict[str, str]:
    """``--tp 4 --host=::`` as ``{"--host": "--host ::", "--tp": "--tp 4"}``; of one that is repeated all, in their order."""
    try:
        words = shlex.split(text)
    except ValueError:  # a text that was cut inside of a quoted word
        words = text.split()
    name = ""
    found: dict[str, list[str]] = {}
    for word in words:
        if _OPTION.match(word):
            name, equals, value = word.partition("=")
            found.setdefault(name, []).append(name)
            if equals:
                found[name].append(value)
        else:
            found.setdefault(name, []).append(word)
    return {key: shlex.join(told) for key, told in found.items()}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""An entry as a person types it (``kind=measure knob=X load=C64 effect=+12.8``), made into one that the record keeps."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from .. import knobs
from ..pdops_error import PdopsError
from .fold import PLACING, Folded
from .folder import find
from .masking import as_recorded
from .schema import KINDS, MEASURED, MOST_PERCENT, figures_wrong
from .standing import Knob, shown

#: Kinds that people write; the verbs write the others, and a person writing one would say what was not done.
BY_HAND = ("propose", "measure", "suspect", "triage", "observe", "exonerate", "convict", "correct", "note")
_PLAYBOOKS = {
    "apply": "set_knob.yml",
    "restore": "restore_knob.yml",
    "revert": "revert_knob.yml",
    "rollback": "rollback.yml",
}
#: Word to the field that it fills, and to how it is read.
_TEXTS = {"why": "said", "load": "load", "cause": "cause", "found": "found", "instance": "instance"}
_NUMBERS = {"effect": "effect_pct", "cv": "cv_pct", "level": "level", "confidence": "confidence"}
WORDS = (
    "kind", "knob", "value", "state", "load", "effect", "interval", "level", "pairs", "cv", "verdict", "why", "cause", "found",
    "confidence", "missing", "instance", "entry", "refs", "new_knob",
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LIMITS = {
    "effect": (-MOST_PERCENT, MOST_PERCENT),
    "cv": (0.0, MOST_PERCENT),
    "level": (0.0, 1.0),
    "confidence": (0.0, 1.0),
}
_LIMITS_TOLD = {
    "effect": f"a number of percent, at most {MOST_PERCENT:.0f}",
    "cv": f"between 0 and {MOST_PERCENT:.0f} percent: a coefficient of variation is never negative",
    "level": "between 0 and 1, as 0.95",
    "confidence": "between 0 and 1, as 0.95",
}
_INTERVAL = re.compile(
    rf"\s*[\[(]?\s*(?P<low>{_NUMBER.pattern})\s*%?\s*(?:\.\.|,|;|\s|\bto\b)\s*(?P<high>{_NUMBER.pattern})\s*%?\s*[\])]?\s*"
)
_EXAMPLES = {
    "propose": "-e knob=NAME -e value=512",
    "measure": "-e knob=NAME -e value=512 -e load=C64 -e effect=+12.8 -e interval=10.9..14.7 -e pairs=4",
    "suspect": """-e knob=NAME -e '{"why": "an agent hung"}'""",
    "triage": "-e found=upstream-proxy -e confidence=0.95",
    "observe": "-e knob=NAME -e value=512 -e instance=INSTANCE",
    "exonerate": "-e knob=NAME -e cause=proxy",
    "convict": "-e knob=NAME -e cause=WHAT",
    "correct": "-e entry=ID -e why=TEXT",
    "note": "-e why=TEXT",
}


def example(kind: str) -> str:
    return f"ansible-playbook record.yml -e kind={kind} {_EXAMPLES[kind]}"


def entry_of(typed: Mapping[str, Any], folded: Folded) -> dict[str, Any]:
    """The fields of an entry, without ``v``, ``at``, ``deployment`` and ``by``.

    What it refers to is filled in: a measurement to the change that put the value in place, a judgement to the suspicion and
    the revert that it is about. Raises :class:`PdopsError` with what to type.
    """
    given = {name: item for name, item in typed.items() if item is not None and item != ""}
    kind = str(given.get("kind", ""))
    if kind not in BY_HAND:
        raise PdopsError(_no_kind(kind))
    entry: dict[str, Any] = {"kind": kind}
    taken = {*KINDS[kind][0], *KINDS[kind][1], "said", "refs", "knob", "instance"}
    if kind == "observe":
        taken -= {"found", "over"}  # of the verbs
    for word, value in given.items():
        _fill(entry, kind, word, value, taken)
    if "knob" in entry:
        knobs.check_name(entry["knob"])
        knobs.refuse_secret(entry["knob"])
        if str(given.get("new_knob", "no")).lower() not in ("yes", "true", "1", "on"):
            knobs.refuse_near_name(entry["knob"], folded.knobs, "no entry of the record")
    known = folded.knobs.get(entry.get("knob", ""))
    _complete(entry, given, known)
    for name in KINDS[kind][0]:
        if name not in entry and not (kind == "correct" and name == "refs"):
            raise PdopsError(f"kind={kind} needs {_word_of(name)}=; type for instance: {example(kind)}")
    wrong = figures_wrong(entry)
    if wrong:
        raise PdopsError(f"{wrong}; type for instance: {example(kind)}")
    entry["refs"] = _refs(kind, given, known, entry, folded)
    return entry


def _no_kind(kind: str) -> str:
    if kind in _PLAYBOOKS:
        return (
            f"kind={kind} is written by {_PLAYBOOKS[kind]} when it has done it; of a change that was made by hand type "
            f"{example('observe')}"
        )
    close = difflib.get_close_matches(kind, BY_HAND, n=1)
    hint = f"did you mean kind={close[0]}?" if close else f"type for instance: {example('measure')}"
    return f"kind={kind} is unknown; it must be one of {', '.join(BY_HAND)}; {hint}"


def _word_of(field: str) -> str:
    return next(
        (word for word, name in {**_TEXTS, **_NUMBERS}.items() if name == field), "entry" if field == "refs" else field
    )


def _fill(entry: dict[str, Any], kind: str, word: str, value: Any, taken: Iterable[str]) -> None:
    if word in ("kind", "entry", "refs", "new_knob"):
        return
    field = {**_TEXTS, **_NUMBERS, "interval": "low_pct", "state": "value"}.get(word, word)
    if word not in WORDS or field not in taken:
        close = difflib.get_close_matches(word, [name for name in WORDS if name != word], n=1, cutoff=0.75)
        hint = f"; did you mean {close[0]}=?" if close else f"; type for instance: {example(kind)}"
        raise PdopsError(f"kind={kind} takes no {word}={hint}")
    if word in _NUMBERS:
        entry[field] = _number(word, value)
    elif word == "interval":
        entry["low_pct"], entry["high_pct"] = _interval(value)
    elif word == "pairs":
        entry["pairs"] = _whole(value)
    elif word == "state":
        if value != "absent":
            raise PdopsError(
                f"state={value} is unknown; state=absent says that the knob is unset, value=VALUE that it is set."
            )
        entry["value"] = None
    elif word == "value":
        entry["value"] = knobs.check_value(str(entry.get("knob", "the knob")), value)
    elif word == "missing":
        entry["missing"] = [str(item) for item in value] if isinstance(value, (list, tuple)) else str(value).split(",")
    elif word == "verdict" and value not in MEASURED:
        raise PdopsError(f"verdict={value} is unknown; a measurement says {', '.join(MEASURED)}.")
    else:
        entry[field] = str(value)


def _number(word: str, value: Any) -> float:
    text = str(value).strip().rstrip("%").strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise PdopsError(
            f"{word}={value} is no number; type for instance {word}={'+12.8' if word == 'effect' else '0.95'}."
        )
    number = float(text)
    # A float that is too large is infinite, and a JSON that has it is none.
    least, most = _LIMITS[word]
    if not least <= number <= most:
        raise PdopsError(f"{word}={value} must be {_LIMITS_TOLD[word]}.")
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,6}", str(value)):
        raise PdopsError(f"pairs={value} is no number of pairs of runs.")
    return int(value)


def _interval(value: Any) -> tuple[float, float]:
    """Of percent: ``10.9..14.7``, ``[10.9, 14.7]``, or a list of two."""
    text = ",".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)
    # Read as a whole: "10-14" is no -14..10, and what is between two numbers is no part of one.
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise PdopsError(f"interval={value} is no interval of percent; type for instance interval=10.9..14.7.")
    low, high = sorted(float(found[name]) for name in ("low", "high"))
    if not math.isfinite(low) or not math.isfinite(high):
        raise PdopsError(f"interval={value} is no interval of percent; type for instance interval=10.9..14.7.")
    return low, high


def _complete(entry: dict[str, Any], given: Mapping[str, Any], known: Optional[Knob]) -> None:
    """A measurement and a suspicion without ``value=`` are of the value in question; a judgement is of the one that is suspected,
    or that somebody has to come back to."""
    kind = entry["kind"]
    if "value" in entry or known is None or kind not in ("measure", "suspect", "exonerate", "convict"):
        return
    value = known.value
    if kind in ("exonerate", "convict") and known.standing(value).verdict != "suspected":
        waiting = list(dict.fromkeys([*known.suspected, *(debt.value for debt in known.debts)]))
        if len(waiting) > 1 and value not in waiting:
            told = " and ".join(shown(one).lstrip("=") for one in waiting)
            raise PdopsError(
                f"{known.name} has several values that wait for a judgement ({told}): say which with value=."
            )
        if waiting and value not in waiting:
            value = waiting[0]
    if value is not None:
        entry["value"] = value


def _refs(
    kind: str, given: Mapping[str, Any], known: Optional[Knob], entry: Mapping[str, Any], folded: Folded
) -> list[str]:
    asked = given.get("entry") or given.get("refs") or ()
    if isinstance(asked, (bool, Mapping)) or not isinstance(asked, (str, int, list, tuple)):
        word = "entry" if given.get("entry") else "refs"
        raise PdopsError(
            f"{word}={asked} names no entry; give ids, separated by commas: see ansible-playbook record.yml -e show=list."
        )
    names = [str(item) for item in asked] if isinstance(asked, (list, tuple)) else str(asked).split(",")
    refs = [find(folded.entries, name).id for name in names if name.strip()]
    if kind == "correct" and not refs:
        raise PdopsError(
            f"kind=correct needs entry=ID, the entry that is wrong; type for instance: {example('correct')}"
        )
    if kind == "correct" or known is None:
        return refs
    wanted = {
        "measure": ("apply", "restore"),
        "suspect": PLACING,
        "exonerate": ("suspect", "revert", "triage"),
        "convict": ("suspect", "revert", "triage"),
    }.get(kind, ())
    open_ones = {
        kept.kind: kept.id
        for kept in known.entries
        if kept.kind in wanted
        and kept.id not in folded.corrected
        and (kind == "suspect" or known.about.get(kept.id, entry.get("value")) == entry.get("value"))
    }
    if kind == "measure":
        open_ones = {
            kept.kind: kept.id
            for kept in known.entries
            if kept.kind in wanted and kept.data["after"] == as_recorded(entry.get("value"))
        }
    return list(dict.fromkeys([*refs, *open_ones.values()]))

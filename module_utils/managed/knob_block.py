# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The knob block of a managed serve script: the lines between two marks, in which all its exports stand.

One writer computes it: a rendered script is filled by the editor that also edits adopted scripts, onto the block that the
machine has. So the comments, the order and the quotes that people gave to their knobs outlive a rendering, and setting
a knob and rendering with that knob give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

from .. import knobs
from ..mistakes import Mistakes
from ..pdops_error import PdopsError
from ..scripts.editing import set_knob, unset_knob
from ..scripts.reading import read_script
from .block_writer import write_knobs

BEGIN = "# >>> pdops knobs: one export a line; pdops edits here, see set_knob.yml >>>"
END = "# <<< pdops knobs <<<"

# What follows the words is for people and may change.
_BEGIN = re.compile(rb"(?m)^# >>> pdops knobs\b[^\n]*\n")
_END = re.compile(rb"(?m)^# <<< pdops knobs\b[^\n]*(?:\n|\Z)")

#: Knobs in which the two engines of a pair must agree: the KV layout is compared at the first request and then kills
#: decode (SGLang 0.5.23, ``try_ensure_parallel_info``); the other is not compared at all.
PAIR_KNOBS = ("SGLANG_DSV4_KV_LAYOUT", "SGLANG_OPT_SM120_DIRECT_SWA_KV")


class Span(NamedTuple):
    """Byte offsets of the lines between the marks."""

    start: int
    end: int


def find_block(script: bytes, what: str = "the script") -> Optional[Span]:
    """Where the block is; None when there is no mark at all.

    :raises PdopsError: there are marks, but not one pair of them; the sentence names ``what`` and the line
    """
    begins, ends = list(_BEGIN.finditer(script)), list(_END.finditer(script))
    if not begins and not ends:
        return None
    if len(begins) == len(ends) == 1 and begins[0].end() <= ends[0].start():
        return Span(begins[0].end(), ends[0].start())
    odd = (begins[1:] or ends[1:] or begins or ends)[0]
    line = script.count(b"\n", 0, odd.start()) + 1
    raise PdopsError(
        f"{what} has {len(begins)} begin and {len(ends)} end marks of a knob block, see line {line}; it must be one of each, in this order."
    )


def is_managed(script: bytes) -> bool:
    """Whether a template rendered it: it has a knob block."""
    try:
        return find_block(script) is not None
    except PdopsError:
        return False


def fixed_part(script: bytes) -> bytes:
    """The script without what stands in its block, to see whether anything beside the knobs differs."""
    span = find_block(script)
    return script if span is None else script[: span.start] + script[span.end :]


def knobs_of(script: bytes, what: str = "the script") -> dict[str, str]:
    """What the script exports, in and outside its block: a knob that somebody added elsewhere is one, too.

    :raises PdopsError: a value is only known at run time, so that nothing can be compared with it
    """
    reading = read_script(script)
    if reading.refusal:
        raise PdopsError(f"{what} cannot be read: {reading.refusal}")
    found: dict[str, str] = {}
    for name, export in reading.active().items():
        if export.value is None:
            raise PdopsError(
                f"{what} exports {name} in line {export.line} with a value that only a run tells; write it as one plain export."
            )
        found[name] = export.value
    for export in reading.exports:
        if export.state == "conditional":
            raise PdopsError(
                f"{what} exports {export.name} in line {export.line} under a condition; write it as one plain export."
            )
    return found


def merge_knobs(pair: Mapping[str, object], own: Mapping[str, object], what: str = "an instance") -> dict[str, str]:
    """The knobs of one engine: those of the pair, then its own. Null values leave a knob out.

    :raises PdopsError: a name is in both with different values, must be the pair's, is no name, or looks like a secret's
    """
    merged: dict[str, str] = {}
    values: dict[str, Optional[str]] = {}
    wrong = Mistakes()
    for source, given in (("pd_pair_knobs", pair), ("pd_knobs", own)):
        if not isinstance(given, Mapping):
            wrong.add(f"{what}: {source} is no mapping; write names and values, as in SGLANG_LOG_MS: 1.")
            continue
        for name, raw in given.items():
            try:
                knobs.check_name(name)
                knobs.refuse_secret(name)
                value = knobs.check_value(name, raw)
            except PdopsError as error:
                wrong.add(f"{what}: {source}: {error}")
                continue
            if name in values and values[name] != value:
                wrong.add(
                    f"{what}: {name} is {_told(values[name])} in pd_pair_knobs and {_told(value)} in pd_knobs; keep it in one of them."
                )
            if source == "pd_knobs" and name in PAIR_KNOBS and name not in values:
                wrong.add(
                    f"{what}: {name} must be equal on prefill and decode; put it into pd_pair_knobs instead of pd_knobs."
                )
            values[str(name)] = value
            if value is not None:
                merged[str(name)] = value
    wrong.refuse()
    return merged


def _told(value: Optional[str]) -> str:
    return "null" if value is None else f"'{value}'"


def fill(base: bytes, wanted: Mapping[str, str], present: Optional[bytes] = None, what: str = "the script") -> bytes:
    """The whole script: ``base``, which a template rendered, with ``wanted`` as its knobs and no other.

    :param base: has a block, in which only exports of the template stand (``SPT_NOENV``, ``CUDA_VISIBLE_DEVICES``)
    :param wanted: knob to value; a name that the template exports must have the template's value
    :param present: the script as it is on the machine; its block is kept as far as it goes, and its fixed part is not looked at.
        None, or a script without a block, gives a new block.
    :raises PdopsError: the base has no block, or the present block holds what is no plain export
    """
    span = find_block(base, "the rendered script")
    if span is None:
        raise PdopsError(f"the rendered script has no knob block; the template needs the lines {BEGIN!r} and {END!r}.")
    fixed = knobs_of(base, "the rendered script")
    for name in wanted:
        if name in fixed and fixed[name] != wanted[name]:
            raise PdopsError(
                f"{name} is '{wanted[name]}' among the knobs, but the template exports '{fixed[name]}'; leave it out of the knobs."
            )
    script = base
    there = find_block(present, what) if present is not None else None
    if present is not None and there is not None:
        _check_block(present, there, what)
        script = base[: span.start] + present[there.start : there.end] + base[span.end :]
    complete = {**fixed, **wanted}
    for name in [name for name in read_script(script).active() if name not in complete]:
        script = unset_knob(script, name)
    block = find_block(script)
    written = write_knobs(script, block.start, block.end, complete) if block is not None else None
    if written is None:
        # The editor says what is in the way of which one.
        for name, value in complete.items():
            script = set_knob(script, name, value)
    else:
        script = written
    _check_filled(script, complete)
    return script


def _check_block(script: bytes, span: Span, what: str) -> None:
    """Only exports, comments and empty lines may be taken over: anything else is somebody's code."""
    first = script.count(b"\n", 0, span.start) + 1
    plain = {export.line for export in read_script(script).exports if export.state in ("active", "overridden")}
    for number, line in enumerate(script[span.start : span.end].split(b"\n"), first):
        text = line.strip()
        if text and not text.startswith(b"#") and number not in plain:
            raise PdopsError(
                f"{what} line {number}: the knob block holds what is no plain export of a knob; take it out, or say keep_block=false to write the block anew."
            )


def _check_filled(script: bytes, complete: Mapping[str, str]) -> None:
    """The result, read again, exports exactly what was asked, and all of it within the block."""
    span = find_block(script)
    found = knobs_of(script)
    if span is None or found != dict(complete):
        odd = sorted(name for name in {*found, *complete} if found.get(name) != complete.get(name))
        raise PdopsError(
            f"the rendered script would not export {', '.join(odd) or 'its knobs'} as asked; look at the template and the knob block."
        )
    lines = range(script.count(b"\n", 0, span.start) + 1, script.count(b"\n", 0, span.end) + 1)
    for export in read_script(script).active().values():
        if export.line not in lines:
            raise PdopsError(
                f"the template exports {export.name} in line {export.line}, outside its knob block; move it between the marks."
            )

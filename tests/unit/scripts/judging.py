# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How a reading and an edit are judged against bash."""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.pdops.sglang.plugins.module_utils.scripts.diffing import knobs_changed, lines_beyond
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.editing import EditRefused, set_knob, unset_knob
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.reading import Reading, read_script
from ansible_collections.pdops.sglang.plugins.module_utils.scripts.taking import take_knob

from .oracle import Bash

# Findings that say: here something may be exported that the reader cannot name.
_OPEN_ENDED = {"eval", "sourced", "unknown-names", "not-understood", "cleared"}
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


def caller_of(script: bytes) -> dict[str, str]:
    """A caller who has set every name that the script may mean, to something the script does not know."""
    names = {name.decode() for name in _NAME.findall(script) if name.isupper() and len(name) > 1}
    names -= {"PATH", "HOME", "PWD", "IFS", "UID", "EUID", "PPID", "POSIXLY_CORRECT"}
    return {name: "4711" if name == "ZZ" else f"caller's {name}" for name in names}


def judge_reading(script: bytes, bash: Bash, arguments: tuple[str, ...] = ()) -> Optional[Reading]:
    """Every static value agrees with bash, whoever calls; nothing exported is missing without a finding."""
    reading = read_script(script)
    clean = bash.environment(script, None, arguments)
    if clean is None:
        return None
    _agree(reading, clean, "clean", script)
    named = {export.name for export in reading.exports}
    if not reading.refusal and not _OPEN_ENDED & {finding.code for finding in reading.findings}:
        missing = set(clean) - named
        assert not missing, f"bash exports {missing}, the reader does not say so: {script!r}"
    hostile = bash.environment(script, caller_of(script), arguments)
    if hostile is not None:
        _agree(reading, hostile, "with a caller's environment", script)
    return reading


def _agree(reading: Reading, environment: dict[str, str], how: str, script: bytes) -> None:
    if reading.refusal:
        return
    for name, export in reading.active().items():
        if export.value is not None:
            seen = environment.get(name)
            assert seen == export.value, f"{name}: bash {how} gives {seen!r}, the reader {export.value!r}: {script!r}"


def judge_edit(script: bytes, name: str, value: Optional[str], bash: Bash, arguments: tuple[str, ...] = ()) -> str:
    """One edit is right by bash, or refused with the line named. Returns ``done``, ``same``, ``refused``."""
    try:
        edited = set_knob(script, name, value) if value is not None else unset_knob(script, name)
    except EditRefused as refusal:
        assert re.search(r"line \d+", str(refusal)), str(refusal)
        assert 1 <= refusal.details["line"] <= script.count(b"\n") + 1
        return "refused"
    before = bash.environment(script, None, arguments)
    if edited == script:
        if before is not None:
            assert before.get(name) == value, (
                f"{name} was left as it is, but bash gives {before.get(name)!r}: {script!r}"
            )
        return "same"
    if before is not None:
        _changed_only(before, bash.environment(edited, None, arguments), name, value, script, edited)
        hostile = caller_of(script + name.encode())
        first = bash.environment(script, hostile, arguments)
        if first is not None:
            second = bash.environment(edited, hostile, arguments)
            assert second is not None, f"the edited script starts nothing: {edited!r}"
            # what else the caller has given is the caller's: of it only what the script exports is compared
            own = set(before) | {name}
            if value is None:
                own.discard(name)
            first = {key: each for key, each in first.items() if key in own}
            second = {key: each for key, each in second.items() if key in own}
            _changed_only(first, second, name, value, script, edited)
    again = set_knob(edited, name, value) if value is not None else unset_knob(edited, name)
    assert again == edited, f"the second edit changes again: {edited!r} -> {again!r}"
    assert set(knobs_changed(script, edited)) <= {name}, f"{knobs_changed(script, edited)}: {script!r} -> {edited!r}"
    if value is not None:
        one_replacement(script, edited)
        beyond = lines_beyond(script, edited, {name})
        assert not beyond, f"{beyond}: {script!r} -> {edited!r}"
    _back(script, edited, name, before, bash, arguments)
    return "done"


def _back(
    script: bytes, edited: bytes, name: str, before: Optional[dict[str, str]], bash: Bash, arguments: tuple[str, ...]
) -> None:
    """What was there before comes back as it was, also when something else has changed since."""
    for since in (edited, edited.replace(b"python3", b"python3.11", 1)):
        try:
            back = take_knob(since, name, script)
        except EditRefused as refusal:
            assert re.search(r"line \d+", str(refusal)), str(refusal)
            continue
        if back != script and before is not None:
            after = bash.environment(back, None, arguments)
            if after is not None:
                _changed_only(before, after, name, before.get(name), script, back)


def _changed_only(
    before: dict[str, str],
    after: Optional[dict[str, str]],
    name: str,
    value: Optional[str],
    script: bytes,
    edited: bytes,
) -> None:
    wanted = dict(before)
    if value is None:
        wanted.pop(name, None)
    else:
        wanted[name] = value
    if after is not None and (b"$$" in script or b"$!" in script):  # process ids differ from run to run
        wanted, after = (
            {key: re.sub(r"\d+", "", each) if key != name else each for key, each in environment.items()}
            for environment in (wanted, after)
        )
    assert after == wanted, f"{name}={value!r}: bash gives {after}, wanted {wanted}: {script!r} -> {edited!r}"


def one_replacement(before: bytes, after: bytes) -> tuple[int, int, bytes]:
    """The one contiguous piece that differs; it lies within one line before and at most one line after."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    assert new.count(b"\n") <= max(1, old.count(b"\n")), (old, new)
    return start, len(before) - end, new

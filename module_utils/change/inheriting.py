# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a change takes over from one that was interrupted: files to put back, and what was wanted of which knob and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .record import OUT, Record


def inherit(record: Record, former: Record) -> Record:
    """Take over from ``former``: what it changed and did not confirm is ours to put back, should we fail.

    A path that both change goes back to what it was before *former* touched it. What *former* stopped has been out since
    then: ``out_before`` has these steps, the oldest first. ``inherited`` says which knobs are of whom and why, since they may be
    wanted for another reason, by another verb, than what took them over: a row for each change with ``id``, ``verb``, ``summary``,
    ``why``, ``knobs`` (pairs of instance and name), and ``again``, those of its knobs that the heir changes itself.
    """
    own = pairs_of(record["files"])
    files = {item["path"]: dict(item) for item in record["files"]}
    for item in former["files"]:
        if item["path"] in files:
            mine = files[item["path"]]
            # What this one confirms has what the former change wrote elsewhere in the file, too.
            mine["knobs"] = {**item.get("knobs", {}), **mine.get("knobs", {})}
            # What is there now may still be what the former change wrote: that is ours to put back too.
            ours = {*mine.get("ours", []), *item.get("ours", [])}
            mine["ours"] = sorted(ours | {item["sha256_after"], mine["sha256_before"]})
            mine["sha256_before"] = item["sha256_before"]
            mine.update({name: item[name] for name in ("existed", "enabled_before") if name in item})
        else:
            files[item["path"]] = dict(item)
    touched = list(record["touched"])
    touched += [name for name in former["touched"] if name not in touched]
    return {
        **record,
        "files": list(files.values()),
        "touched": touched,
        "inherited": [*record.get("inherited", []), *_legacy(former, own)],
        "out_before": [
            *former.get("out_before", []),
            *(
                {key: step[key] for key in ("at", "step", "instance")}
                for step in former["steps"]
                if step["step"] in OUT
            ),
            *record.get("out_before", []),
        ],
        "inherits": list(dict.fromkeys([*record["inherits"], *former["inherits"], former["id"]])),
    }


def pairs_of(files: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Instance and name of each knob that files of a change have."""
    return {(str(item["instance"]), str(name)) for item in files for name in item.get("knobs") or {}}


def _legacy(former: Record, own: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """The rows of :func:`inherit` for a change and those that it had inherited from; ``own`` are the heir's pairs."""
    handed_on = former.get("inherited", [])
    passed = {(instance, name) for row in handed_on for instance, name in row["knobs"]}
    first = {name: former.get(name) for name in ("id", "summary", "why")}
    first["verb"] = (former.get("finishes") or {}).get("verb") or former.get("verb") or "not known"
    rows = [{**first, "knobs": sorted(pairs_of(former["files"]) - passed), "again": []}, *handed_on]
    return [
        {
            **row,
            "knobs": [list(pair) for pair in row["knobs"] if tuple(pair) not in own],
            "again": [list(pair) for pair in [*row["again"], *row["knobs"]] if tuple(pair) in own],
        }
        for row in rows
        if row["knobs"] or row["again"]
    ]


def as_far_as_it_came(record: Record, content: Mapping[str, str]) -> Record:
    """Without the knobs that it was about to change and had not: the next one does not confirm them.

    :param content: path to the sha256 of what is there; of a file that is not in it, nothing is known
    """
    passed = {(instance, name) for row in record.get("inherited", []) for instance, name in row["knobs"]}
    files = []
    for item in record["files"]:
        now, knobs = content.get(item["path"]), dict(item.get("knobs") or {})
        if now is not None and now != item["sha256_after"]:
            if now == item["sha256_before"]:
                knobs = {}
            elif now in item.get("ours", []):
                knobs = {name: both for name, both in knobs.items() if (item["instance"], name) in passed}
        files.append({**item, "knobs": knobs})
    return {**record, "files": files}

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Results of tasks as events of the story that a change's report tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: What an event keeps of a result; the rest is of no use to a reader.
_KEPT = ("gates", "lost", "requests", "killed", "log_tail", "applied", "answers", "conversation", "steps")


def event_of(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """One task's result as ``{kind, instance, machine, began, ended, result, said, ...}``; None when it tells no event.

    The action plugins of pdops put ``kind``, ``began`` and ``ended`` (seconds since the epoch on the controller) into
    their results; a machine comes from the loop variable of the role.
    """
    if result.get("skipped") or "began" not in result or "kind" not in result:
        return None
    change = result["change"] if result["kind"] == "begin" and isinstance(result.get("change"), Mapping) else {}
    lost = result.get("unreachable") or result.get("cut_off")
    outcome = "unreachable" if lost else "failed" if result.get("failed") else "ok"
    return {
        "kind": str(result["kind"]),
        "instance": str(result.get("instance", "")),
        "machine": str(result.get("change_machine", "")),
        "began": result["began"],
        "ended": result.get("ended", result["began"]),
        "result": outcome,
        "said": str(result.get("said") or result.get("msg") or ""),
        **({"out_before": change["out_before"]} if change.get("out_before") else {}),
        **({"files": len(change["files"])} if change.get("files") else {}),
        **{key: result[key] for key in _KEPT if result.get(key) is not None},
    }


def events_of(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events of all results, those of a loop among them, in their order."""
    found: list[dict[str, Any]] = []
    for result in results:
        if isinstance(result.get("results"), list):
            found += events_of(result["results"])
        else:
            event = event_of(result)
            found += [event] if event is not None else []
    return found

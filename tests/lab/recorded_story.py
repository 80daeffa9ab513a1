# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A story for pd_report out of what the recorder kept of a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDER = Path(__file__).parent / "recorder"
ENVIRONMENT = {"ANSIBLE_CALLBACK_PLUGINS": str(RECORDER), "ANSIBLE_CALLBACKS_ENABLED": "pdops_recorder"}


def story_of(record: Path, instances: list[dict[str, Any]], check: bool = False) -> dict[str, Any]:
    """Events in the order in which they ended; the outcome is what the change and the plan say."""
    kept = [json.loads(line) for line in record.read_text().splitlines()]
    events = [event for item in kept if (event := _event(item)) is not None]
    plans = [item["result"]["plan"] for item in kept if "plan" in item["result"]]
    plan = plans[-1] if plans else {}
    changes = [item["result"]["change"] for item in kept if item["result"].get("change")]
    refusals = [item["result"]["msg"] for item in kept if item["failed"] and item["action"] == "pd_plan"]
    outcome, said = "failed", ""
    if refusals:
        outcome, said = "refused", refusals[-1]
    elif check:
        outcome = "check"
    elif plan and not plan["changed"]:
        outcome, said = "nothing", plan["nothing"]
    elif changes:
        outcome = changes[-1]["state"]
    return {
        "deployment": "lab",
        "verb": plan.get("verb", "restore"),
        "who": changes[-1]["who"] if changes else "an operator",
        "change_id": changes[-1]["id"] if changes else plan.get("change_id", ""),
        "began": kept[0]["began"],
        "ended": kept[-1]["ended"],
        "outcome": outcome,
        "said": said or plan.get("summary", ""),
        "plan": plan,
        "instances": [
            {key: item[key] for key in ("name", "role", "machine", "unit", "url")}
            for item in sorted(instances, key=lambda item: ("prefill", "decode", "router").index(item["role"]))
        ],
        "events": events,
    }


def _event(item: dict[str, Any]) -> dict[str, Any] | None:
    asked, result = item["asked"], item["result"]
    event = {
        "began": item["began"],
        "ended": item["ended"],
        "machine": "lab",
        "result": "failed" if item["failed"] else "ok",
        "said": result.get("msg", ""),
        "log_tail": result.get("log_tail", []),
    }
    if item["action"] == "pd_change" and asked["verb"] in ("begin", "apply", "confirm", "rollback"):
        more = {"kind": asked["verb"], "versions": result.get("applied", []), "said": result.get("said", event["said"])}
        return {**event, **more, "steps": result.get("steps", []) if asked["verb"] == "rollback" else []}
    if item["action"] == "pd_instance":
        return {**event, "kind": {"stopped": "stop", "started": "start"}[asked["state"]], "instance": asked["instance"]}
    if item["action"] == "pd_gate":
        return {**event, "kind": "gates", "instance": asked["name"], "gates": result.get("gates", [])}
    return None

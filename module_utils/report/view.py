# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A story as the page and the console show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from . import clean, commands, difference, probes, wording
from .outage import Outage, outage_of
from .story import Event, Gate, Story, read_story
from .timeline import timeline

_CUT = "; last log lines:"


def make_view(given: Any) -> dict[str, Any]:
    """Everything that the page shows, as plain data in the order of the page; all of it is masked.

    ``given`` is a story (see :mod:`.story`); any part of it may be missing.
    """
    story = read_story(given)
    name, sign, tone = wording.OUTCOME_WORDS[story.outcome]
    outage = outage_of(story)
    failure = _failure(story)
    edits = [_edit(story, clean.mapping(edit)) for edit in clean.sequence(story.plan.get("edits"))]
    ladders = [_ladder(story, event) for event in story.events if event.kind == "gates" and event.gates]
    took_s = None if story.began is None or story.ended is None else max(0.0, story.ended - story.began)
    return {
        "outcome": {"name": name, "sign": sign, "tone": tone, "id": story.outcome},
        "headline": _headline(story, failure),
        "intended": clean.text(story.plan.get("summary")) if failure else "",
        "consequence": wording.consequence(story),
        "facts": _facts(story, took_s, outage),
        "failure": failure,
        "edits": edits,
        "restart": _restart(story),
        "notes": [clean.text(item) for key in ("found", "warnings") for item in clean.sequence(story.plan.get(key))],
        "debt": list(story.debt),
        "nothing": clean.text(story.plan.get("nothing")) if story.outcome == "nothing" else "",
        "timeline": timeline(story),
        "ladders": ladders,
        "counts": _counts(ladders),
        "answers": probes.answers_of(story),
        "conversation": probes.conversation_of(story),
        "versions": _versions(story),
        "steps": _steps(story),
        "next": commands.next_commands(story),
        "simulation": story.simulation,
        "deployment": story.deployment,
        "change_id": story.change_id,
        "verb": story.verb,
        "date": wording.utc(story.began, "%Y-%m-%d %H:%M UTC"),
    }


def console_lines(view: Mapping[str, Any]) -> list[str]:
    """The same in three to six lines for a terminal."""
    outcome, counts = view["outcome"], view["counts"]
    about = f"not {view['intended']}" if view["intended"] and view["failure"] else view["headline"]
    lines = [f"{outcome['name'].lower()}: {about}" if about else outcome["name"].lower()]
    spans = [f"{fact['name'].lower()} {fact['value']}" for fact in view["facts"] if fact["console"]]
    if spans:
        lines.append("  " + ", ".join(spans))
    if counts["told"]:
        lines.append(f"  gates: {counts['told']}")
    lines += [f"  debt: {sentence}" for sentence in view["debt"]]
    if view["failure"]:
        where = f"{view['failure']['where']}: " if view["failure"]["where"] else ""
        lines.append(f"  why: {where}{view['failure']['said']}")
    if view["next"]:
        # After a change that holds, the way back is what people look for.
        chosen = view["next"][1 if outcome["id"] == "confirmed" and len(view["next"]) > 1 else 0]
        lines.append(f"  {chosen['why'][0].lower()}{chosen['why'][1:]}: {chosen['command']}")
    return lines


def _headline(story: Story, failure: Optional[dict[str, Any]]) -> str:
    """One sentence behind the outcome: what was done, or why not."""
    said = story.said.partition(_CUT)[0].partition("\n")[0].strip()
    if story.outcome == "refused":
        return f"{story.verb or 'the run'} was refused, and nothing was touched"
    if failure is not None and failure["where"]:
        return f"{failure['where']}: {failure['said']}"
    if story.outcome == "check" and said:
        return f"would have {said}"
    return said


def _facts(story: Story, took_s: Optional[float], outage: Optional[Outage]) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = []

    def add(name: str, value: str, console: bool = False, tone: str = "", code: bool = False) -> None:
        if value:
            facts.append({"name": name, "value": value, "console": console, "tone": tone, "code": code})

    add("Deployment", story.deployment)
    add("Verb", story.verb)
    add("By", story.who)
    add("Began", wording.utc(story.began))
    add("Took", wording.duration(took_s), console=True)
    if outage is not None:
        over = outage.seconds is not None
        lasted = wording.duration(outage.seconds) if over else "not over"
        since = " from the first stop of the interrupted change on" if over and outage.taken_over else ""
        add("Outage", lasted + since, console=True, tone="" if over else "bad")
    add("Kernels", _kernels(story))
    if story.lost is not None:
        add("Requests lost", str(story.lost), console=True, tone="warn" if story.lost else "")
    add("Change", story.change_id, code=True)
    return facts


def _kernels(story: Story) -> str:
    """What gate kernels said last of each instance: version and plans; the stock kernels of SGLang are not told."""
    said = {
        event.instance: gate.said
        for event in story.events
        for gate in event.gates
        if gate.gate == "kernels" and gate.result == "passed"
    }
    return "; ".join(f"{instance}: {words}" for instance, words in said.items())


def _failure(story: Story) -> Optional[dict[str, Any]]:
    """What failed and why: where, a sentence, the evidence, the last log lines, and what the rollback said.

    ``sentence`` says whether the sentence is worth repeating (the headline has it otherwise), ``shown`` whether
    there is anything beyond the headline.
    """
    event = story.failure()
    back = next((item for item in story.events if item.kind == "rollback"), None)
    unlucky = story.outcome in ("refused", "failed", "rollback-failed", "rolled-back")
    if event is None and not (unlucky and story.said):
        return None
    found: dict[str, Any] = {"where": "", "said": story.said.partition(_CUT)[0], "evidence": [], "log": []}
    if event is not None:
        gate = next((item for item in event.gates if item.result == "failed"), None)
        if gate is not None:
            found.update(where=f"{event.instance}, gate {gate.gate}", said=gate.said, evidence=_evidence(gate))
        else:
            where = f"{event.kind} {event.instance or event.machine}".strip()
            found.update(where=where, said=event.said.partition(_CUT)[0] or event.result)
        found["log"] = list(event.log_tail)
    found["back"] = _back(back)
    found["sentence"] = event is None
    found["shown"] = bool(found["sentence"] or found["evidence"] or found["log"] or found["back"])
    return found


def _back(event: Optional[Event]) -> str:
    return "" if event is None else event.said.partition(_CUT)[0]


def _edit(story: Story, edit: Mapping[str, Any]) -> dict[str, Any]:
    differ = difference.count_of(edit)
    return {
        "instance": clean.text(edit.get("instance")),
        "path": clean.text(edit.get("path")),
        "knob": clean.text(edit.get("knob")),
        "from": clean.text(clean.mapping(edit.get("source")).get("told")),
        "rows": difference.rows_of(edit),
        "differ": f"{differ} line{'' if differ == 1 else 's'}",
        "warnings": [clean.text(item) for item in clean.sequence(edit.get("warnings"))],
    }


def _restart(story: Story) -> list[dict[str, str]]:
    why = clean.mapping(story.plan.get("why"))
    return [
        {"name": clean.text(name), "why": clean.text(why.get(name) if isinstance(name, str) else None)}
        for name in clean.sequence(story.plan.get("restart"))
    ]


def _evidence(gate: Gate) -> list[dict[str, str]]:
    return clean.pairs(gate.evidence)


def _ladder(story: Story, event: Event) -> dict[str, Any]:
    role = next((member.role for member in story.members if member.name == event.instance), "")
    rows = []
    for gate in event.gates:
        word, sign, tone = wording.result_words(gate.result)
        rows.append(
            {
                "gate": gate.gate,
                "result": word,
                "sign": sign,
                "tone": tone,
                "said": gate.said,
                "evidence": _evidence(gate),
                "seconds": "" if gate.seconds is None else f"{gate.seconds:.1f}",
            }
        )
    return {
        "instance": event.instance,
        "role": role,
        "rows": rows,
        "log": list(event.log_tail),
        "took": wording.duration(event.seconds),
    }


def _counts(ladders: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, int] = {}
    for ladder in ladders:
        for row in ladder["rows"]:
            found[row["result"]] = found.get(row["result"], 0) + 1
    return {"told": ", ".join(f"{count} {word}" for word, count in found.items()), **found}


def _versions(story: Story) -> list[dict[str, str]]:
    """Before and after of each file, by what was really written; of a plan that was not applied, by the plan."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    planned = {
        (clean.text(edit.get("instance")), clean.text(edit.get("path"))): clean.mapping(edit)
        for edit in clean.sequence(story.plan.get("edits"))
        if isinstance(edit, Mapping)
    }
    written = [item for event in story.events for item in event.versions]
    applied = any(event.kind == "apply" and event.result == "ok" for event in story.events)
    known = list(planned.values())
    for item in written or known:
        instance, path = clean.text(item.get("instance")), clean.text(item.get("path"))
        plan = planned.get((instance, path), {})
        label = item.get("label") or clean.mapping(plan.get("source")).get("label")
        rows[(instance, path)] = {
            "instance": instance,
            "path": path,
            "before": clean.text(item.get("sha256_before") or item.get("before") or plan.get("sha256_before"), 80),
            "after": clean.text(item.get("sha256_after") or item.get("after") or plan.get("sha256_after"), 80),
            "label": clean.text(label, 200),
            "now": _now(story, bool(written) or applied),
            "back": commands.way_back(story, plan or item) or "",
        }
    return list(rows.values())


def _now(story: Story, written: bool) -> str:
    """Which of the two is in place now: before, after, or '' when nobody can tell."""
    if story.outcome == "confirmed":
        return "after"
    if story.outcome in ("rolled-back", "check", "refused", "nothing", "passed") or not written:
        return "before"
    return ""


def _steps(story: Story) -> list[dict[str, str]]:
    rows = []
    for event in story.events:
        word, sign, tone = wording.result_words(event.result)
        rows.append(
            {
                "at": wording.utc(event.began, "%H:%M:%S"),
                "kind": event.kind,
                "where": event.instance or event.machine,
                "seconds": wording.duration(event.seconds),
                "result": word,
                "sign": sign,
                "tone": tone,
                "said": event.said.partition(_CUT)[0],
            }
        )
        for step in event.steps:
            if event.kind == "rollback" and event.began is not None and step.at >= event.began - 1:
                rows.append(
                    {
                        "at": wording.utc(step.at, "%H:%M:%S"),
                        "kind": f"↳ {step.step}",
                        "where": step.instance,
                        "seconds": "",
                        "result": "",
                        "sign": "",
                        "tone": "calm",
                        "said": step.said,
                    }
                )
    return rows

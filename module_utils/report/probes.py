# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a probe's requests were answered, and how far its conversation came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from . import clean, wording
from .story import Story

_SHOWN = ("kind", "size", "streamed", "hop", "status", "finish_reason", "completion_tokens", "first_byte_s", "total_s")
_TOLD = (*_SHOWN, "verdict", "said")
_SIZES = {"page": "longer than a KV page", "chunk": "longer than a prefill chunk"}
STRIP_PX = 40
_FEWEST = 16


def answers_of(story: Story) -> list[dict[str, Any]]:
    """The single requests of ``pd_probe`` by hop, ``{hop, told, rows}``, in the order in which they were sent."""
    by_hop: dict[str, list[dict[str, Any]]] = {}
    for event in story.events:
        for answer in event.answers:
            by_hop.setdefault(clean.text(answer.get("hop"), 100), []).append(_row(answer))
    return [{"hop": hop, "told": _count(rows), "rows": rows} for hop, rows in by_hop.items()]


def conversation_of(story: Story) -> Optional[dict[str, Any]]:
    """The last conversation: a sentence, a strip of rounds for each series, the round by other hops, and the rest as rows."""
    found = [event.conversation for event in story.events if event.conversation]
    if not found:
        return None
    talk = found[-1] if isinstance(found[-1], Mapping) else {"said": found[-1]}
    word, sign, tone = (
        wording.result_words(clean.text(talk.get("verdict"), 60)) if talk.get("verdict") else ("", "", "calm")
    )
    rounds = [item for item in clean.sequence(talk.get("rounds")) if isinstance(item, Mapping)]
    rest = {key: value for key, value in talk.items() if key not in ("said", "verdict", "rounds", "tried")}
    return {
        "said": clean.text(talk.get("said")),
        "tone": tone,
        "sign": sign,
        "result": word,
        "strips": _strips(rounds),
        "tried": [_row(item) for item in clean.sequence(talk.get("tried")) if isinstance(item, Mapping)],
        "rows": clean.pairs({key: value for key, value in rest.items() if value not in (None, "", [], {})}),
    }


def _row(answer: Mapping[str, Any]) -> dict[str, Any]:
    word, sign, tone = wording.result_words(clean.text(answer.get("verdict"), 60))
    rest = {key: value for key, value in answer.items() if key not in _TOLD and value not in (None, "", [], {})}
    size = clean.text(answer.get("size"), 60)
    words = [clean.text(answer.get("kind"), 100) or "request", "streamed" if answer.get("streamed") is True else ""]
    words.append(_SIZES.get(size, "" if size == "short" else size))
    return {
        "request": ", ".join(word for word in words if word),
        "hop": clean.text(answer.get("hop"), 100),
        "status": clean.text(answer.get("status"), 20),
        "finish_reason": clean.text(answer.get("finish_reason"), 60),
        "tokens": clean.text(answer.get("completion_tokens"), 20),
        "first_byte": _seconds(answer.get("first_byte_s")),
        "total": _seconds(answer.get("total_s")),
        "result": word,
        "sign": sign,
        "tone": tone,
        "said": clean.text(answer.get("said")),
        "more": clean.pairs(rest) if rest else [],
    }


def _count(rows: list[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["result"]] = counts.get(row["result"], 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _strips(rounds: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A strip per series, a bar per round: its height is the time, and a failed round is as high as the strip."""
    times = [seconds for item in rounds if (seconds := clean.number(item.get("total_s"))) is not None and seconds > 0]
    slowest = max(times, default=0.0)
    by_series: dict[str, list[Mapping[str, Any]]] = {}
    for item in rounds:
        by_series.setdefault(clean.text(item.get("series"), 60) or "rounds", []).append(item)
    # Few rounds are drawn as narrow as many.
    most = max([_FEWEST, *(len(items) for items in by_series.values())])
    strips = []
    for series, items in by_series.items():
        bars = []
        for at, item in enumerate(items):
            seconds = clean.number(item.get("total_s"))
            verdict = clean.text(item.get("verdict"), 60)
            share = 1.0 if verdict == "failed" or not slowest or seconds is None else max(0.08, seconds / slowest)
            number = clean.text(item.get("round"), 12) or str(at + 1)
            word = wording.result_words(verdict)[0]
            bars.append(
                {
                    "x": round(100 * at / most, 3),
                    "width": round(86 / most, 3),
                    "height": round(STRIP_PX * share, 1),
                    "kind": verdict if verdict in wording.RESULT_WORDS else "pending",
                    "number": number if at == 0 or (at + 1) % 6 == 0 or verdict == "failed" else "",
                    "title": f"round {number}, {series}: {word} {wording.duration(seconds)} {clean.text(item.get('said'))}".strip(),
                }
            )
        told = _count([{"result": wording.result_words(clean.text(item.get("verdict"), 60))[0]} for item in items])
        strips.append({"series": series, "told": told, "bars": bars, "slowest": wording.duration(slowest or None)})
    return strips


def _seconds(value: Any) -> str:
    seconds = clean.number(value)
    return "" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"

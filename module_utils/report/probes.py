# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What a probe's requests were answered, and how far its conversation came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from . import clean, wording
from .story import Story

_SHOWN = ("kind", "hop", "status", "finish_reason", "completion_tokens", "first_byte_s", "total_s", "verdict", "said")


def answers_of(story: Story) -> list[dict[str, Any]]:
    """One row per request of ``pd_probe``, columns in text; what a row has beyond them is in ``more``."""
    rows = []
    for event in story.events:
        for answer in event.answers:
            word, sign, tone = wording.result_words(clean.text(answer.get("verdict"), 60))
            rows.append(
                {
                    "kind": clean.text(answer.get("kind"), 100),
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
                    "more": _more(answer),
                }
            )
    return rows


def conversation_of(story: Story) -> Optional[dict[str, Any]]:
    """The last conversation: a sentence, its rounds if they were kept, and the rest as plain rows."""
    found = [event.conversation for event in story.events if event.conversation]
    if not found:
        return None
    talk = found[-1]
    if not isinstance(talk, Mapping):
        return {"said": clean.text(talk), "tone": "calm", "sign": "·", "result": "", "rows": []}
    word, sign, tone = wording.result_words(clean.text(talk.get("verdict") or talk.get("result"), 60))
    rest = {key: value for key, value in talk.items() if key not in ("said", "verdict", "result")}
    return {"said": clean.text(talk.get("said")), "tone": tone, "sign": sign, "result": word, "rows": clean.pairs(rest)}


def _seconds(value: Any) -> str:
    seconds = clean.number(value)
    return "" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def _more(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    rest = {key: value for key, value in answer.items() if key not in _SHOWN and value not in (None, "", [], {})}
    return clean.pairs(rest)

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The requests that a probe sends: three kinds, whole or streamed, short or longer than a page or a prefill chunk."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

CHAT, COMPLETIONS, GENERATE = "chat", "completions", "generate"
PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions", GENERATE: "/generate"}
SIZES = ("short", "page", "chunk")
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_TEXT = (
    "the pair reads what runs before it writes what should run and keeps an old text beside a new one until all of "
    "its gates have passed so that nobody has to guess later which value was there and who had put it there or why"
)
_WORDS = _TEXT.split()


def nonce() -> str:
    """A word that nobody has seen before, which a model can repeat."""
    return "nonce-" + "".join(secrets.choice(_LETTERS) for _ in range(8))


@dataclass(frozen=True)
class Question:
    """One request. ``body`` has no fields of a hop (bootstrap_*) yet."""

    kind: str
    streamed: bool
    size: str
    nonce: str
    max_tokens: int
    body: Dict[str, Any]
    over_tokens: Optional[int] = None  # the prompt must count more tokens than this
    words: int = 0

    @property
    def path(self) -> str:
        return PATHS[self.kind]

    @property
    def label(self) -> str:
        parts = [self.kind]
        if self.size != "short":
            parts.append(f"longer than a {'KV page' if self.size == 'page' else 'prefill chunk'}")
        parts.append("streamed" if self.streamed else "whole")
        return ", ".join(parts)


def filler(count: int) -> str:
    """``count`` common words; each is at least one token of any tokenizer that splits at blanks."""
    return " ".join(_WORDS[index % len(_WORDS)] for index in range(count))


def _shape(kind: str, model: str, prompt: str, messages: Optional[Sequence[Dict[str, str]]]) -> Dict[str, Any]:
    if kind == CHAT:
        return {"model": model, "messages": list(messages or [{"role": "user", "content": prompt}])}
    if kind == COMPLETIONS:
        return {"model": model, "prompt": prompt}
    return {"text": prompt}


def question(
    kind: str,
    streamed: bool,
    model: str,
    prompt: str,
    max_tokens: int,
    word: str,
    size: str = "short",
    over_tokens: Optional[int] = None,
    messages: Optional[Sequence[Dict[str, str]]] = None,
) -> Question:
    """A question of this kind; ``messages`` instead of ``prompt`` for a conversation."""
    body = _shape(kind, model, prompt, messages)
    if kind == GENERATE:
        body["sampling_params"] = {"max_new_tokens": max_tokens, "temperature": 0}
    else:
        body.update(max_tokens=max_tokens, temperature=0)
        if streamed:
            body["stream_options"] = {"include_usage": True}
    body["stream"] = streamed
    return Question(kind, streamed, size, word, max_tokens, body, over_tokens, len(prompt.split()))


def short(kind: str, streamed: bool, model: str, max_tokens: int) -> Question:
    word = nonce()
    prompt = f"{word} Say the word {word} first, and then count from one to five."
    return question(kind, streamed, model, prompt, max_tokens, word)


def long(size: str, over_tokens: int, words: int, model: str, max_tokens: int) -> Question:
    """A chat with a prompt of about ``words`` words, which shall count more than ``over_tokens`` tokens.

    The nonce stands in front, so that no prefix cache answers for the prefill.
    """
    word = nonce()
    prompt = f"{word} {filler(words)} Say the word {word} first, and then what comes next."
    return question(CHAT, True, model, prompt, max_tokens, word, size, over_tokens)


def words_for(over_tokens: int, tokens_per_word: float, room: int) -> Optional[int]:
    """How many words make more than ``over_tokens`` tokens within ``room`` tokens; None when nothing does.

    A word is at least one token, so that many words are enough; fewer only where the context would not hold them.
    """
    safe = math.ceil(over_tokens * 1.02) + 16
    if safe * tokens_per_word <= room:
        return safe
    fewer = math.ceil(over_tokens * 1.1 / tokens_per_word) + 1
    return fewer if fewer * tokens_per_word <= room else None


def kinds() -> List[Tuple[str, bool]]:
    """Every kind, whole and streamed."""
    return [(kind, streamed) for kind in (CHAT, COMPLETIONS, GENERATE) for streamed in (False, True)]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How long the prompts of gate completion are: one longer than a KV page, one longer than a prefill chunk.

A short prompt stays within one page and one chunk, and proves neither that pages after the first are transferred nor
that chunked prefill works with it.
"""

from __future__ import annotations

import itertools
import math
import uuid
from dataclasses import dataclass
from typing import List, Optional, Tuple

from .base import Look, Target
from .engine_info import server_info, whole_number

#: Without an engine's word: DeepSeek-V4 has pages of 256 tokens (reference/sglang-pd.md H.1), most others 64 or less.
PAGE_TOKENS = 256
MARGIN_TOKENS = 16
TEMPLATE_TOKENS = 40  # around the words of the prompt: chat template, and the random mark
INFO_S = 5.0
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Sizes:
    """In tokens; None where no engine tells it. ``source`` names who told."""

    page: int
    chunk: Optional[int]
    context: Optional[int]
    source: str


def sizes_of(target: Target, look: Look) -> Tuple[Sizes, Optional[str]]:
    """Sizes of the pair, kept in the ladder's memory; with the sentence for a key that is refused."""
    kept = look.memory.get("sizes")
    if kept:
        return Sizes(*kept), None
    pages: List[int] = []
    chunks: List[int] = []
    contexts: List[int] = []
    told: List[str] = []
    for peer in target.engines("prefill", "decode"):
        info, why, status = server_info(peer.url, peer.api_key, look.request_s(INFO_S))
        if status in (401, 403):
            return Sizes(PAGE_TOKENS, None, None, ""), f"{peer.name}: {why}"
        if info is None:
            continue
        told.append(peer.name)
        pages += [size for size in [whole_number(info, "page_size")] if size and size > 0]
        if peer.role == "prefill":
            chunks += [size for size in [whole_number(info, "chunked_prefill_size")] if size and size > 0]  # -1: off
        for name in ("context_length", "max_total_num_tokens", "max_total_tokens"):
            contexts += [size for size in [whole_number(info, name)] if size and size > 0]
    found = Sizes(
        max(pages, default=PAGE_TOKENS),
        max(chunks, default=0) or None,
        min(contexts, default=0) or None,
        ", ".join(told),
    )
    if told:
        look.memory["sizes"] = [found.page, found.chunk, found.context, found.source]
    return found, None


def prompt(words: int) -> str:
    """So many words. The mark in front keeps the prefix cache from answering for the prefill."""
    text = " ".join(itertools.islice(itertools.cycle(_WORDS), words))
    return f"Mark {uuid.uuid4().hex[:8]}. Count from one to five after these numbers: {text}"


def first_words(sizes: Sizes) -> int:
    """Words of a prompt that is longer than a page; a word has at least one token."""
    words = sizes.page + MARGIN_TOKENS
    return words if sizes.context is None else max(1, min(words, sizes.context // 8))


def second_words(sizes: Sizes, words: int, tokens: int, longest: int, answer: int) -> Tuple[Optional[int], str]:
    """Words of a prompt that is longer than a prefill chunk, reckoned from what the first one cost; None and why not.

    :arg words: of the first prompt, and ``tokens`` it had by the engine's count.
    :arg longest: most tokens that the caller allows.
    :arg answer: tokens that the answer needs.
    """
    if sizes.chunk is None:
        return None, "no engine told its prefill chunk"
    if tokens > sizes.chunk:
        return None, ""
    room = longest if sizes.context is None else min(longest, sizes.context - answer - MARGIN_TOKENS)
    goal = sizes.chunk + MARGIN_TOKENS
    if room < goal:
        return None, f"a prefill chunk of {sizes.chunk} tokens is out of reach: a prompt may have {room}"
    low, high = max(1.0, (tokens - TEMPLATE_TOKENS) / words), max(1.0, tokens / words)
    wanted = min(math.ceil(goal / low), int((room - TEMPLATE_TOKENS) / high))
    return (
        (wanted, "") if wanted > words else (None, f"a prefill chunk of {sizes.chunk} tokens is too close to the limit")
    )

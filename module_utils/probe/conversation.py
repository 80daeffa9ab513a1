# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""A conversation as an agent has it: each round sends all that was said before, and waits for a streamed answer.

A single request through a proxy proves little (one that wedges at the fifth round answers the first):
what hangs in the field hangs in a long series, over one connection that is kept alive. The series over
fresh connections tells a fault of the connection pool from one of the hop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from ..gates.base import FAILED, PASSED, UNSEEN
from .hops import Asked, Hop, abort
from .judging import judge, seconds
from .plan import Budget, Plan
from .questions import CHAT, Question, filler, nonce, question

#: A line of progress, and whether it is good news.
Tell = Callable[[str, bool], None]
_PLACE = {"kept": "on the kept connection", "fresh": "on fresh connections"}


@dataclass
class Answered:
    """One request and what came of it: the fields for the result, and the words after the name of who was asked."""

    fields: Dict[str, Any]
    words: str
    asked: Asked
    question: Question
    content: str

    @property
    def ok(self) -> bool:
        return bool(self.fields["verdict"] == PASSED)

    @property
    def who(self) -> str:
        return self.asked.who

    @property
    def heavy(self) -> bool:
        """A failure that costs: the router counts it against its workers (a retry each), or it took the whole deadline."""
        status = self.asked.exchange.status
        return not self.ok and (self.asked.exchange.failure is not None or (status or 0) >= 500)

    @property
    def hung(self) -> bool:
        failure = self.asked.exchange.failure
        return failure is not None and failure.kind == "timeout"


def put(hop: Hop, asked_for: Question, plan: Plan, budget: Budget) -> Answered:
    """Ask, judge. The connection is left as it is, also after a failure."""
    asked = hop.ask(asked_for, budget.limits(plan.deadlines))
    fields, parsed, words = judge(asked_for, asked.exchange, plan.require_echo)
    fields.update(hop=hop.name, url=hop.url, request_id=asked.request_id, said=f"{asked.who} {words}")
    return Answered(fields, words, asked, asked_for, parsed.content)


def give_up(hop: Hop, answered: Answered, plan: Plan) -> None:
    """Close the connection of a request that failed, and tell the engines by its id where it is known."""
    hop.close()
    answered.fields["aborted"] = abort(answered.asked, answered.question, plan.engines)


@dataclass
class Talk:
    """What was said so far. Old rounds are forgotten where the context would not hold them."""

    model: str
    max_tokens: int
    words: int
    context: Optional[int]

    def __post_init__(self) -> None:
        self.messages: List[Dict[str, str]] = []
        self.forgotten = 0
        self._last_tokens = 0
        self._tokens_per_word = 4.0  # until an answer counted them; more than any common tokenizer needs

    def next(self, number: int, rounds: int) -> Question:
        """The question of this round."""
        word = nonce()
        text = (
            f"Round {number} of {rounds}. The tool returned: {filler(self.words)}. "
            f"Say the word {word} first, and then what is next."
        )
        grown = int(len(text.split()) * self._tokens_per_word) + 16
        while self.context and len(self.messages) >= 2 and self._last_tokens + grown + self.max_tokens > self.context:
            gone, self.messages = self.messages[:2], self.messages[2:]
            self.forgotten += 1
            self._last_tokens -= int(sum(len(one["content"].split()) for one in gone) * self._tokens_per_word)
        self.messages.append({"role": "user", "content": text})
        return question(CHAT, True, self.model, "", self.max_tokens, word, messages=self.messages)

    def took(self, answered: Answered) -> None:
        self.messages.append({"role": "assistant", "content": answered.content or "(nothing)"})
        sent, came = answered.fields["prompt_tokens"], answered.fields["completion_tokens"]
        if sent is not None:
            self._last_tokens = sent + (came or self.max_tokens)
            asked = sum(len(one["content"].split()) for one in self.messages[:-1])
            self._tokens_per_word = max(1.0, sent / max(1, asked))


def converse(plan: Plan, model: str, context: Optional[int], budget: Budget, tell: Tell) -> Dict[str, Any]:
    """All series through the outermost hop, up to the first round that fails.

    Returns ``rounds`` (a dict each), ``failed_round`` (None: all were answered), ``series``, ``hop`` (the ill one),
    ``said``, ``verdict`` and, after a failure, ``tried``: the same round elsewhere.
    """
    name = plan.hops[0]
    done: List[Dict[str, Any]] = []
    forgotten = 0
    for series in plan.series:
        hop = plan.hop(name)
        talk = Talk(model, plan.max_tokens, plan.round_words, context)
        try:
            for number in range(1, plan.rounds + 1):
                if not budget.holds(plan.deadlines):
                    words = f"round {number} of {plan.rounds} ({series}) was not sent: {budget.over}"
                    return {**_result(done, None, series, None, words, forgotten), "verdict": FAILED}
                if series == "fresh":
                    hop.close()
                answered = put(hop, talk.next(number, plan.rounds), plan, budget)
                answered.fields.update(round=number, series=series)
                done.append(answered.fields)
                if not answered.ok:
                    tell(f"round {number} of {plan.rounds} ({series}): {answered.fields['said']}", False)
                    return _explain(plan, hop, answered, budget, tell, done, forgotten + talk.forgotten)
                talk.took(answered)
                tell(f"round {number} of {plan.rounds} ({series}): {answered.words}", True)
        finally:
            hop.close()
        forgotten += talk.forgotten
    ways = " and ".join(_PLACE[series] for series in plan.series)
    slow = max(done, key=lambda one: one["first_byte_s"] or 0.0)
    words = (
        f"all {plan.rounds} rounds by the {name}, {ways}, were answered; "
        f"the slowest first byte took {slow['first_byte_s'] or 0.0:.2f} s (round {slow['round']})"
    )
    return _result(done, None, None, name, words, forgotten)


def not_held(hop: str, why: str) -> Dict[str, Any]:
    """In place of a conversation that would tell nothing new and do harm."""
    return {**_result([], None, None, hop, f"no conversation was held: {why}", 0), "verdict": UNSEEN}


def _result(
    rounds: List[Dict[str, Any]],
    failed: Optional[int],
    series: Optional[str],
    hop: Optional[str],
    said: str,
    forgotten: int,
) -> Dict[str, Any]:
    return {
        "rounds": rounds,
        "failed_round": failed,
        "series": series,
        "hop": hop,
        "said": said,
        "verdict": PASSED if failed is None else FAILED,
        "forgotten_rounds": forgotten,
        "tried": [],
    }


def _elsewhere(plan: Plan, name: str, answered: Answered, budget: Budget, tell: Tell) -> Answered:
    """The same round over a fresh connection of a hop."""
    hop = plan.hop(name)
    found = put(hop, answered.question, plan, budget)
    tell(f"the same round by the {name}: {found.words if found.ok else found.fields['said']}", found.ok)
    if found.ok:
        hop.close()
    else:
        give_up(hop, found, plan)
    return found


def _explain(
    plan: Plan,
    hop: Hop,
    answered: Answered,
    budget: Budget,
    tell: Tell,
    done: List[Dict[str, Any]],
    forgotten: int,
) -> Dict[str, Any]:
    """Who is ill: the innermost of the hops that fail, when all further in work.

    The failed connection stays open until the inner hops have been tried: closing it first would
    destroy what there is to see of the hang.
    """
    number, series = answered.fields["round"], answered.fields["series"]
    ill, phrases, tried = hop.name, [], []
    for name in plan.inner(hop.name):
        if not budget.holds(plan.deadlines):
            phrases.append(f"the {name} hop was not tried: {budget.over}")
            break
        found = _elsewhere(plan, name, answered, budget, tell)
        tried.append(found.fields)
        if found.ok:
            phrases.append(f"{name} hop fine ({found.fields['total_s']:.1f} s)")
            break
        ill = name
        phrases.append(f"{name} hop fails too: {found.fields['said']}")
    give_up(hop, answered, plan)
    if not phrases:
        phrases = ["no hop further in is known to try"] if hop.name != "pair" else []
    again = None
    if (
        ill == hop.name
        and series == "kept"
        and answered.fields["connection"] == "kept"
        and budget.holds(plan.deadlines)
    ):
        again = _elsewhere(plan, hop.name, answered, budget, tell)
        tried.append({**again.fields, "connection": "fresh"})
        phrases.append(
            "a fresh connection to it works, so that the kept one is ill" if again.ok else "a fresh connection hangs too"
            if again.hung else "a fresh connection fails too"
        )  # fmt: skip
    words = "; ".join([f"round {number} of {plan.rounds}, {_PLACE[series]}: {answered.fields['said']}", *phrases])
    return {
        **_result(done, number, series, ill, words, forgotten),
        "hop_asked": hop.name,
        "tried": tried,
        "waited_s": seconds(answered.asked.exchange.total_s),
    }

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The whole probe, from the inside out: requests by the inner hops, the conversation by the outermost, then its requests.

The proxy is asked nothing before the conversation: a proxy that wedges after some rounds
shall be found at the round at which a client would find it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from ..endpoint import Failure, join, request
from ..gates.base import FAILED, PASSED, UNSEEN
from ..pdops_error import PdopsError
from . import questions, queues
from .conversation import Answered, Tell, converse, give_up, not_held, put
from .hops import HOPS, PROXY, ROUTER
from .plan import Budget, Plan
from .table import table

_ASK_S = 5.0
#: SGLang looks every few seconds whether a client is still there (tokenizer_manager.py).
_SETTLE_S = 12.0
#: When nobody says: larger than any page of common settings; the chunk is SGLang's on big GPUs.
DEFAULT_PAGE, DEFAULT_CHUNK = 256, 8192


@dataclass(frozen=True)
class Model:
    """What is to be known before asking; tokens."""

    name: str
    context: Optional[int]
    page: int
    chunk: Optional[int]  # None: the engine does not chunk


def _get(url: str, path: str, key: Optional[str], budget: Budget) -> Tuple[Any, str]:
    """The JSON of an answer and "", or None and why not."""
    reply = request(join(url, path), timeout_s=max(0.2, min(_ASK_S, budget.left_s())), api_key=key)
    if isinstance(reply, Failure):
        return None, f"{url}: {reply.said}"
    if reply.status in (401, 403):
        return None, f"{url}{path} answered {reply.status}: an API key is missing or wrong (api_key_file)"
    try:
        if reply.status == 200:
            return reply.data(), ""
    except ValueError:
        pass
    return None, f"{url}{path} answered {reply.status}: {reply.text(100) or 'no body'}"


def _models(plan: Plan) -> List[Tuple[str, Optional[str]]]:
    """Whom to ask for the model, innermost first: the proxy is asked only where nobody else is known."""
    found: List[Tuple[str, Optional[str]]] = []
    if plan.engines is not None:
        found.append((plan.engines.decode_url, plan.engines.api_key))
    if ROUTER in plan.urls:
        found.append((plan.urls[ROUTER], plan.api_key))
    if not found:
        found.append((plan.urls[PROXY], plan.proxy_key or plan.api_key))
    return found


def find_model(plan: Plan, budget: Budget) -> Model:
    """PdopsError with all that was said when nobody names a model."""
    name, context, said = plan.model, None, []
    for url, key in _models(plan):
        data, why = _get(url, "/v1/models", key, budget)
        try:
            card = data["data"][0]
            name, context = name or str(card["id"]), card.get("max_model_len")
            break
        except (KeyError, IndexError, TypeError, AttributeError):
            said.append(why or f"{url}/v1/models names no model")
    if name is None:
        raise PdopsError(f"no model is known to ask for: {'; '.join(said)}")
    page, chunk = plan.page_tokens, plan.chunk_tokens
    told: Any = None
    if plan.engines is not None and (page is None or chunk is None):
        told, _why = _get(plan.engines.prefill_url, "/server_info", plan.engines.api_key, budget)
    told = told if isinstance(told, dict) else {}
    if page is None:
        page = told["page_size"] if isinstance(told.get("page_size"), int) else DEFAULT_PAGE
    if chunk is None:
        size = told.get("chunked_prefill_size", DEFAULT_CHUNK)
        chunk = DEFAULT_CHUNK if not isinstance(size, int) else (size if size > 0 else None)
    return Model(name, context if isinstance(context, int) else None, page, chunk)


class _Prober:
    def __init__(self, plan: Plan, tell: Tell) -> None:
        self.plan, self.tell = plan, tell
        self.budget = Budget(plan.timeout_s)
        self.answers: List[Dict[str, Any]] = []
        self.cut = ""  # why not all was asked, when it was our own time
        self.model = find_model(plan, self.budget)

    # --- requests

    def _long(self, size: str, tokens_per_word: float) -> Tuple[Optional[questions.Question], str]:
        """The question, or None and why there is none."""
        model = self.model
        over = model.page if size == "page" else model.chunk
        if over is None:
            return None, "the prefill does not chunk (chunked_prefill_size is -1)"
        room = (model.context or 10**9) - self.plan.max_tokens - 96
        words = questions.words_for(over, tokens_per_word, room)
        if words is None:
            what = "a KV page" if size == "page" else "a prefill chunk"
            return None, f"{what} has {over} tokens, and the model's context of {model.context} holds no longer prompt"
        return questions.long(size, over, words, model.name, self.plan.max_tokens), ""

    def skip(self, name: str, kind: str, size: str, streamed: bool, why: str) -> None:
        self.answers.append(
            {"kind": kind, "size": size, "streamed": streamed, "hop": name, "verdict": UNSEEN, "said": why}
        )

    def requests(self, name: str) -> None:
        """Every kind, whole and streamed, and two long prompts, by one hop.

        After one that hung or was answered 5xx no more are sent, after two that failed otherwise neither: ten
        attempts open the router's circuit breakers for all clients, and it makes five of every request.
        """
        hop = self.plan.hop(name)
        tokens_per_word = 1.0
        enough, failures = "", 0
        try:
            for kind, streamed, size in [
                *((kind, streamed, "short") for kind, streamed in questions.kinds()),
                (questions.CHAT, True, "page"),
                (questions.CHAT, True, "chunk"),
            ]:
                if not self.budget.holds(self.plan.deadlines):
                    enough = self.cut = self.budget.over
                if enough:
                    self.skip(name, kind, size, streamed, f"not asked: {enough}")
                    continue
                if size == "short":
                    asked: Optional[questions.Question] = questions.short(
                        kind, streamed, self.model.name, self.plan.max_tokens
                    )
                    why = ""
                else:
                    asked, why = self._long(size, tokens_per_word)
                if asked is None:
                    self.skip(name, kind, size, streamed, f"not asked: {why}")
                    continue
                answered = put(hop, asked, self.plan, self.budget)
                if name == PROXY and kind != questions.CHAT and answered.fields["status"] in (404, 405):
                    hop.close()
                    why = f"{hop.who} does not pass {asked.path} on ({answered.fields['status']})"
                    self.skip(name, kind, size, streamed, why)
                    continue
                self.answers.append(answered.fields)
                said = answered.words if answered.ok else answered.fields["said"]
                self.tell(f"{name}: {asked.label}: {said}", answered.ok)
                if not answered.ok:
                    give_up(hop, answered, self.plan)
                    failures += 1
                    if answered.heavy or failures > 1:
                        enough = f"the {name} hop has failed, and more failures could open circuit breakers"
                tokens_per_word = _per_word(answered, tokens_per_word)
        finally:
            hop.close()


def _per_word(answered: Answered, known: float) -> float:
    """Measured on the longest prompt so far, where the chat template weighs little."""
    tokens = answered.fields["prompt_tokens"]
    words = answered.question.words
    return max(1.0, tokens / words) if tokens is not None and words else known


def run(plan: Plan, tell: Tell = lambda _line, _good: None) -> Dict[str, Any]:
    """Probe. Returns the data of pd_probe without ``changed``; PdopsError when nobody names a model.

    ``tell`` is given each line of progress, and whether it is a good one.

    ``verdict`` is failed when a request or a round failed; requests that could not be sent are not-observable.
    """
    prober = _Prober(plan, tell)
    before = queues.look_at(plan.engines) if plan.engines is not None else None
    inner = [name for name in reversed(HOPS) if name in plan.hops and name != PROXY]
    talk: Optional[Dict[str, Any]] = None
    if plan.requests:
        for name in inner:
            prober.requests(name)
    ill = next((one["hop"] for one in prober.answers if one["verdict"] == FAILED), None)
    if plan.rounds and ill is not None:
        talk = not_held(ill, f"the {ill} hop does not answer single requests well")
    elif plan.rounds:
        talk = converse(plan, prober.model.name, prober.model.context, prober.budget, tell)
    if plan.requests and PROXY in plan.hops:
        failed = talk is not None and talk["verdict"] == FAILED
        if failed or ill is not None:
            why = "the conversation failed" if failed else f"the {ill} hop has failed"
            for kind, streamed in questions.kinds():
                prober.skip(PROXY, kind, "short", streamed, f"not asked: {why}")
        else:
            prober.requests(PROXY)
    return _result(prober, talk, before)


def _result(
    prober: _Prober, talk: Optional[Dict[str, Any]], before: Optional[Dict[str, queues.Queues]]
) -> Dict[str, Any]:
    plan, answers = prober.plan, prober.answers
    bad = [one for one in answers if one["verdict"] == FAILED]
    failed = bool(bad) or bool(prober.cut) or (talk is not None and talk["verdict"] == FAILED)
    after = None
    if plan.engines is not None and before is not None:
        patience_s = max(0.0, min(_SETTLE_S, prober.budget.left_s())) if failed else 0.0
        after = queues.settle(plan.engines, before, patience_s)
    return {
        "verdict": FAILED if failed else PASSED,
        "said": _said(prober, bad, talk, after),
        "hop": _ill(bad, talk),
        "model": prober.model.name,
        "hops": {name: prober.plan.hop(name).url for name in plan.hops},
        "answers": answers,
        "conversation": talk,
        "queues": after,
        "left_in_queues": after["left_in_queues"] if after is not None else None,
        "table": table(answers, talk),
        "seconds": round(prober.budget.spent_s(), 2),
    }


def _ill(bad: List[Dict[str, Any]], talk: Optional[Dict[str, Any]]) -> Optional[str]:
    """The hop that fails while those further in work; requests are asked from the inside out."""
    if bad:
        return str(bad[0]["hop"])
    return talk["hop"] if talk is not None and talk["verdict"] == FAILED else None


def _said(
    prober: _Prober,
    bad: List[Dict[str, Any]],
    talk: Optional[Dict[str, Any]],
    after: Optional[Dict[str, Any]],
) -> str:
    """One sentence: the failure that says most, or what held."""
    parts = []
    plan, answers = prober.plan, prober.answers
    talk_failed = talk is not None and talk["verdict"] == FAILED
    if talk is not None and talk_failed:
        parts.append(talk["said"])
    elif bad:
        first = bad[0]
        label = f"{first['kind']}, {'streamed' if first['streamed'] else 'whole'}"
        more = f" ({len(bad)} requests failed)" if len(bad) > 1 else ""
        parts.append(f"{first['hop']} hop: {label}: {first['said']}{more}")
        well = [name for name in plan.inner(first["hop"]) if any(one["hop"] == name for one in answers)]
        parts += [f"{name} hop fine" for name in well]
    else:
        good = sum(one["verdict"] == PASSED for one in answers)
        parts += [f"{good} requests by {', '.join(plan.hops)} were answered"] if good else []
        parts += [talk["said"]] if talk is not None else []
        parts += [f"not all was asked: {prober.cut}"] if prober.cut else []
    if after is not None and after["left_in_queues"] and (bad or talk_failed):
        left = ", ".join(
            f"{count} in {engine}'s {queue}" for engine, more in after["left"].items() for queue, count in more.items()
        )
        parts.append(f"more is in the queues than before: {left}")
    return "; ".join(parts)

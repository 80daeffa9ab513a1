# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""How many requests an instance has, by its own word."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.services import draining
from ansible_collections.pdops.sglang.plugins.module_utils.services.draining import Drain, count_loads, requests_of


def rank(running: int = 0, waiting: int = 0, **queues: int) -> dict[str, Any]:
    """One rank as /v1/loads of SGLang 0.5.23 tells it: waiting requests are those of the PD queues too."""
    told = {"prefill_bootstrap_queue_reqs": 0, "prefill_inflight_queue_reqs": 0, "decode_transfer_queue_reqs": 0}
    return {"num_running_reqs": running, "num_waiting_reqs": waiting, "disaggregation": {**told, **queues}}


def test_each_request_counts_once() -> None:
    assert count_loads({"loads": [rank()]}) == 0
    assert count_loads({"loads": [rank(running=1, waiting=1, decode_transfer_queue_reqs=1)]}) == 2
    assert count_loads({"loads": [rank(waiting=2, prefill_bootstrap_queue_reqs=2, prefill_inflight_queue_reqs=3)]}) == 5
    assert count_loads({"loads": [rank(running=2), rank(running=3)]}) == 5


@pytest.mark.parametrize("data", [None, [], {}, {"loads": []}, {"loads": [1]}, {"loads": "x"}])
def test_what_is_no_load_is_not_nought(data: Any) -> None:
    with pytest.raises(ValueError, match="no load"):
        count_loads(data)


def test_nobody_who_answers_is_not_nought_either() -> None:
    assert requests_of("http://127.0.0.1:1") is None
    with Drain("http://127.0.0.1:1", None, None) as drain:
        pass
    assert (drain.at_begin, drain.at_end) == (None, None)


def test_idle_is_nought_twice_in_a_row_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "SAMPLE_S", 0.001)
    counts = [3, 1, 0, 2, 0, 0, 7]
    monkeypatch.setattr(draining, "requests_of", lambda *_asked: counts.pop(0))
    drain = Drain("http://engine", None, None)
    drain._look()
    assert drain.until_idle(60) < 10 and counts == [7]
    monkeypatch.setattr(draining, "requests_of", lambda *_asked: 1)
    assert 0.05 <= drain.until_idle(0.05) < 10
    monkeypatch.setattr(draining, "requests_of", lambda *_asked: None)
    assert drain.until_idle(60) < 10, "one that cannot be asked any more is not waited for"

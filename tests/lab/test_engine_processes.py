# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""Starts, ends and deaths of a simulated engine, as of the recorded real one."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from lab import processes

from .engines import (
    Pair,
    ask,
    hello,
    pair,  # noqa: F401 (a fixture)
    scheduler_of,
    until,
)

pytestmark = pytest.mark.lab


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_environ_of_the_scheduler_is_overwritten(pair: Pair) -> None:
    decode = pair.engine("decode", SGLANG_SM120_MMA_TARGET_CTAS="512", PDOPS_LAB_HELPER="1")
    assert b"SGLANG_SM120_MMA_TARGET_CTAS=512" in Path(f"/proc/{decode.pid}/environ").read_bytes()
    assert b"SGLANG" not in Path(f"/proc/{scheduler_of(decode)}/environ").read_bytes()
    helper = next(one for one in children(decode.pid) if b"resource_tracker" in command(one))
    assert b"SGLANG_SM120_MMA_TARGET_CTAS=512" in Path(f"/proc/{helper}/environ").read_bytes()
    pair.end(decode)
    until(lambda: not processes.own([str(pair.folder)], []))  # the helper goes too
    kept = pair.engine("decode", SPT_NOENV="1", SGLANG_SM120_MMA_TARGET_CTAS="512")
    assert b"SGLANG_SM120_MMA_TARGET_CTAS=512" in Path(f"/proc/{scheduler_of(kept)}/environ").read_bytes()


def test_sigkill_of_the_main_leaves_nothing(pair: Pair) -> None:
    process = pair.engine("prefill")
    assert len(processes.own([str(pair.folder)], [])) == 3
    pair.end(process, signal.SIGKILL)
    until(lambda: not processes.own([str(pair.folder)], []))


def test_death_of_a_child_ends_the_main(pair: Pair) -> None:
    process = pair.engine("decode")
    os.kill(scheduler_of(process), signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert "Received sigquit from a child process" in pair.log("decode")


def test_load_then_drain(pair: Pair) -> None:
    process = pair.engine("decode", wait=False, PDOPS_LAB_LOAD_S="300")
    until(lambda: "Load weight begin" in pair.log("decode"))
    assert ask(pair.decode, "/health") == (0, "ConnectionRefusedError")
    assert pair.end(process) == -signal.SIGTERM  # at once while loading
    process = pair.engine("decode", PDOPS_LAB_TOKEN_S="0.1")
    body = {"text": "x", "sampling_params": {"max_new_tokens": 50}, "bootstrap_host": "2.2.2.2", "bootstrap_room": 0}
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(pair.decode, "/generate", body)))
    thread.start()
    until(lambda: json.loads(ask(pair.decode, "/v1/loads")[1])["loads"][0]["num_running_reqs"])
    process.send_signal(signal.SIGTERM)
    until(lambda: ask(pair.decode, "/health")[0] == 503)
    assert ask(pair.decode, "/model_info")[0] == 200
    assert ask(pair.decode, "/generate", {**body, "sampling_params": {"max_new_tokens": 1}})[0] == 200  # still served
    thread.join()
    assert answers[0][0] == 200 and json.loads(answers[0][1])["meta_info"]["completion_tokens"] == 50
    assert process.wait(60) == 0


def test_starts_that_fail(pair: Pair) -> None:
    bad = [
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "51l"}, (), 1, "invalid literal for int() with base 10: '51l'"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "0"}, (), 1, "must be a positive integer"),
        ({"SGLANG_HEALTH_CHECK_TIMEOUT": "20s"}, (), 1, "invalid literal"),
        ({}, ("--page-size", "many"), 2, "argument --page-size: invalid int value: 'many'"),
        ({"UCX_TLS": "wrong"}, (), 3, "does not start with UCX_TLS=wrong"),
    ]
    pair.faults(decode={"refuse_start_with": {"UCX_TLS": "wrong"}})
    for env, flags, code, words in bad:
        assert pair.engine("decode", *flags, wait=False, **env).wait(60) == code
        assert words in pair.log("decode").splitlines()[-1]


def test_keys_guard_all_but_health(pair: Pair) -> None:
    secret = pair.folder / "secret.yaml"
    secret.write_text("api-key: a-key-of-the-test\n")
    pair.engine("decode", "--config", str(secret))
    assert ask(pair.decode, "/metrics")[0] == 200
    assert ask(pair.decode, "/server_info")[0] == 401 == ask(pair.decode, "/v1/loads")[0]
    status, text = ask(pair.decode, "/server_info", Authorization="Bearer a-key-of-the-test")
    assert status == 200 and "a-key-of-the-test" not in text + pair.log("decode")


def test_a_refused_knob_ends_well_before_the_load_does(pair: Pair) -> None:
    pair.faults(decode={"refuse_start_with": {"UCX_TLS": "wrong"}})
    process = pair.engine("decode", wait=False, UCX_TLS="wrong", PDOPS_LAB_LOAD_S="16")
    until(lambda: "Load weight begin" in pair.log("decode"))
    assert process.wait(12) == 3


def test_deaths_at_the_first_request(pair: Pair) -> None:
    pair.engine("prefill", "--page-size", "64")
    decode = pair.engine("decode", "--page-size", "1")
    assert pair.direct(hello(), 1)["decode"][0] != 200
    assert decode.wait(60) == -signal.SIGKILL and "Page size mismatch" in pair.log("decode")
    pair.faults(decode={"page_size": 64})
    decode = pair.engine("decode", "--page-size", "1")
    assert {one[0] for one in pair.direct(hello()).values()} == {200}
    pair.faults(decode={"page_size": 64, "die_at_first_request": True, "slow_load": 0.5})
    assert pair.direct(hello(), 1)["decode"][0] != 200
    assert decode.wait(60) == -signal.SIGKILL
    begin = time.monotonic()
    pair.engine("decode")
    assert time.monotonic() - begin > 0.9


def test_prefill_replaced_behind_decodes_back(pair: Pair) -> None:
    prefill = pair.engine("prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="3")
    pair.engine("decode", SGLANG_DISAGGREGATION_WAITING_TIMEOUT="3")
    assert {one[0] for one in pair.direct(hello()).values()} == {200}
    pair.end(prefill, signal.SIGKILL)
    pair.engine("prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="3")
    stale = pair.direct(hello())  # decode still has the addresses of the old one
    assert {one[0] for one in stale.values()} == {500} and "WaitingForInput" in stale["decode"][1]
    assert {one[0] for one in pair.direct(hello()).values()} == {200}  # the timeout made it forget

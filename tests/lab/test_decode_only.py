# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Decode restarted alone, both engines loading at once, and the router's registry. The router is the real one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from .conftest import KNOB, ROOT, Lab

WORKER = "pdops.sglang.pd_worker"


def ask(url: str, tokens: int = 4, stream: bool = False, timeout_s: float = 30) -> tuple[int, bytes]:
    body = {"model": "x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": tokens, "stream": stream}
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def breakers(lab: Lab) -> dict[str, int]:
    lines = get(lab.told["instances"]["lab-router"]["metrics_url"]).splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if line.startswith("smg_worker_cb_state{")]
    return {name.split('"')[1]: int(value) for name, value in rows}


def task(lab: Lab, arguments: dict[str, Any], *more: str) -> dict[str, Any]:
    """Run pd_worker as a task on the router's machine."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ansible",
            "adhoc",
            "lab-router",
            "-m",
            WORKER,
            "-a",
            json.dumps({"state_dir": str(lab.dir / "state"), **arguments}),
            "-o",
            *more,
        ],
        cwd=ROOT,
        env=lab.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return dict(json.loads(done.stdout.partition("=>")[2]))


def worker(lab: Lab, role: str, state: str, *more: str) -> dict[str, Any]:
    told = lab.told["instances"]
    arguments = {
        "router_url": told["lab-router"]["url"],
        "url": told[f"lab-{role}"]["url"],
        "role": role,
        "state": state,
        "bootstrap_port": told["lab-prefill"]["bootstrap_port"],
        "wait_s": 60,
    }
    return task(lab, arguments, *more)


@pytest.fixture
def up(module_lab: Lab) -> Lab:
    module_lab.lab("up", "--load-time-s", "0.4", "--health-time-s", "0.2")
    module_lab.lab("fault", "--clear")
    return module_lab


def test_decode_alone_is_taken_out_first_and_loses_nothing(up: Lab) -> None:
    url = up.told["instances"]["lab-router"]["url"]
    before = up.pids()
    got: list[tuple[int, bytes]] = []
    thread = threading.Thread(target=lambda: got.append(ask(url, 150, stream=True)))
    thread.start()
    process = up.start(
        "set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode", "-e", "scope=decode"
    )
    # With its only decode out, the router answers at once instead of letting requests hang.
    decode = up.told["instances"]["lab-decode"]["url"]
    up.wait("the removal", lambda: decode not in get(url + "/workers") and ask(url)[0] == 503)
    text, _ = process.communicate(timeout=600)
    thread.join()
    assert process.returncode == 0, text
    assert got[0][0] == 200 and got[0][1].rstrip().endswith(b"data: [DONE]"), "the running stream ended whole"
    after = up.pids()
    assert after["lab-decode"] != before["lab-decode"]
    assert (after["lab-prefill"], after["lab-router"]) == (before["lab-prefill"], before["lab-router"])
    assert up.running_knob() == "384"
    assert "is taken out of the router first" in text and "requests lost 0" in text
    steps = [(step["step"], step["instance"]) for step in up.changes()[-1]["steps"]]
    assert steps == [
        ("apply", ""),
        ("take out", "lab-router"),
        ("stop", "lab-decode"),
        ("start", "lab-decode"),
        ("register", "lab-router"),
    ]


@pytest.mark.long
def test_when_the_pair_does_not_serve_all_restart_once(up: Lab) -> None:
    up.lab("fault", "--role", "prefill", "poisoned_by_new_decode")
    assert up.serves()  # prefill has met a decode, so the next one is another
    before = up.pids()
    ran = up.play("restart.yml", "-e", "scope=decode", "-e", "pd_load_timeout_s=30", "-e", "pd_drain_s=3")
    assert ran.rc == 0, ran.text
    assert "decode alone was not enough, so prefill, decode and router are restarted, once" in ran.words
    after = up.pids()
    assert all(after[name] != before[name] for name in before)
    assert up.serves()


@pytest.mark.long
def test_both_engines_load_at_once_and_a_probe_comes_before_the_confirm(up: Lab) -> None:
    up.lab("fault", "--role", "prefill", "slow_load=4")
    ran = up.play("restart.yml", "-e", "overlap=true", "-e", "probe=true")
    assert ran.rc == 0, ran.text
    steps = [(step["step"], step["instance"]) for step in up.changes()[-1]["steps"]]
    assert steps[-3:] == [("start", "lab-prefill"), ("start", "lab-decode"), ("start", "lab-router")]
    bootstrap, health = (
        ran.text.index("lab-prefill  bootstrap   passed"),
        ran.text.index("lab-prefill  health      passed"),
    )
    assert bootstrap < ran.text.index("Start lab-decode") < health, "decode was started while prefill still loaded"
    for hop in ("pair", "router"):
        assert ran.text.index(f"{hop}: generate, streamed: gave") < ran.text.index("confirmed: restarted")
    assert up.changes()[-1]["lease"]["step"] == "probe", "the guard gave the probe its time"
    page = (up.dir / "reports" / "lab" / "latest.html").read_text()
    assert "longer than a chunk" in page or "longer than a prefill chunk" in page, "the answers are in the report"


@pytest.mark.long
def test_a_worker_that_is_registered_again_has_a_closed_breaker(up: Lab) -> None:
    """The question of the design, answered by the real router."""
    told = up.told["instances"]
    router, prefill, decode = (told[f"lab-{role}"]["url"] for role in ("router", "prefill", "decode"))
    up.lab("fault", "--role", "decode", "transfer_fail")

    def both_open() -> bool:
        ask(router)
        return breakers(up) == {prefill: 1, decode: 1}

    up.wait("that both breakers of the pair are open", both_open)
    up.lab("fault", "--clear")
    assert worker(up, "decode", "absent")["changed"]
    assert worker(up, "decode", "absent")["changed"] is False
    assert worker(up, "decode", "present", "--check")["changed"]
    assert decode not in get(router + "/workers")
    assert worker(up, "decode", "present")["changed"]
    assert breakers(up)[decode] == 0, "a new registration begins with a closed breaker"
    assert worker(up, "decode", "present")["changed"] is False
    assert worker(up, "prefill", "absent")["changed"] and worker(up, "prefill", "present")["changed"]
    assert breakers(up) == {prefill: 0, decode: 0}
    assert ask(router)[0] == 200, "and requests pass at once, without waiting for the breaker's time"


def test_a_forgotten_worker_is_registered_by_the_verb(up: Lab) -> None:
    worker(up, "prefill", "absent")
    assert ask(up.told["instances"]["lab-router"]["url"])[0] == 503
    shown = up.play("register_worker.yml", "--check")
    assert shown.rc == 0 and shown.recap["changed"] == 1, shown.text
    ran = up.play("register_worker.yml")
    assert ran.rc == 0 and ran.recap["changed"] == 1, ran.text
    assert up.serves()
    told = [(row["state"], row["step"], row["url"]) for row in up.journal("pd_worker")]
    assert told[-2:] == [("present", step, up.told["instances"]["lab-prefill"]["url"]) for step in ("begin", "done")]
    assert up.play("register_worker.yml").recap["changed"] == 0 and len(up.journal("pd_worker")) == len(told)


def test_a_worker_that_cannot_be_registered_is_told(up: Lab) -> None:
    told = up.told["instances"]
    wanted = {"router_url": told["lab-router"]["url"], "url": "http://127.0.0.1:1", "role": "decode", "wait_s": 2}
    assert "has accepted but not registered http://127.0.0.1:1 after 2 s" in task(up, wanted)["msg"]
    wanted = {**wanted, "url": told["lab-prefill"]["url"]}
    assert "as a prefill, and it is to be a decode" in task(up, wanted)["msg"]
    wanted = {**wanted, "router_url": told["lab-prefill"]["url"]}
    assert "and no list of workers" in task(up, wanted)["msg"]

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The simulated pair behind the real router: it must behave as the recorded real one does."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
from lab import ports, processes  # noqa: E402

pytestmark = pytest.mark.lab
QUICK = {
    "PDOPS_LAB_LOAD_S": "0.2",
    "PDOPS_LAB_HEALTH_S": "0.1",
    "PDOPS_LAB_CRASH_S": "0.3",
    "PDOPS_LAB_TOKEN_S": "0.005",
}
ROUTER_FLAGS = (
    "--policy round_robin --worker-startup-check-interval 1 --health-check-interval-secs 1 --health-check-timeout-secs 2 "
    "--health-failure-threshold 2 --health-success-threshold 1 --retry-max-retries 1 --disable-circuit-breaker --log-level warn"
)


def ask(port: int, path: str, body: Any = None, timeout_s: float = 10.0, **headers: str) -> tuple[int, str]:
    """Status and text; (0, kind of error) when there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        method = "GET" if body is None else "POST"
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, type(error).__name__
    finally:
        connection.close()


def until(good: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := good()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.03)
    return found


class Lab:
    def __init__(self, folder: Path) -> None:
        me = processes.identity(os.getpid())
        assert me is not None
        self.folder, self.first = folder, ports.claim(me)
        self.prefill, self.decode, self.bootstrap, self.router, self.prometheus, self.proxy = range(
            self.first, self.first + 6
        )
        self.faults_file = folder / "faults.json"
        self.started: list[subprocess.Popen[bytes]] = []

    def faults(self, **roles: dict[str, Any]) -> None:
        new = self.folder / "faults.new"
        new.write_text(json.dumps(roles))
        new.replace(self.faults_file)
        time.sleep(0.15)

    def run(self, name: str, *command: str, **env: str) -> subprocess.Popen[bytes]:
        environ = {**os.environ, **QUICK, "PYTHONPATH": str(ROOT), "PDOPS_LAB_DIR": str(self.folder), **env}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environ,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def engine(self, role: str, *flags: str, wait: bool = True, **env: str) -> subprocess.Popen[bytes]:
        port = self.prefill if role == "prefill" else self.decode
        process = self.run(
            role, "lab.engine", "--model-path", "/models/tiny", "--served-model-name", "tiny", "--host", "127.0.0.1",
            "--port", str(port), "--disaggregation-mode", role, "--disaggregation-bootstrap-port", str(self.bootstrap),
            "--tp-size", "4", "--enable-metrics", *flags, **env,
        )  # fmt: skip
        if wait:
            until(lambda: ask(port, "/health")[0] == 200)
        return process

    def direct(self, body: dict[str, Any], timeout_s: float = 5.0) -> dict[str, tuple[int, str]]:
        """The same request to both engines at once, as the router sends it."""
        body = {
            **body,
            "bootstrap_host": "127.0.0.1",
            "bootstrap_port": self.bootstrap,
            "bootstrap_room": random.getrandbits(62),
        }
        answers: dict[str, tuple[int, str]] = {}

        def one(role: str, port: int) -> None:
            answers[role] = ask(port, "/v1/chat/completions", body, timeout_s)

        threads = [
            threading.Thread(target=one, args=item) for item in (("prefill", self.prefill), ("decode", self.decode))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def end(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        return process.wait(10)

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        until(lambda: not processes.own([str(self.folder)], []), 6)
        ports.release(self.first)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A pair behind the real router and the proxy: for tests that leave it whole."""
    made = Lab(tmp_path_factory.mktemp("pair"))
    try:
        made.engine("prefill", wait=False, SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1")
        made.engine("decode", SGLANG_EXPOSE_OWN_ENV_VARS="1", SGLANG_SM120_MMA_TARGET_CTAS="512",
                    SGLANG_SM120_FLASHMLA_BACKEND="triton", SGLANG_HEALTH_CHECK_TIMEOUT="1")  # fmt: skip
        url = "http://127.0.0.1:{}".format
        made.run(
            "router", "sglang_router.launch_router", "--pd-disaggregation", "--prefill", url(made.prefill), str(made.bootstrap),
            "--decode", url(made.decode), "--host", "127.0.0.1", "--port", str(made.router), *ROUTER_FLAGS.split(),
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(made.prometheus),
        )  # fmt: skip
        made.run(
            "proxy", "lab.proxy", "--port", str(made.proxy), "--to", url(made.router), "--faults", str(made.faults_file)
        )
        until(lambda: ask(made.router, "/readiness")[0] == 200, 20)
        yield made
    finally:
        made.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Lab]:
    """A folder and ports for engines that the test ends itself."""
    made = Lab(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def whole(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "lab" in request.fixturenames:
        request.getfixturevalue("lab").faults()


def hello(tokens: int = 8, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "say nonce-4711 to me"}
    return {"model": "tiny", "messages": [message], "max_tokens": tokens, **more}


def scheduler_of(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(pid) for pid in children if b"scheduler" in Path(f"/proc/{pid}/cmdline").read_bytes())


def counter(port: int, name: str) -> float:
    lines = [line for line in ask(port, "/metrics")[1].splitlines() if line.startswith(f"sglang:{name}{{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


# --- requests through the router


def test_completion(lab: Lab) -> None:
    status, text = ask(lab.router, "/v1/chat/completions", hello())
    assert status == 200, text
    told = json.loads(text)
    choice = told["choices"][0]
    assert choice["message"]["content"].startswith("nonce-4711 ") and choice["finish_reason"] == "length"
    assert told["usage"]["completion_tokens"] == 8 == len(choice["message"]["content"].split())
    again = json.loads(ask(lab.router, "/v1/chat/completions", hello())[1])
    assert again["choices"][0]["message"] == choice["message"] and again["id"] != told["id"]


def test_streamed_through_the_proxy(lab: Lab) -> None:
    before = json.loads(ask(lab.proxy, "/_proxy/status")[1])["rounds"]
    status, text = ask(lab.proxy, "/v1/chat/completions", hello(stream=True, stream_options={"include_usage": True}))
    assert status == 200
    parts = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert parts[-1] == "[DONE]"
    told = [json.loads(part) for part in parts[:-1]]
    content = "".join(one["choices"][0]["delta"].get("content") or "" for one in told if one["choices"])
    assert content.startswith("nonce-4711 ") and len(content.split()) == 8
    assert told[-2]["choices"][0]["finish_reason"] == "length" and told[-1]["usage"]["completion_tokens"] == 8
    assert len(told) >= 8  # token by token
    assert json.loads(ask(lab.proxy, "/_proxy/status")[1]) == {"rounds": before + 1, "wedged": False}


def test_generate_and_completions(lab: Lab) -> None:
    told = json.loads(ask(lab.router, "/generate", {"text": "nonce-7", "sampling_params": {"max_new_tokens": 4}})[1])
    assert told["text"].startswith("nonce-7") and told["meta_info"]["finish_reason"] == {"type": "length", "length": 4}
    told = json.loads(ask(lab.router, "/v1/completions", {"model": "tiny", "prompt": "nonce-8", "max_tokens": 4})[1])
    assert told["choices"][0]["text"].startswith("nonce-8") and told["object"] == "text_completion"
    told = json.loads(ask(lab.router, "/v1/chat/completions", hello(1000))[1])
    assert told["choices"][0]["finish_reason"] == "stop" and 128 <= told["usage"]["completion_tokens"] < 192
    assert ask(lab.decode, "/v1/chat/completions", hello(0))[0] == 400
    assert ask(lab.decode, "/v1/chat/completions", hello())[0] == 400  # without a room


def test_what_operators_read(lab: Lab) -> None:
    info = json.loads(ask(lab.decode, "/server_info")[1])
    assert info["version"] == "0.5.23-simulation" and info["disaggregation_mode"] == "decode" and info["tp_size"] == 4
    env = info["internal_states"][0]["env_vars"]
    assert env["SGLANG_SM120_FLASHMLA_BACKEND"] == "triton" and "SGLANG_SM120_MMA_TARGET_CTAS" not in env
    assert "env_vars" not in json.loads(ask(lab.prefill, "/server_info")[1])["internal_states"][0]
    route = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
    told = json.loads(ask(lab.bootstrap, route)[1])
    assert told["page_size"] == 1 and told["prefill_http_port"] == lab.prefill
    load = json.loads(ask(lab.decode, "/v1/loads?include=core,disagg,queues")[1])["loads"][0]
    assert load["disaggregation"]["mode"] == "decode" and abs(time.time() - load["timestamp"]) < 2
    before = counter(lab.decode, "kv_transfer_bootstrap_ms_count"), counter(lab.prefill, "kv_transfer_latency_ms_count")
    assert ask(lab.router, "/v1/chat/completions", hello())[0] == 200
    assert counter(lab.decode, "kv_transfer_bootstrap_ms_count") == before[0] + 1
    assert counter(lab.prefill, "kv_transfer_latency_ms_count") == before[1] + 1
    assert "num_transfer_failed_reqs_total" not in ask(lab.decode, "/metrics")[1]


# --- processes


def test_environ_of_the_scheduler_is_overwritten(lab: Lab, pair: Lab) -> None:
    decode = lab.started[1]
    assert b"SGLANG_SM120_MMA_TARGET_CTAS=512" in Path(f"/proc/{decode.pid}/environ").read_bytes()
    assert b"SGLANG" not in Path(f"/proc/{scheduler_of(decode)}/environ").read_bytes()
    kept = pair.engine("decode", SPT_NOENV="1", SGLANG_SM120_MMA_TARGET_CTAS="512")
    assert b"SGLANG_SM120_MMA_TARGET_CTAS=512" in Path(f"/proc/{scheduler_of(kept)}/environ").read_bytes()


def test_sigkill_of_the_main_leaves_nothing(pair: Lab) -> None:
    process = pair.engine("prefill")
    assert len(processes.own([str(pair.folder)], [])) == 3
    pair.end(process, signal.SIGKILL)
    until(lambda: not processes.own([str(pair.folder)], []), 4)


def test_death_of_a_child_ends_the_main(pair: Lab) -> None:
    process = pair.engine("decode")
    os.kill(scheduler_of(process), signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL
    assert "Received sigquit from a child process" in pair.log("decode")


def test_load_then_drain(pair: Lab) -> None:
    process = pair.engine("decode", wait=False, PDOPS_LAB_LOAD_S="1")
    until(lambda: "Load weight begin" in pair.log("decode"))
    assert ask(pair.decode, "/health") == (0, "ConnectionRefusedError")
    assert pair.end(process) == -signal.SIGTERM  # at once while loading
    process = pair.engine("decode", PDOPS_LAB_TOKEN_S="0.02")
    body = {"text": "x", "sampling_params": {"max_new_tokens": 50}, "bootstrap_host": "2.2.2.2", "bootstrap_room": 0}
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(pair.decode, "/generate", body)))
    thread.start()
    until(lambda: json.loads(ask(pair.decode, "/v1/loads")[1])["loads"][0]["num_running_reqs"])
    process.send_signal(signal.SIGTERM)
    until(lambda: ask(pair.decode, "/health")[0] == 503, 1)
    assert ask(pair.decode, "/model_info")[0] == 200
    assert ask(pair.decode, "/generate", {**body, "sampling_params": {"max_new_tokens": 1}})[0] == 200  # still served
    thread.join()
    assert answers[0][0] == 200 and json.loads(answers[0][1])["meta_info"]["completion_tokens"] == 50
    begin = time.monotonic()
    assert process.wait(5) == 0 and time.monotonic() - begin < 1


def test_starts_that_fail(pair: Lab) -> None:
    bad = [
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "51l"}, (), 1, "invalid literal for int() with base 10: '51l'"),
        ({"SGLANG_SM120_MMA_TARGET_CTAS": "0"}, (), 1, "must be a positive integer"),
        ({"SGLANG_HEALTH_CHECK_TIMEOUT": "20s"}, (), 1, "invalid literal"),
        ({}, ("--page-size", "many"), 2, "argument --page-size: invalid int value: 'many'"),
        ({"UCX_TLS": "wrong"}, (), 3, "does not start with UCX_TLS=wrong"),
    ]
    pair.faults(decode={"refuse_start_with": {"UCX_TLS": "wrong"}})
    for env, flags, code, words in bad:
        assert pair.engine("decode", *flags, wait=False, **env).wait(10) == code
        assert words in pair.log("decode").splitlines()[-1]


def test_keys_guard_all_but_health(pair: Lab) -> None:
    secret = pair.folder / "secret.yaml"
    secret.write_text("api-key: a-key-of-the-test\n")
    pair.engine("decode", "--config", str(secret))
    assert ask(pair.decode, "/metrics")[0] == 200
    assert ask(pair.decode, "/server_info")[0] == 401 == ask(pair.decode, "/v1/loads")[0]
    status, text = ask(pair.decode, "/server_info", Authorization="Bearer a-key-of-the-test")
    assert status == 200 and "a-key-of-the-test" not in text + pair.log("decode")


# --- faults


def test_wedge(lab: Lab) -> None:
    lab.faults(decode={"wedge": True})
    time.sleep(0.4)
    assert ask(lab.decode, "/server_info", timeout_s=0.5)[0] == 0
    assert lab.direct(hello(), 1.5)["decode"][0] == 0
    assert ask(lab.decode, "/health")[0] == 503
    first, second = (json.loads(ask(lab.decode, "/v1/loads")[1])["loads"][0]["timestamp"] for _ in range(2))
    assert first == second and time.time() - first > 2
    lab.faults()
    until(lambda: ask(lab.decode, "/health")[0] == 200)
    until(lambda: ask(lab.router, "/v1/chat/completions", hello())[0] == 200)


def test_faults_of_answers(lab: Lab) -> None:
    lab.faults(decode={"finish_reason_error": True})
    choice = json.loads(ask(lab.router, "/v1/chat/completions", hello())[1])["choices"][0]
    assert choice["finish_reason"] == "error" and choice["message"]["content"] == ""
    lab.faults(decode={"empty_content": True}, prefill={"metrics_off": True, "never_register": True})
    choice = json.loads(ask(lab.router, "/v1/chat/completions", hello())[1])["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["content"] == ""
    assert ask(lab.prefill, "/metrics")[0] == 404
    assert ask(lab.bootstrap, "/health") == (200, "OK") and ask(lab.bootstrap, "/route")[0] == 503
    lab.faults(decode={"lie_on_health": True})
    assert lab.direct(hello(), 0.5)["decode"][0] == 0 and ask(lab.decode, "/health")[0] == 200


def test_failing_transfer(lab: Lab) -> None:
    for role in ("prefill", "decode"):
        lab.faults(**{role: {"transfer_fail": True}})
        before = (
            counter(lab.prefill, "num_transfer_failed_reqs_total"),
            counter(lab.decode, "num_transfer_failed_reqs_total"),
        )
        assert {one[0] for one in lab.direct(hello()).values()} == {500}
        after = (
            counter(lab.prefill, "num_transfer_failed_reqs_total"),
            counter(lab.decode, "num_transfer_failed_reqs_total"),
        )
        assert after == (before[0] + 1, before[1] + 1)


def test_decode_that_never_comes(lab: Lab) -> None:
    body = hello(bootstrap_host="127.0.0.1", bootstrap_port=lab.bootstrap, bootstrap_room=7)
    begin = time.monotonic()
    status, text = ask(lab.prefill, "/v1/chat/completions", body)
    assert status == 500 and "KVPoll.Bootstrapping" in text and 0.9 < time.monotonic() - begin < 2
    assert counter(lab.prefill, "num_bootstrap_failed_reqs_total") >= 1


def test_deaths_at_the_first_request(pair: Lab) -> None:
    pair.engine("prefill", "--page-size", "64", wait=False)
    decode = pair.engine("decode", "--page-size", "1")
    assert pair.direct(hello(), 1)["decode"][0] != 200
    assert decode.wait(5) == -signal.SIGKILL and "Page size mismatch" in pair.log("decode")
    pair.faults(decode={"page_size": 64})
    decode = pair.engine("decode", "--page-size", "1")
    assert {one[0] for one in pair.direct(hello(), 3).values()} == {200}
    pair.faults(decode={"page_size": 64, "die_at_first_request": True, "slow_load": 0.5})
    assert pair.direct(hello(), 1)["decode"][0] != 200
    assert decode.wait(5) == -signal.SIGKILL
    begin = time.monotonic()
    pair.engine("decode")
    assert time.monotonic() - begin > 0.9


def test_prefill_replaced_behind_decodes_back(pair: Lab) -> None:
    prefill = pair.engine("prefill", wait=False, SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1")
    pair.engine("decode", SGLANG_DISAGGREGATION_WAITING_TIMEOUT="1")
    assert {one[0] for one in pair.direct(hello()).values()} == {200}
    pair.end(prefill, signal.SIGKILL)
    pair.engine("prefill", SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT="1")
    stale = pair.direct(hello())  # decode still has the addresses of the old one
    assert {one[0] for one in stale.values()} == {500} and "WaitingForInput" in stale["decode"][1]
    assert {one[0] for one in pair.direct(hello()).values()} == {200}  # the timeout made it forget


def test_proxy_wedges(lab: Lab) -> None:
    rounds = json.loads(ask(lab.proxy, "/_proxy/status")[1])["rounds"]
    lab.faults(proxy={"wedge_after": rounds + 1})
    assert ask(lab.proxy, "/v1/models")[0] == 200
    assert ask(lab.proxy, "/v1/models", timeout_s=0.5) == (0, "TimeoutError")
    assert json.loads(ask(lab.proxy, "/_proxy/status")[1]) == {"rounds": rounds + 1, "wedged": True}

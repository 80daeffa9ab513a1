# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The module and its action plugin: in process, as a process of its own, and over a connection that is lost."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.testing import patch_module_args
from ansible_collections.pdops.sglang.plugins.action import pd_probe as action
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.probe import worker
from ansible_collections.pdops.sglang.plugins.modules import pd_probe

from .conftest import Call, well

QUICK = {
    "rounds": 2,
    "series": ["kept"],
    "requests": False,
    "model": "m",
    "first_byte_s": 2,
    "gap_s": 2,
    "timeout_s": 60,
}


def deaf(call: Call) -> bool:
    """Names its model and answers nothing else."""
    return well(call) if call.path == "/v1/models" else call.hang()


@pytest.fixture(autouse=True)
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of probes are made here; what still runs at the end is ended by its pid."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    for path in glob.glob(f"{tmp_path}/pdops-probe-*/pid"):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(Path(path).read_text().split()[0]), signal.SIGKILL)


@pytest.fixture
def module(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(check: bool = False, **given: Any) -> tuple[int, dict[str, Any]]:
        with patch_module_args({"_ansible_check_mode": check, **QUICK, **given}), pytest.raises(SystemExit) as ended:
            pd_probe.main()
        return int(ended.value.code or 0), dict(json.loads(capsys.readouterr().out))

    return run


def finished(name: str, seen: int = 0, patience_s: float = 120) -> tuple[list[Any], dict[str, Any]]:
    lines = []
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        got = worker.look({"name": name, "seen": seen}, 0.2)
        lines += got["lines"]
        seen = got["seen"]
        if got["result"] is not None:
            return lines, got["result"]
    raise AssertionError(f"no result: {lines}")


def test_without_an_action_plugin_it_answers_at_the_end(module, serve):
    code, found = module(router_url=serve().url)
    assert code == 0 and found["verdict"] == "passed" and found["changed"] is False
    assert found["msg"].startswith("probe: all 2 rounds by the router, on the kept connection, were answered")
    code, found = module(router_url=serve(deaf).url, name="dsv4")
    assert code == 1 and found["failed"] and found["conversation"]["failed_round"] == 1
    assert found["msg"].startswith("dsv4: round 1 of 2")


def test_check_mode_says_what_it_would_send_and_sends_nothing(module, serve):
    server = serve()
    code, found = module(check=True, router_url=server.url, requests=True)
    assert code == 0 and found["skipped"] and not found["changed"] and not server.calls
    assert found["msg"] == (
        "probe: would send 8 requests (chat, completions and /generate, whole and streamed, and two long ones) by router; "
        "and a conversation of 2 rounds by router, over kept connection, within 60 s"
    )


def test_bad_options_are_refused_before_anything_is_sent(module, serve):
    server = serve()
    code, found = module(router_url=server.url, hops=["pair"])
    assert code == 1 and found["msg"] == "the hop pair needs prefill_url and decode_url" and not server.calls
    code, found = module(router_url=server.url, resume={"name": "../etc"})
    assert code == 1 and "is not there any more" in found["msg"]


def test_a_probe_runs_on_by_itself_and_is_looked_at(module, serve, own_tmp, monkeypatch):
    monkeypatch.setattr(worker, "_TAKEN_S", 5.0)
    code, found = module(router_url=serve().url, resume={})
    assert code == 0 and found["result"] is None
    lines, result = finished(found["name"])
    assert [words.partition(":")[0] for _s, words, _good in lines] == ["round 1 of 2 (kept)", "round 2 of 2 (kept)"]
    assert all(good for _s, _words, good in lines) and result["verdict"] == "passed"
    # The answer with the result may have been lost with a connection.
    assert finished(found["name"])[1] == result
    folder = own_tmp / found["name"]
    assert folder.stat().st_mode & 0o077 == 0
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()


def test_no_key_is_written(module, serve, own_tmp):
    server = serve()
    _code, found = module(router_url=server.url, resume={}, api_key="the-key")
    finished(found["name"])
    assert server.calls[-1].headers["authorization"] == "Bearer the-key"
    texts = [path.read_bytes() for path in (own_tmp / found["name"]).iterdir()]
    assert len(texts) >= 4 and not any(b"the-key" in text for text in texts)


def test_a_probe_at_which_nobody_looks_ends(plan, serve, monkeypatch, own_tmp):
    monkeypatch.setattr(worker, "_ALONE_S", 0.5)
    name = worker.start(plan(router_url=serve(deaf).url, model="m", first_byte_s=20, request_s=30))
    folder = own_tmp / name
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()
    with pytest.raises(PdopsError, match="is not there any more"):
        worker.look({"name": name}, 0.1)


def test_a_probe_that_is_killed_is_told(plan, serve, own_tmp):
    name = worker.start(plan(router_url=serve(deaf).url, model="m", first_byte_s=20, request_s=30))
    path = own_tmp / name / "pid"
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
    with pytest.raises(PdopsError, match="was it killed"):
        finished(name)


def test_what_the_probe_refuses_itself_reaches_the_one_who_looks(plan, serve):
    name = worker.start(plan(router_url=serve(lambda call: call.reply({}, 503)).url))
    assert "no model is known to ask for" in finished(name)[1]["error"]


# --- the action plugin


class Machine:
    """Runs the module in this process; a number in ``lost`` is a call whose connection breaks."""

    def __init__(self, module: Any, lost: tuple[int, ...] = ()) -> None:
        self.module, self.lost, self.calls, self.resets = module, lost, 0, 0

    def __call__(self, module_args: Any = None, task_vars: Any = None, **_more: Any) -> dict[str, Any]:
        self.calls += 1
        code, found = self.module(**{"slice_s": 0.3, **module_args})
        if self.calls in self.lost:
            raise AnsibleConnectionFailure("gone")
        return {**found, "failed": True} if code else dict(found)

    def reset(self) -> None:
        self.resets += 1


@pytest.fixture
def act(monkeypatch: pytest.MonkeyPatch) -> Any:
    printed: list[str] = []
    monkeypatch.setattr(action.display, "display", lambda text, **_more: printed.append(text))
    monkeypatch.setattr(action, "RECONNECT_S", 0.05)
    monkeypatch.setattr(action, "QUIET_S", 0.6)
    monkeypatch.setattr(action, "TICK_S", 0.1)
    monkeypatch.setattr(action.ActionBase, "run", lambda *_a, **_k: {})

    def go(machine: Machine, check: bool = False, **arguments: Any) -> SimpleNamespace:
        task = SimpleNamespace(args={"name": "dsv4", **arguments}, check_mode=check, async_val=0)
        connection = SimpleNamespace(reset=machine.reset, _shell=SimpleNamespace(tmpdir="/tmp/gone"))
        plugin = action.ActionModule(task, connection, None, None, None, None)
        plugin._execute_module = machine
        return SimpleNamespace(result=plugin.run(task_vars={}), lines=printed)

    return go


def test_the_plugin_prints_a_line_per_round_and_a_table_and_passes_the_data_on(act, module, serve):
    ran = act(Machine(module), router_url=serve().url)
    assert not ran.result.get("failed") and ran.result["msg"].startswith("dsv4: all 2 rounds")
    assert ran.result["conversation"]["failed_round"] is None and ran.result["changed"] is False
    assert [line.split("  ")[-1].partition(":")[0] for line in ran.lines[:2]] == [
        "round 1 of 2 (kept)",
        "round 2 of 2 (kept)",
    ]
    assert ran.lines[2].split()[:2] == ["dsv4", "hop"] and "2 rounds, kept connection" in ran.lines[3]


def test_the_plugin_outlives_a_lost_connection_and_says_what_it_waits_for(act, module, serve):
    def slow(call: Call) -> bool:
        time.sleep(1.2)
        return well(call)

    machine = Machine(module, lost=(2,))
    ran = act(machine, router_url=serve(slow).url, first_byte_s=30)
    assert ran.result["verdict"] == "passed" and machine.resets == 1
    text = "\n".join(ran.lines)
    assert "connection lost, the probe goes on" in text and "connected again" in text and "waiting; last: " in text


def test_the_plugin_fails_with_one_sentence(act, module, serve):
    ran = act(Machine(module), router_url=serve(deaf).url)
    assert ran.result["failed"] and ran.result["msg"].startswith(
        "dsv4: round 1 of 2, on the kept connection: the router"
    )
    red = serve(lambda call: well(call) if call.path == "/v1/models" else call.reply({"error": "\x1b[31mred\x07"}, 502))
    ran = act(Machine(module), router_url=red.url)
    assert "answered 502: red; no hop" in ran.result["msg"] and "\x1b" not in "".join(ran.lines)
    ran = act(Machine(module), router_url="nonsense")
    assert ran.result["failed"] and "is not a URL of a service" in ran.result["msg"]
    ran = act(Machine(module, lost=(1,)), router_url=serve().url)
    assert ran.result["failed"] and "the machine is not reachable (gone)" in ran.result["msg"]
    assert "unreachable" not in ran.result

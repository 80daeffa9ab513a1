# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What pd_instance does, on a real supervisord."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.listeners import listeners
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.processes import read_process
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for
from ansible_collections.pdops.sglang.plugins.module_utils.services.instance import Request, bring, masked_command
from supervised import engine, free_port


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def one(supervisord):
    """A supervisord with one engine on a port, and a function that makes requests for it."""
    port = free_port()
    daemon = supervisord({"decode": engine("--port", port, "--children", 1)})
    manager = manager_for("supervisor", str(daemon.config))

    def ask(state, check=False, **more):
        return bring(manager, Request("decode", state, url=f"http://127.0.0.1:{port}", **more), check)

    ask.port, ask.manager = port, manager
    return ask


def test_a_life(one):
    looked = one("status")
    assert (looked["changed"], looked["before"]["state"], looked["processes"]) == (False, "inactive", [])
    assert one("stopped")["changed"] is False
    assert one("started", check=True)["changed"] is True
    assert one("status")["before"]["state"] == "inactive"

    started = one("started")
    assert started["changed"]
    assert started["before"]["pid"] is None
    pid = started["after"]["pid"]
    assert started["after"]["started_ticks"] == read_process(pid).started_ticks
    assert one("started")["changed"] is False
    wait_for(lambda: listeners(one.port))
    seen = one("status")
    assert seen["processes"][0]["pid"] == pid
    assert len(seen["processes"]) == 3
    assert "fake_engine" in seen["processes"][0]["command"]

    assert one("restarted", check=True)["changed"] is True
    assert one("status")["before"]["pid"] == pid
    restarted = one("restarted", drain_s=5)
    assert restarted["before"]["pid"] == pid
    assert restarted["after"]["pid"] not in (pid, None)
    assert restarted["killed"] is False
    assert restarted["seconds"] > 0
    wait_for(lambda: listeners(one.port))

    assert one("stopped", check=True)["changed"] is True
    stopped = one("stopped")
    assert stopped["changed"]
    assert stopped["after"]["state"] == "inactive"
    assert listeners(one.port) == []


def test_a_stranger_on_the_port_is_named_and_not_killed(one):
    command = [
        sys.executable,
        "-c",
        f"import socket, time; s = socket.create_server(('127.0.0.1', {one.port})); time.sleep(60)",
    ]
    stranger = subprocess.Popen([*command, "--api-key", "hunter2"])
    try:
        wait_for(lambda: listeners(one.port))
        with pytest.raises(PdopsError) as caught:
            one("started")
        assert f"port {one.port} is held by process {stranger.pid}" in str(caught.value)
        assert "create_server" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert caught.value.details["holder_pids"] == [stranger.pid]
        assert caught.value.details["before"]["state"] == "inactive"
        assert stranger.poll() is None
        assert one("status")["before"]["state"] == "inactive"
        assert one("stopped")["changed"] is False
    finally:
        stranger.kill()
        stranger.wait()
    one("started")
    one("stopped")


def test_a_restart_with_a_stranger_on_the_port_touches_nothing(supervisord):
    """The instance runs without its port (it could not get it): stopping it would make nothing better."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        daemon = supervisord({"a": engine()})
        manager = manager_for("supervisor", str(daemon.config))
        pid = manager.start("a", settle_s=0.1).pid
        request = Request("a", "restarted", url=f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(PdopsError, match="a was not touched"):
            bring(manager, request)
        assert manager.status("a").pid == pid


def test_a_stop_that_leaves_a_strangers_port_warns(supervisord):
    with socket.create_server(("127.0.0.1", 0)) as server:
        daemon = supervisord({"a": engine()})
        manager = manager_for("supervisor", str(daemon.config))
        manager.start("a", settle_s=0.1)
        port = server.getsockname()[1]
        result = bring(manager, Request("a", "stopped", ports=(port,)))
        assert result["changed"]
        assert f"port {port} is held by process" in result["warnings"][0]


def test_leftovers_of_a_crash_are_killed_before_a_start(supervisord, patient):
    port = free_port()
    crash = engine("--port", port, "--children", 1, "--session", "--die-after", 0.8)
    daemon = supervisord({"a": (crash, "autorestart=false")})
    manager = manager_for("supervisor", str(daemon.config))
    with pytest.raises(PdopsError, match="died at once") as caught:
        bring(manager, Request("a", "started", url=f"http://127.0.0.1:{port}"))
    assert caught.value.details["exit_code"] == 3
    assert "fatal: fell over" in caught.value.details["log_tail"]
    assert caught.value.details["after"]["pid"] is None
    wait_for(lambda: manager.status("a").state == "failed")
    strays = {process.pid for process in manager.leftovers("a")}
    assert strays
    with pytest.raises(PdopsError) as caught:
        bring(manager, Request("a", "started", url=f"http://127.0.0.1:{port}"))
    assert set(caught.value.details["leftovers"]) == strays
    assert all(read_process(pid) is None or read_process(pid).dead for pid in strays)
    wait_for(lambda: manager.status("a").state == "failed")
    assert bring(manager, Request("a", "stopped"))["leftovers"]
    assert bring(manager, Request("a", "stopped"))["changed"] is False


def test_a_start_of_what_is_tried_again_and_again_begins_afresh(supervisord, patient, tmp_path):
    """A retry that is just about to die says nothing about the script that was put right meanwhile."""
    script = tmp_path / "serve.sh"
    script.write_text("sleep 0.3; exit 3\n")
    daemon = supervisord({"a": (f"/bin/bash {script}", "startretries=100")})
    manager = manager_for("supervisor", str(daemon.config))
    with pytest.raises(PdopsError, match="exit code 3"):
        bring(manager, Request("a", "started"))
    wait_for(lambda: manager.status("a").retrying)
    script.write_text("exec sleep 60\n")
    result = bring(manager, Request("a", "started"))
    assert result["changed"]
    assert result["after"]["pid"] is not None


def test_killed_after_the_drain(supervisord):
    daemon = supervisord({"deaf": engine("--deaf")})
    manager = manager_for("supervisor", str(daemon.config))
    bring(manager, Request("deaf", "started"))
    wait_for(lambda: manager.log_tail("deaf", 5) == ["ready"])  # deaf from before that on
    result = bring(manager, Request("deaf", "stopped", drain_s=0.3))
    assert result["killed"]
    assert result["after"]["exit_code"] == -9


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unit": " "}, "unit is empty"),
        ({"drain_s": -1}, "drain_s is -1"),
        ({"drain_s": float("nan")}, "drain_s is nan"),
        ({"ports": (0,)}, "0 is not a port"),
        ({"url": "here"}, "not a URL"),
    ],
)
def test_requests_that_make_no_sense(given, words):
    with pytest.raises(PdopsError, match=words):
        Request(**{"unit": "a", "state": "started", **given}).check()


def test_command_lines_are_masked_and_short():
    command = [sys.executable, "-c", "import time; time.sleep(60)", "--api-key", "hunter2", "x" * 300]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: "--api-key" in masked_command(process.pid))
        text = masked_command(process.pid)
        assert "hunter2" not in text
        assert len(text) <= 200
    finally:
        process.kill()
        process.wait()

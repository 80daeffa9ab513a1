# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The supervisor manager against a real supervisord."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.processes import read_process
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for
from ansible_collections.pdops.sglang.plugins.module_utils.services.supervisor_rpc import read_settings
from supervised import Supervised, engine


def gone(pid):
    process = read_process(pid)
    return process is None or process.dead


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_start_status_stop(supervisord):
    daemon = supervisord(
        {"decode": engine("--children", 2, "--title", "sglang::scheduler", "--say", "\x1b[32mloading")}
    )
    manager = manager_for("supervisor", str(daemon.config))
    before = manager.status("decode")
    assert (before.state, before.pid, before.exit_code, before.since_s) == ("inactive", None, None, None)
    status = manager.start("decode", settle_s=0.3)
    assert status.running
    assert status.started_ticks == read_process(status.pid).started_ticks
    assert status.since_s > 0.2
    wait_for(lambda: len(manager.processes("decode")) == 4)
    pids = manager.processes("decode")
    assert daemon.process.pid not in pids
    wait_for(lambda: manager.log_tail("decode", 5) == ["loading", "ready"])
    again = manager.start("decode", settle_s=0.0)  # idempotent
    assert again.pid == status.pid
    stopped = manager.stop("decode", 10)
    assert not stopped.killed
    assert all(gone(pid) for pid in pids)
    after = manager.status("decode")
    assert (after.state, after.pid, after.exit_code) == ("inactive", None, 0)
    assert manager.processes("decode") == []
    second = manager.stop("decode", 10)  # idempotent
    assert (second.killed, second.leftovers) == (False, ())


def test_a_program_that_ignores_sigterm_is_killed_with_children_in_other_sessions(supervisord):
    daemon = supervisord({"deaf": engine("--deaf", "--children", 2, "--deaf-children", "--session")})
    manager = manager_for("supervisor", str(daemon.config))
    manager.start("deaf", settle_s=0.1)
    wait_for(lambda: len(manager.processes("deaf")) == 4)
    pids = manager.processes("deaf")
    begin = time.monotonic()
    stopped = manager.stop("deaf", 0.5)
    assert stopped.killed
    assert time.monotonic() - begin >= 0.5
    assert all(gone(pid) for pid in pids)
    status = manager.status("deaf")
    assert (status.state, status.exit_code) == ("inactive", -signal.SIGKILL)


def test_stopwaitsecs_shorter_than_our_patience_counts_as_killed(supervisord):
    daemon = supervisord({"deaf": (engine("--deaf"), "stopwaitsecs=1")})
    manager = manager_for("supervisor", str(daemon.config))
    manager.start("deaf", settle_s=0.5)
    wait_for(lambda: manager.log_tail("deaf", 5) == ["ready"])  # deaf from before that on
    assert manager.stop("deaf", 20).killed


def test_children_that_outlive_the_main_process_are_killed_at_stop(supervisord):
    daemon = supervisord({"a": engine("--children", 1, "--deaf-children", "--session")})
    manager = manager_for("supervisor", str(daemon.config))
    manager.start("a", settle_s=0.1)
    wait_for(lambda: len(manager.processes("a")) == 3)
    main = manager.status("a").pid
    others = [pid for pid in manager.processes("a") if pid != main]
    stopped = manager.stop("a", 10)
    assert not stopped.killed
    assert sorted(stopped.leftovers) == sorted(others)
    assert all(gone(pid) for pid in others)


def test_strays_of_an_earlier_death_are_found_by_their_environment(supervisord, tmp_path):
    """The main process is long gone, so tree and process group lead nowhere; a session of its own hides it further."""
    more = "autorestart=false"
    dies = engine("--children", 1, "--session", "--load-until", tmp_path / "go", "--die-after", 0.1)
    daemon = supervisord({"a": (dies, more), "b": engine()})
    manager = manager_for("supervisor", str(daemon.config))
    manager.start("b", settle_s=0.1)
    manager.start("a", settle_s=0.1)
    wait_for(lambda: len(manager.processes("a")) == 3)
    pids = manager.processes("a")
    main = manager.status("a").pid
    (tmp_path / "go").touch()
    wait_for(lambda: manager.status("a").state == "failed")
    strays = [process.pid for process in manager.leftovers("a")]
    assert set(strays) >= {pid for pid in pids if pid != main and not gone(pid)}
    assert strays
    stopped = manager.stop("a", 5)
    assert set(stopped.leftovers) == set(strays)
    assert manager.leftovers("a") == []
    assert manager.status("b").running


def test_exit_code_and_log_of_a_program_that_dies_at_once(supervisord, patient):
    """supervisord itself forgets the exit status in this case; it is in its log."""
    # startsecs: on a busy machine the engine may live for more than the usual second, and would then be started again.
    dies = engine("--die-after", 0, "--say", "loading", "--exit-code", 7)
    daemon = supervisord({"dies": (dies, "startretries=0\nstartsecs=30")})
    manager = manager_for("supervisor", str(daemon.config))
    with pytest.raises(PdopsError) as caught:
        manager.start("dies")
    assert "dies died at once" in str(caught.value)
    assert "exit code 7" in str(caught.value)
    assert caught.value.details == {"exit_code": 7, "log_tail": ["loading", "fatal: no such knob"]}
    wait_for(lambda: manager.status("dies").state == "failed")
    assert "FATAL" in manager.status("dies").detail
    manager.stop("dies", 1)


def test_the_log_of_a_failed_start_holds_no_older_run(supervisord, patient):
    daemon = supervisord({"dies": (engine("--die-after", 0, "--say", "loading"), "startretries=0\nstartsecs=30")})
    manager = manager_for("supervisor", str(daemon.config))
    for _run in range(2):
        with pytest.raises(PdopsError) as caught:
            manager.start("dies")
        assert caught.value.details["log_tail"] == ["loading", "fatal: no such knob"]
        wait_for(lambda: manager.status("dies").state == "failed")
    assert (
        len(manager.log_tail("dies", 10, all_runs=True)) >= 4
    )  # the older run too; a busy supervisord may have tried once more


def test_last_exit_is_known_when_the_next_process_runs_already(supervisord):
    daemon = supervisord({"falls": engine("--die-after", 4, "--exit-code", 5)})
    manager = manager_for("supervisor", str(daemon.config))
    first = manager.start("falls", settle_s=0.1).pid
    wait_for(lambda: manager.status("falls").pid not in (None, first))
    assert manager.last_exit("falls") == 5
    os.kill(manager.status("falls").pid, signal.SIGKILL)
    wait_for(lambda: manager.last_exit("falls") == -9)


def test_a_command_that_is_not_there(supervisord):
    daemon = supervisord({"nothing": "/nonexistent/serve.sh"})
    manager = manager_for("supervisor", str(daemon.config))
    with pytest.raises(PdopsError, match="its command is not there or not executable"):
        manager.start("nothing")


def test_unknown_program_lists_what_there_is(supervisord):
    daemon = supervisord({"prefill": engine(), "decode": engine()})
    manager = manager_for("supervisor", str(daemon.config))
    with pytest.raises(PdopsError, match=r"no program decod \(it has: decode, prefill\)"):
        manager.status("decod")


@pytest.fixture
def over_tcp():
    daemon = Supervised(inet=True, login=True)
    yield daemon.use({"a": engine()})
    daemon.close()


def test_over_tcp_with_a_login(over_tcp, tmp_path):
    daemon = over_tcp
    manager = manager_for("supervisor", str(daemon.config))
    assert manager.status("a").state == "inactive"
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(daemon.config.read_text().replace("password=pw", "password=no"))
    with pytest.raises(PdopsError, match="refuses the login") as caught:
        manager_for("supervisor", str(wrong)).status("a")
    assert "no" not in str(caught.value).replace(str(wrong), "").split()


def test_nobody_answers(supervisord, tmp_path):
    config = tmp_path / "supervisord.conf"
    config.write_text("[unix_http_server]\nfile=%(here)s/s.sock\n")
    with pytest.raises(PdopsError, match="supervisord does not run: nobody answers at"):
        manager_for("supervisor", str(config)).status("a")


@pytest.mark.parametrize(
    ("text", "url", "login"),
    [
        ("[unix_http_server]\nfile=/run/s.sock ; comment\nusername=a\npassword=b", "unix:///run/s.sock", ("a", "b")),
        ("[unix_http_server]\nfile=%(here)s/s.sock", "unix://HERE/s.sock", (None, None)),
        ("[unix_http_server]\nfile=%(ENV_PDOPS_TEST)s/s.sock", "unix:///somewhere/s.sock", (None, None)),
        (
            "[unix_http_server]\nfile=/s\nusername=a\npassword={SHA}8217\n[supervisorctl]\nusername=a\npassword=clear",
            "unix:///s",
            ("a", "clear"),
        ),
        ("[inet_http_server]\nport=*:9001", "http://localhost:9001", (None, None)),
        ("[inet_http_server]\nport=127.0.0.1:9001", "http://127.0.0.1:9001", (None, None)),
        ("[include]\nfiles = more/*.conf", "unix:///included", (None, None)),
    ],
)
def test_settings(tmp_path, monkeypatch, text, url, login):
    monkeypatch.setenv("PDOPS_TEST", "/somewhere")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.conf").write_text("[unix_http_server]\nfile=/included\n")
    path = tmp_path / "supervisord.conf"
    path.write_text(text)
    settings = read_settings(str(path))
    assert settings.url == url.replace("HERE", str(tmp_path))
    assert (settings.username, settings.password) == login


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[supervisord]\n", "neither"),
        ("no section", "is not a supervisord.conf"),
        ("[inet_http_server]\nport=here\n", "is not HOST:PORT"),
    ],
)
def test_bad_settings(tmp_path, text, sentence):
    path = tmp_path / "supervisord.conf"
    path.write_text(text)
    with pytest.raises(PdopsError, match=sentence):
        read_settings(str(path))
    with pytest.raises(PdopsError, match="cannot be read"):
        read_settings(str(tmp_path / "nothing.conf"))

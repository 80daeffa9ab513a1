# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The systemd manager against a stand-in for systemctl that runs real processes."""

from __future__ import annotations

import os
import shlex
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.processes import read_process
from ansible_collections.pdops.sglang.plugins.module_utils.services import systemd as module
from ansible_collections.pdops.sglang.plugins.module_utils.services.choosing import manager_for
from supervised import engine


@pytest.fixture
def manager(fake_systemd):
    return module.Systemd(cgroup_roots=[str(fake_systemd.folder / "cgroup")])


def command(*arguments):
    return shlex.split(engine(*arguments))


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_start_and_stop_take_the_whole_cgroup(fake_systemd, manager):
    fake_systemd.unit("decode.service", command("--children", 2, "--deaf-children"))
    assert manager.status("decode.service").state == "inactive"
    status = manager.start("decode.service", settle_s=0.3)
    assert status.state == "active"
    assert status.running
    wait_for(lambda: len(manager.processes("decode.service")) == 4)  # main, tracker, two children
    pids = manager.processes("decode.service")
    assert status.pid in pids
    stopped = manager.stop("decode.service", 10)
    assert not stopped.killed
    assert len(stopped.leftovers) == 3
    assert all(read_process(pid) is None or read_process(pid).dead for pid in pids)
    after = manager.status("decode.service")
    assert (after.state, after.pid, after.exit_code) == ("inactive", None, None)  # systemd has forgotten the unit


def test_a_process_that_ignores_sigterm_is_killed_at_the_deadline(fake_systemd, manager):
    fake_systemd.unit("deaf.service", command("--deaf", "--children", 1))
    pid = manager.start("deaf.service", settle_s=0.5).pid
    wait_for(lambda: len(manager.processes("deaf.service")) == 3)  # deaf from before it has children on
    begin = time.monotonic()
    stopped = manager.stop("deaf.service", 0.6)
    assert stopped.killed
    assert time.monotonic() - begin >= 0.6
    assert read_process(pid) is None or read_process(pid).dead
    assert "systemctl kill -s KILL deaf.service" in fake_systemd.calls()
    assert manager.status("deaf.service").exit_code == -9


def test_a_short_timeout_of_the_unit_counts_as_killed(fake_systemd, manager):
    fake_systemd.unit("slow.service", command())
    manager.start("slow.service", settle_s=0.1)
    fake_systemd.unit("slow.service", command(), show={"Result": "timeout"})
    assert manager.stop("slow.service", 10).killed


def test_a_unit_that_dies_at_once_is_a_failure_with_its_log(fake_systemd, manager, patient):
    fake_systemd.unit("dies.service", command("--die-after", 0, "--say", "loading"))
    with pytest.raises(PdopsError) as caught:
        manager.start("dies.service")
    assert "dies.service died at once" in str(caught.value)
    assert "exit code 3" in str(caught.value)
    assert caught.value.details["exit_code"] == 3
    assert caught.value.details["log_tail"] == ["loading", "fatal: no such knob"]


def test_a_failed_unit_is_reset_before_a_start(fake_systemd, manager, patient):
    fake_systemd.unit("a.service", command("--die-after", 0))
    with pytest.raises(PdopsError):
        manager.start("a.service")
    fake_systemd.unit("a.service", command())
    manager.start("a.service", settle_s=0.1)
    calls = fake_systemd.calls()
    assert calls.index("systemctl reset-failed a.service") < len(calls) - 1


def test_every_start_resets_the_count_of_starts(fake_systemd, manager):
    """Restarts by hand use up the start limit of an enabled unit, and nothing shows it (seen on 252)."""
    fake_systemd.unit("a.service", command())
    manager.start("a.service", settle_s=0.1)
    calls = [call for call in fake_systemd.calls() if not call.startswith("systemctl show")]
    assert calls == ["systemctl reset-failed a.service", "systemctl start --no-block a.service"]


def test_a_stop_that_somebody_else_began_is_waited_out(fake_systemd, manager, monkeypatch):
    fake_systemd.unit("a.service", command())
    first = manager.start("a.service", settle_s=0.1).pid
    stopping = {"ActiveState": "deactivating", "SubState": "stop-sigterm", "TimeoutStopUSec": "200ms"}
    fake_systemd.unit("a.service", command(), show=stopping)
    monkeypatch.setattr(module, "KILL_S", 0.2)
    with pytest.raises(PdopsError, match=r"still stopping \(stop-sigterm\) after 0 s, longer than its TimeoutStopSec"):
        manager.start("a.service")
    assert fake_systemd.calls().count("systemctl start --no-block a.service") == 1
    fake_systemd.unit("a.service", command(), show={})
    assert manager.status("a.service").pid == first


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1min 30s", 90), ("900ms", 0.9), ("1h 2min 3s 4ms", 3600), ("59min 3s 500ms", 3543.5), ("infinity", 3600), ("0", 0),
        ("", 0), (None, 0),
    ],
)  # fmt: skip
def test_time_spans_as_systemctl_shows_them(text, seconds):
    assert module._span_s(text) == pytest.approx(seconds)


def test_daemon_reload_only_when_asked_for(fake_systemd, manager):
    fake_systemd.unit("a.service", command())
    manager.start("a.service", settle_s=0.1)
    assert "systemctl daemon-reload" not in fake_systemd.calls()
    fake_systemd.unit("b.service", command(), show={"NeedDaemonReload": "yes"})
    manager.start("b.service", settle_s=0.1)
    assert "systemctl daemon-reload" in fake_systemd.calls()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "c.service was skipped because of an unmet condition check (ConditionPathExists=/etc/pdops/go).",  # 252
            r"a condition of its unit file is not met \(ConditionPathExists=/etc/pdops/go\)$",
        ),
        (
            "c.service - Serve was skipped because of an unmet condition check (ConditionPathExists=!/etc/pdops/go).",
            r"is not met \(ConditionPathExists=!/etc/pdops/go\)$",
        ),
        (
            "c.service - Serve skipped, unmet condition check ConditionPathExists=/etc/pdops/go",  # 257
            r"is not met \(ConditionPathExists=/etc/pdops/go\)$",
        ),
        ("c.service: Starting requested but asserts failed.", "an assertion of its unit file is not met"),
        ("Started c.service.", "ended at once after its start, with exit code 0"),
    ],
)
def test_a_start_that_starts_nothing_is_told(fake_systemd, manager, line, words):
    """systemctl says 0 and Result=success in all of these (seen on 252); only the journal tells them apart."""
    fake_systemd.unit("c.service", command(), skipped=line)
    with pytest.raises(PdopsError, match=words) as caught:
        manager.start("c.service")
    assert caught.value.details["log_tail"] == [line]


def test_a_start_that_starts_nothing_without_a_journal(fake_systemd, manager):
    fake_systemd.unit("c.service", command(), skipped="")
    with pytest.raises(PdopsError, match="was not started: it is inactive, although systemd calls that a success"):
        manager.start("c.service")


@pytest.mark.parametrize(
    ("show", "sentence"),
    [
        ({"LoadState": "masked"}, "is masked on this machine: systemctl unmask x.service"),
        ({"LoadState": "bad-setting", "FragmentPath": "/etc/systemd/system/x.service"}, "cannot be loaded"),
    ],
)
def test_units_that_cannot_run(fake_systemd, manager, show, sentence):
    fake_systemd.unit("x.service", ["true"], show=show)
    with pytest.raises(PdopsError, match=sentence):
        manager.status("x.service")


def test_unknown_and_impossible_names(manager):
    with pytest.raises(PdopsError, match=r"systemd has no unit nix.service on this machine: check pd_unit"):
        manager.status("nix.service")
    for name in ("--now", "a b", "x;y", ""):
        with pytest.raises(PdopsError, match="not the name of a unit"):
            manager.status(name)


def test_no_permission_says_become(fake_systemd, manager):
    fake_systemd.unit("a.service", command())
    (fake_systemd.folder / "refuse").write_text("Failed to start a.service: Interactive authentication required.")
    with pytest.raises(PdopsError, match=r"systemctl start a.service was refused: .*run with become"):
        manager.start("a.service")


def test_leftovers_of_a_dead_main_process_are_found_and_killed(fake_systemd, manager, tmp_path):
    dies = ("--load-until", tmp_path / "go", "--die-after", 0.1)
    fake_systemd.unit("crash.service", command("--children", 1, "--deaf-children", *dies))
    manager.start("crash.service", settle_s=0.1)
    (tmp_path / "go").touch()
    wait_for(lambda: manager.status("crash.service").state == "failed")
    strays = manager.leftovers("crash.service")
    assert len(strays) == 2
    stopped = manager.stop("crash.service", 5)
    assert len(stopped.leftovers) == 2
    assert manager.leftovers("crash.service") == []


@pytest.mark.parametrize(
    ("given", "state", "retrying", "words"),
    [
        ({"ActiveState": "reloading", "SubState": "reload"}, "active", False, "reloading (reload)"),
        ({"ActiveState": "refreshing", "SubState": "refreshing"}, "active", False, "refreshing"),
        (
            {
                "ActiveState": "activating",
                "SubState": "auto-restart",
                "Result": "exit-code",
                "ExecMainCode": "1",
                "ExecMainStatus": "3",
            },
            "activating",
            True,
            "activating (auto-restart), result exit-code, exit code 3",
        ),
        (
            # 257 has a state of its own for it
            {
                "ActiveState": "activating",
                "SubState": "auto-restart-queued",
                "ExecMainCode": "2",
                "ExecMainStatus": "9",
            },
            "activating",
            True,
            "signal SIGKILL",
        ),
        (
            {"ActiveState": "failed", "SubState": "failed", "Result": "start-limit-hit"},
            "failed",
            False,
            "result start-limit-hit",
        ),
        (
            {"ActiveState": "deactivating", "SubState": "stop-sigterm"},
            "deactivating",
            False,
            "deactivating (stop-sigterm)",
        ),
    ],
)
def test_states(fake_systemd, manager, given, state, retrying, words):
    fake_systemd.unit("s.service", ["true"], show=given)
    status = manager.status("s.service")
    assert (status.state, status.retrying, status.running) == (state, retrying, False)
    assert words in status.detail


def test_log_tail_is_of_the_last_run(fake_systemd, manager):
    fake_systemd.unit("l.service", command("--say", "first run"))
    manager.start("l.service", settle_s=0.3)
    manager.stop("l.service", 5)
    fake_systemd.unit("l.service", command("--say", "second \x1b[31mrun\x1b[0m\r\nlast line"))
    manager.start("l.service", settle_s=0.3)
    wait_for(lambda: "ready" in manager.log_tail("l.service", 10))
    assert manager.log_tail("l.service", 10) == ["second run", "last line", "ready"]
    assert manager.log_tail("l.service", 1) == ["ready"]
    assert "first run" in manager.log_tail("l.service", 10, all_runs=True)


def test_a_machine_without_systemd_gets_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "RUN_FOLDER", str(tmp_path / "system"))
    with pytest.raises(PdopsError) as caught:
        manager_for("systemd")
    sentence = str(caught.value)
    assert "does not run systemd" in sentence
    assert "pd_service_manager=supervisor" in sentence
    assert "\n" not in sentence
    os.mkdir(tmp_path / "system")
    assert manager_for("systemd").name == "systemd"


def test_there_are_two_managers():
    with pytest.raises(PdopsError, match="no service manager 'upstart'"):
        manager_for("upstart")

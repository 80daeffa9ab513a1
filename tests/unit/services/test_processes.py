# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils import listeners as sockets
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.processes import (
    Environ,
    ProcessId,
    age_s,
    arguments,
    descendants,
    is_alive,
    is_shell,
    kill_all,
    parse_environ,
    parse_stat,
    process_table,
    read_environ,
    read_process,
    send_signal,
    wait_gone,
)
from hypothesis import given
from hypothesis import strategies as st
from supervised import engine


@pytest.fixture
def run():
    started = []

    def start(command, **options):
        started.append(subprocess.Popen(command, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


REST = b" S 1 77 88 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 4242 1000 200"


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_any_command_name_is_parsed(name):
    process = parse_stat(b"12 (" + name + b")" + REST)
    assert (process.pid, process.state, process.ppid, process.group, process.session) == (12, "S", 1, 77, 88)
    assert (process.threads, process.started_ticks) == (3, 4242)


def test_a_zombie_is_dead_but_one_with_threads_is_not():
    assert parse_stat(b"1 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5").dead
    assert not parse_stat(b"1 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 2 0 5").dead


def test_own_process(run):
    own = read_process(os.getpid())
    assert own.ppid == os.getppid()
    child = run(["sleep", "60"])
    process = read_process(child.pid)
    assert process.ppid == os.getpid()
    assert 0 <= age_s(process.started_ticks) < 60
    assert is_alive(process.id)
    assert not is_alive(ProcessId(child.pid, process.started_ticks + 1))
    assert not send_signal(ProcessId(child.pid, process.started_ticks - 1), signal.SIGKILL)
    assert child.poll() is None
    child.kill()
    wait_for(lambda: not is_alive(process.id))  # a zombie until waited for
    assert read_process(child.pid).dead
    child.wait()
    assert read_process(child.pid) is None
    assert not send_signal(process.id, signal.SIGTERM)


def test_kill_all_and_wait_gone(run):
    pids = [read_process(run(["sleep", "60"]).pid).id for _number in range(3)]
    assert wait_gone(pids, 0.1) == pids
    assert kill_all(pids) == []
    assert wait_gone(pids, 0.1) == []


def test_descendants(run):
    child = run(["sh", "-c", "sh -c 'sleep 60; true'; true"])
    wait_for(lambda: len(descendants([child.pid], process_table())) == 3)
    assert child.pid in descendants([os.getpid()], process_table())
    assert descendants([999999999], process_table()) == set()
    assert is_shell(child.pid)
    assert not is_shell(os.getpid())
    for pid in descendants([child.pid], process_table()):
        with contextlib.suppress(ProcessLookupError):  # a shell ends by itself when its child does
            os.kill(pid, signal.SIGKILL)


def environ_of(run, *command, **environment):
    process = run(list(command), env=environment)
    wait_for(lambda: os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) != "pytest")
    time.sleep(0.1)
    return read_environ(process.pid)


def test_a_whole_environ(run):
    found = environ_of(
        run, "/bin/sleep", "60", SGLANG_X="512", EMPTY="", LINES="a\nb=c", **{"BASH_FUNC_f%%": "() { :; }"}
    )
    assert found.whole
    assert found.values == {"SGLANG_X": "512", "EMPTY": "", "LINES": "a\nb=c", "BASH_FUNC_f%%": "() { :; }"}


def test_no_environ_is_not_proof_of_anything(run):
    found = environ_of(run, "/bin/sleep", "60")
    assert (found.values, found.whole, found.why) == ({}, False, "empty")
    assert read_environ(999999999).why == "gone"


TITLED = "import setproctitle, time; setproctitle.setproctitle({!r}); print(1, flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    "title",
    [
        "sglang::scheduler",
        "sglang::scheduler_TP0",
        "x" * 5000,
        "A=B C=D " * 400,
        "python --a=b " * 300,
        "S",
        "a=" * 2000,
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_setproctitle_damages_the_environ_and_it_is_noticed(run, title, kept):
    environment = {"SGLANG_X": "512", "PATH": os.environ["PATH"], "MORE": "m" * 300}
    if kept:
        environment["SPT_NOENV"] = "1"
    process = run([sys.executable, "-c", TITLED.format(title)], env=environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    found = read_environ(process.pid)
    assert found.whole is kept
    assert found.values == (environment if kept else {})
    assert found.why == ("" if kept else "overwritten")


@given(st.binary(max_size=200))
def test_any_bytes_as_environ(data):
    found = parse_environ(data)
    assert found.whole or found.values == {}
    if found.whole:
        assert b"\0\0" not in data


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,20}", fullmatch=True),
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))),
    )
)
def test_every_proper_environ_is_whole(values):
    data = b"".join(f"{name}={value}".encode() + b"\0" for name, value in values.items())
    assert parse_environ(data) == (Environ(values, True) if values else Environ({}, False, "empty"))


def test_arguments(run):
    process = run(["/bin/sh", "-c", "sleep 60; true", "a b"])
    wait_for(lambda: arguments(process.pid)[:1] == ["/bin/sh"])
    assert arguments(process.pid)[-1] == "a b"
    assert arguments(999999999) == []


def test_listeners(run):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert sockets.listeners(port) == []  # bound is not listening
        server.listen()
        found = sockets.listeners(port)
        assert [(one.address, one.port, one.pids) for one in found] == [("127.0.0.1", port, (os.getpid(),))]
        assert sockets.listeners(port, [os.getpid()]) == found
        assert sockets.listeners(port, host="127.0.0.1") == found
        assert sockets.listeners(port, host="127.0.0.2") == []
        # a child that inherits the socket holds it as well
        child = run(["sleep", "60"], pass_fds=[server.fileno()])
        wait_for(lambda: sockets.listeners(port)[0].pids == tuple(sorted((os.getpid(), child.pid))))
    assert sockets.listeners(port)[0].pids == (child.pid,)
    child.kill()
    child.wait()
    assert sockets.listeners(port) == []


@pytest.mark.parametrize("bound", ["::", "::1"])
def test_listeners_of_ipv6(bound):
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with socket.socket(socket.AF_INET6) as server:
        try:
            server.bind((bound, 0))
        except OSError:
            pytest.skip("no IPv6 here")
        server.listen()
        port = server.getsockname()[1]
        assert [one.address for one in sockets.listeners(port, host="::1")] == [bound]
        assert bool(sockets.listeners(port, host="127.0.0.1")) is (bound == "::")


def test_lines_of_proc_net_tcp():
    text = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n"
        "   1: 0100007F:7530 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n"
        "   2: cut off\n"
    )
    expected = [("127.0.0.1", 30000, 4711)] if sys.byteorder == "little" else [("1.0.0.127", 30000, 4711)]
    assert sockets.parse_sockets(text, six=False) == expected


def test_which_hosts_are_this_machine():
    assert sockets.is_local("127.0.0.1")
    assert sockets.is_local("localhost")
    assert not sockets.is_local("192.0.2.1")  # TEST-NET-1 of RFC 5737
    assert not sockets.is_local("no-such-host.invalid")


def test_a_permission_that_is_missing_is_unknown_and_not_absent(run):
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    victim = run(["/bin/sleep", "60"], env={"A": "1"})
    wait_for(lambda: read_environ(victim.pid).whole)
    process = read_process(victim.pid).id
    receive, send = os.pipe()
    if os.fork() == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            said = read_environ(process.pid).why
            try:
                send_signal(process, signal.SIGKILL)
            except PdopsError as error:
                said += f"; {error}"
            os.write(send, said.encode())
        finally:
            os._exit(0)
    os.wait()
    said = os.read(receive, 1000).decode()
    os.close(receive)
    os.close(send)
    assert said.startswith("not permitted; process")
    assert "run with become" in said
    assert victim.poll() is None


def test_engine_of_the_tests_has_the_processes_of_sglang(run):
    process = run(shlex.split(engine("--children", 1, "--title", "sglang::scheduler")), stdout=subprocess.PIPE)
    wait_for(
        lambda: any(arguments(pid)[:1] == ["sglang::scheduler"] for pid in descendants([process.pid], process_table()))
    )
    kill_all([process_table()[pid].id for pid in descendants([process.pid], process_table())])

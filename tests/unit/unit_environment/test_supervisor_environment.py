# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What supervisord gives to a program, judged by a real supervisord and by what its program got."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.unit_environment.supervisor_environment import (
    environment_of,
    key_value_pairs,
)
from supervisor.datatypes import dict_of_key_value_pairs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "services"))
from supervised import Supervised


@pytest.fixture(scope="module")
def daemon() -> Iterator[Supervised]:
    made = Supervised()
    yield made
    made.close()


def got(daemon: Supervised, unit: str, log: str) -> dict[str, str]:
    """The environment of the program, written by itself."""
    daemon.rpc.call("startProcess", unit, False)
    path = daemon.root / log
    deadline = time.monotonic() + 60
    while not (path.exists() and b"SUPERVISOR_ENABLED" in path.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.05)
    entries = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def test_the_program_gets_what_is_told_with_file_and_line(daemon: Supervised) -> None:
    head = daemon.head
    included = daemon.root / "extra.conf"
    daemon.head = head.replace("[supervisord]\n", '[supervisord]\nenvironment=A="of all",B=all,C=%(here)s\n').replace(
        "[rpcinterface", "[include]\nfiles=ex*.conf\n[rpcinterface"
    )
    included.write_text(
        "[program:two]\ncommand=/usr/bin/env -0\nautostart=false\nstartsecs=0\nautorestart=false\n"
        "process_name=two_%(process_num)d\nnumprocs=2\nstdout_logfile=%(here)s/two_%(process_num)d.out\n"
        "environment=N=%(process_num)d,P=%(program_name)s\n"
    )
    more = (
        "startsecs=0\nautorestart=false\n"
        'environment=B="program, with a comma",HOME_TOO=%(ENV_HOME)s,\n'
        "  D='single',E=a.b-c/d:e+f,FROM_ALL=%(ENV_B)s ; a comment\n"
    )
    try:
        daemon.use({"one": ("/usr/bin/env -0", more)})
        daemon.rpc.call("addProcessGroup", "two")
        environ = got(daemon, "one", "one.out")
        found = environment_of("one", str(daemon.config))
        ours = {name: value for name, value in environ.items() if not name.startswith("SUPERVISOR_")}
        assert dict(found.values) == ours
        assert found.complete
        lines = daemon.config.read_text().split("\n")
        for name, kind, value in (
            ("A", "supervisord", "of all"),
            ("B", "program", "program, with a comma"),
            ("D", "program", "single"),
            ("FROM_ALL", "program", "all"),
        ):
            place = found.winner(name)
            assert place is not None
            assert (place.kind, place.value, place.path) == (kind, value, str(daemon.config))
            assert place.line and f"{name}=" in lines[place.line - 1]
        states = [(place.kind, place.state) for place in found.places if place.name == "B"]
        assert states == [("supervisord", "overridden"), ("program", "active")]
        second = environment_of("two:two_1", str(daemon.config))
        environ = got(daemon, "two:two_1", "two_1.out")
        assert (second.values["N"], second.values["P"]) == (environ["N"], environ["P"]) == ("1", "two")
        winner = second.winner("N")
        assert winner is not None
        assert (winner.path, winner.line) == (str(included), 9)
    finally:
        daemon.head = head
        included.unlink()


def test_what_cannot_be_known_is_said(daemon: Supervised) -> None:
    daemon.config.write_text(daemon.head + "[program:bad]\ncommand=/bin/true\nenvironment=A=%(nothing)s\n")
    found = environment_of("bad", str(daemon.config))
    assert any("%-expansion failed" in note for note in found.notes)
    gone = environment_of("nobody", str(daemon.config))
    assert any("has no program nobody" in note for note in gone.notes)
    with pytest.raises(PdopsError, match="cannot be read"):
        environment_of("one", str(daemon.root / "none.conf"))


def test_a_supervisord_that_is_down_leaves_everything_open(tmp_path: Path) -> None:
    config = tmp_path / "supervisord.conf"
    config.write_text(f"[unix_http_server]\nfile={tmp_path}/s\n[supervisord]\n[program:one]\nenvironment=A=1\n")
    found = environment_of("one", str(config))
    assert found.values["A"] == "1"
    assert not found.complete
    assert "does not run" in found.unread[0]


@pytest.mark.parametrize(
    "text",
    [
        "A=1",
        "A=\"x y\",B='z'",
        "A=1,B=2,",
        "A=a/b.c-d:e+(f)",
        'A="a,b=c",B=d',
        "A=1 B=2",
        "A=1;B=2",
        "A",
        "A=",
        "A=,B=1",
        'A="open',
        "A='it''s'",
        "A=x@y",
        "A=#x",
        " A = 1 , B = 2 ",
        'A=""',
        "A=x\n,B=y",
        "",
    ],
)
def test_pairs_are_read_as_supervisor_reads_them(text: str) -> None:
    try:
        expected = dict_of_key_value_pairs(text)
    except ValueError:
        with pytest.raises(ValueError):
            key_value_pairs(text)
        return
    assert key_value_pairs(text) == expected

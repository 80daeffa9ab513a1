# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What the journal has of a unit, from entries as journalctl -o json prints them (seen on 252 and 257)."""

from __future__ import annotations

import json

from ansible_collections.pdops.sglang.plugins.module_utils.services.journal import PROCESS_EXIT, Journal

RUN, NEXT = "a" * 32, "b" * 32


def entry(second, message, **fields):
    return {"__REALTIME_TIMESTAMP": str(int(second * 1e6)), "MESSAGE": message, **fields}


ENTRIES = [
    entry(10.0, "Started decode.service.", INVOCATION_ID=RUN),
    entry(10.1, "loading", _SYSTEMD_INVOCATION_ID=RUN),
    entry(10.2, [27, 91, 51, 49, 109, 114, 101, 100, 27, 91, 48, 109], _SYSTEMD_INVOCATION_ID=RUN),
    entry(10.3, "its last words"),
    entry(10.4, "decode.service: Main process exited", INVOCATION_ID=RUN, EXIT_CODE="exited", EXIT_STATUS="7"),
    entry(10.5, None, _SYSTEMD_INVOCATION_ID=NEXT),
    entry(10.6, "chatter", _SYSTEMD_INVOCATION_ID=NEXT),
    entry(20.0, "lost by a later run"),
]


def asked(words):
    """The stand-in for journalctl: matches, times and -n as it has them."""
    found = list(ENTRIES)
    if "-u" in words:
        begin, end = (float(words[words.index(word) + 1].lstrip("@")) for word in ("--since", "--until"))
        found = [one for one in found if begin <= int(one["__REALTIME_TIMESTAMP"]) / 1e6 <= end]
    elif f"MESSAGE_ID={PROCESS_EXIT}" in words:
        assert words[-2] in ("UNIT=decode.service", f"INVOCATION_ID={RUN}")
        found = [one for one in found if "EXIT_CODE" in one]
    else:
        run = words[-1].partition("=")[2]
        found = [one for one in found if run in (one.get("INVOCATION_ID"), one.get("_SYSTEMD_INVOCATION_ID"))]
    found = found[-int(words[words.index("-n") + 1]) :]
    return "\n".join([*map(json.dumps, found), "no json", "[]"]).encode()


def test_the_lines_of_a_run_and_those_that_lost_it():
    journal = Journal(asked)
    expected = ["Started decode.service.", "loading", "red", "its last words", "decode.service: Main process exited"]
    assert journal.of_run("decode", RUN, 20) == expected
    assert journal.of_run("decode", RUN, 2) == expected[-2:]
    assert journal.of_run("decode", NEXT, 20)[-1] == "chatter"
    assert journal.of_run("decode", "c" * 32, 20) == []


def test_the_last_death():
    assert Journal(asked).last_death("decode") == (RUN, 7)
    assert Journal(asked).exit_of(RUN) == 7


def test_no_journal():
    journal = Journal(lambda words: b"")
    assert journal.last_death("decode") == ("", None)
    assert journal.exit_of(RUN) is None
    assert journal.of_run("decode", RUN, 5) == journal.of_unit("decode", 5) == []


def test_a_death_by_a_signal():
    killed = entry(1, "x", INVOCATION_ID=RUN, EXIT_CODE="killed", EXIT_STATUS="9")
    assert Journal(lambda words: json.dumps(killed).encode()).last_death("a.service") == (RUN, -9)
    killed["EXIT_STATUS"] = "KILL"
    assert Journal(lambda words: json.dumps(killed).encode()).last_death("a.service") == (RUN, None)

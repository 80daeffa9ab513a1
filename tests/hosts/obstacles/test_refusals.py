# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What must stop a change before it has any effect, and a way back that fails."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from ..field import Machine, setting

STATE = "/var/lib/pdops"


@contextlib.contextmanager
def broken(machine: Machine, break_it: str, mend_it: str) -> Iterator[None]:
    machine.sh(break_it)
    try:
        yield
    finally:
        machine.sh(mend_it)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (lambda machine: machine.full_disk(STATE), "no space is left"),
        (
            lambda machine: broken(
                machine, f"mount --bind {STATE} {STATE} && mount -o remount,bind,ro {STATE}", f"umount {STATE}"
            ),
            "ead-only",
        ),
        (lambda machine: broken(machine, f"chown ops {STATE}", f"chown root {STATE}"), "ops"),
    ],
    ids=["full", "read-only", "wrong owner"],
)
def test_a_store_that_cannot_be_trusted_is_refused_before_any_effect(
    gpu1: Machine, state: Callable[[Machine], AbstractContextManager[None]], words: str
) -> None:
    before, pids, known = gpu1.script(), gpu1.pids(), len(gpu1.changes())
    with state(gpu1):
        ran = gpu1.play("set_knob.yml", *setting("256"))
        assert ran.rc == 2, ran.text
        assert words in ran.words and STATE in ran.words, ran.text
        assert gpu1.script() == before and gpu1.pids() == pids
    assert len([change for change in gpu1.changes() if change["state"] == "open"]) == 0
    assert len(gpu1.changes()) == known
    assert gpu1.sh("systemctl list-units --all --no-legend 'pdops-guard@*' | grep -v inactive", check=False) == ""


def test_of_two_operators_at_once_one_goes_on(gpu1: Machine) -> None:
    known = len(gpu1.changes())
    both = [gpu1.start("ansible-playbook", "set_knob.yml", *setting(value)) for value in ("640", "768")]
    ended = [(process.communicate(timeout=900)[0], process.returncode) for process in both]
    assert sorted(rc for _, rc in ended) == [0, 2], ended
    (refused,) = [text for text, rc in ended if rc == 2]
    change = gpu1.changes()[-1]
    assert len(gpu1.changes()) == known + 1 and change["state"] == "confirmed"
    words = " ".join(refused.split())
    assert change["id"] in words and "root" in words and re.search("take_over=|is held|still holds", words), refused
    assert gpu1.running_knob() in ("640", "768") and gpu1.serves()
    back = gpu1.play("rollback.yml")
    assert back.rc == 0, back.text


def test_a_rollback_that_fails_is_loud_and_loses_nothing(gpu1: Machine) -> None:
    """Neither the new nor the old script starts: both have this value."""
    before = gpu1.script()
    with gpu1.faults(refuse_start_with={"SGLANG_SM120_FLASHMLA_BACKEND": "triton"}):
        ran = gpu1.play("set_knob.yml", *setting("256"))
        assert ran.rc == 2, ran.text
        assert "THE ROLLBACK FAILED TOO" in ran.words
        change = gpu1.changes()[-1]
        assert change["state"] == "rollback-failed"
        (item,) = change["files"]
        for sha256 in (item["sha256_before"], item["sha256_after"]):
            assert sha256[:12] in ran.words
            assert gpu1.sh(f"sha256sum < {STATE}/objects/{sha256}").startswith(sha256)
        assert "restart.yml" in ran.words or "recover.yml" in ran.words
        again = gpu1.play("verify.yml")
        assert again.rc == 2 and change["id"] in again.words
    # The command that was named.
    back = gpu1.play("recover.yml", "-e", "finish=back")
    assert back.rc == 0, back.text
    assert gpu1.script() == before and gpu1.serves()
    assert gpu1.sh("systemctl --failed --no-legend") == ""

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""kill -9 of the controller: the machine finds its own way back, and the next run says what it found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.change.guard_place import is_alive

from .conftest import KNOB, QUICK, Lab, leases

pytestmark = pytest.mark.lab


def stepping(lab: Lab, known: int) -> bool:
    """Whether a change after the first ``known`` ones has stopped or started something."""
    return len(lab.changes()) > known and last_step(lab).startswith("st")


def last_step(lab: Lab) -> str:
    change = lab.changes()[-1]
    return (
        " ".join(filter(None, (change["steps"][-1]["step"], change["steps"][-1]["instance"])))
        if change["steps"]
        else "begin"
    )


#: A step is noted before its effect; where a test builds on the effect, it is looked at, too.
POINTS: dict[str, Callable[[Lab], bool]] = {
    "opened, nothing applied": lambda lab: is_alive(str(lab.dir / "state" / "changes"), lab.changes()[-1]["id"]),
    "applied, nothing stopped": lambda lab: lab.script.read_bytes() == lab.backup.read_bytes(),
    "all stopped": lambda lab: last_step(lab) == "stop lab-prefill" and not lab.pid("lab-prefill"),
    "between two starts": lambda lab: last_step(lab) == "start lab-decode",
    "before confirm": lambda lab: last_step(lab) == "start lab-router" and lab.serves(),
}


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """One story for all points: each ends in the old state, which is the story's."""
    module_lab.story()
    return module_lab


def kill_at(lab: Lab, point: str, lease_s: int = 0, typed: tuple[str, ...] = ("restore_knob.yml",)) -> tuple[str, str]:
    """Start the change, kill the whole controller at the point; the change's id, and the words that were printed.

    :param lease_s: how soon the guard is to come. A busy machine may need longer for a step of the living controller, or pass the point
        while this test waits for its turn: then once more, with a longer lease.
    """
    told = ""
    for slower in (1, 3, 9):
        known = len(lab.changes())

        def now(known: int = known) -> bool:
            return len(lab.changes()) > known and lab.changes()[-1]["state"] == "open" and POINTS[point](lab)

        process = lab.start(*typed, *(leases(lease_s * slower) if lease_s else ()))
        reached, text = lab.kill_at(process, point, now)
        told += f"{text}\n"
        if reached:
            return str(lab.changes()[-1]["id"]), " ".join(told.split())
        lab.wait("the end of that run", lambda: lab.changes()[-1]["state"] in ("confirmed", "rolled-back"))
        if lab.changes()[-1]["state"] == "confirmed":
            assert lab.play("rollback.yml").rc == 0
    raise AssertionError(f"never was a run killed at the point {point}: {told}")


def tells(words: str, change_id: str) -> bool:
    """A run says what the guard did of an earlier one."""
    _, found, rest = words.partition(f"found: change {change_id}")
    return bool(found) and "was rolled-back by its guard" in rest and "nobody confirmed it" in rest


def test_without_any_controller_the_old_state_serves_again_within_the_lease(lab: Lab) -> None:
    before = lab.script.read_bytes()
    last = ""
    for point in POINTS:
        change_id, words = kill_at(lab, point, lease_s=6)
        # Each run, though killed itself, tells of the one before it.
        assert not last or tells(words, last), (point, words)
        lab.wait(f"the guard's rollback ({point})", lambda: lab.changes()[-1]["state"] == "rolled-back")
        assert lab.script.read_bytes() == before, point
        assert lab.running_knob() is None, point
        assert lab.serves(), point
        last = change_id
    told = lab.play("verify.yml")
    assert told.rc == 0, told.text
    assert tells(told.words, last) and told.words.count("found: change") == 1, told.text


def test_the_next_run_carries_on_from_a_dead_controller_and_a_second_operator_learns_who_holds_it(lab: Lab) -> None:
    before = lab.script.read_bytes()
    change_id, _ = kill_at(lab, "all stopped")  # with the usual lease: the guard shall not come first

    ran = lab.play("restore_knob.yml")
    assert ran.rc == 0, ran.text
    assert (
        f"found: change {change_id}" in ran.words
        and "stopped after 'stop lab-prefill'; its controller is gone" in ran.words
    )
    assert lab.running_knob() == "512"
    assert lab.serves()
    states = {change["id"]: change["state"] for change in lab.changes()}
    assert states[change_id] == "superseded"
    # Nothing is lost: what was there before the first of the two changes is a stored version.
    assert lab.script.read_bytes() != before
    # A revert that was interrupted and is typed again goes on; it does not bring back what it had taken away.
    revert = ("revert_knob.yml", "-e", f"knob={KNOB}", "-e", "reason=suspicion")
    kill_at(lab, "all stopped", typed=revert)
    known = len(lab.changes())
    process = lab.start(*revert)
    with lab.standing_at(process, "the first operator's change", lambda: stepping(lab, known)):
        second = lab.play("restore_knob.yml")
    assert second.rc == 2
    held = lab.changes()[-1]["id"]
    for part in (f"change {held}", "open since", "still holds the deployment for", f"-e take_over={held}"):
        assert part in second.words
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 0, text
    assert lab.script.read_bytes() == before and lab.running_knob() is None


@pytest.mark.long
def test_an_interrupted_revert_is_no_other_verbs_to_finish_and_keeps_its_reason_when_somebody_else_does(
    lab: Lab,
) -> None:
    def killed(point: str, playbook: str, *arguments: str) -> tuple[str, str]:
        known = len(lab.changes())
        process = lab.start(playbook, *arguments, *QUICK)
        reached, text = lab.kill_at(process, point, lambda: len(lab.changes()) > known and POINTS[point](lab))
        assert reached, text
        return str(lab.changes()[-1]["id"]), " ".join(text.split())

    assert lab.play("restore_knob.yml", *QUICK).rc == 0
    new, knob = lab.script.read_bytes(), ("-e", f"knob={KNOB}")
    change_id, _ = killed("all stopped", "revert_knob.yml", *knob, "-e", "reason=suspicion")
    lab.environment.update(LOGNAME="bob", USER="bob")  # the other operator
    others = (("set_knob.yml", *knob, "-e", "value=384"), ("restart.yml",), ("rollback.yml",), ("restore_knob.yml",))
    for verb, *arguments in others:
        refused = lab.play(verb, *arguments)
        assert refused.rc == 2, (verb, refused.text)
        assert f"change {change_id} of " in refused.words and "its controller is gone" in refused.words, verb
        assert "ansible-playbook recover.yml -e finish=back" in refused.words, verb
        assert "-e finish=forward" in refused.words and "Traceback" not in refused.text, verb
    assert lab.changes()[-1]["state"] == "open" and lab.changes()[-1]["id"] == change_id

    # The one who takes it over dies as well; the next one goes back all the way, to what was before the first.
    _, words = killed("between two starts", "recover.yml", "-e", "finish=forward")
    assert "so this run goes on from there" in words
    back = lab.play("recover.yml", "-e", "finish=back")
    assert back.rc == 0, back.text
    assert lab.script.read_bytes() == new and lab.running_knob() == "512" and lab.serves()

    killed("all stopped", "revert_knob.yml", *knob, "-e", "reason=suspicion")
    kept = lab.play("recover.yml", "-e", "finish=forward")
    assert kept.rc == 0, kept.text
    assert lab.running_knob() is None and lab.serves()
    assert (
        f"undo this, with what it took over: ansible-playbook rollback.yml -l lab -e change={lab.changes()[-1]['id']}"
        in kept.words
    )
    entry = lab.entries()[-1]
    assert (entry["kind"], entry["change_id"]) == ("revert", lab.changes()[-1]["id"]), entry
    assert "interrupted as revert, and finished by recover.yml" in entry["said"] and "suspicion" in entry["reason"]
    assert f"debt: {KNOB}=512 reverted on suspicion" in kept.text

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""One deployment on several machines, each with a store, a guard and a record of its own: faults at the worst moment."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ..process_tree import kill_tree
from .conftest import KNOB, Lab

pytestmark = pytest.mark.lab
PAIR_KNOB = "SGLANG_DSV4_KV_LAYOUT"
#: Leases are the usual ones; where a guard is to come alone, the test lets its time be over (``Lab.expire``).
QUICK = ("-e", "pd_load_timeout_s=30", "-e", "pd_drain_s=3", "-e", "pd_reconnect_s=3")
UP = ("--load-time-s", "0.4", "--health-time-s", "0.2")


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """Machine 1 has the prefill, machine 2 decode and router."""
    module_lab.lab("up", "--machines", "2", *UP)
    module_lab.inventory = module_lab.told["inventory"]
    return module_lab


def newest(lab: Lab, machine: str) -> dict[str, Any]:
    return lab.changes(machine)[-1]


def scripts(lab: Lab) -> dict[str, bytes]:
    found = {}
    for name, told in lab.told["instances"].items():
        with open(told["serve_script"], "rb") as file:
            found[name] = file.read()
    return found


def steps(lab: Lab, machine: str) -> list[tuple[str, str]]:
    return [(step["step"], step["instance"]) for step in newest(lab, machine)["steps"]]


def start_and(
    lab: Lab,
    arguments: tuple[str, ...],
    moment: Callable[[], Any],
    then: Callable[[subprocess.Popen[str]], Any],
    *held: str,
) -> subprocess.Popen[str]:
    """A play that has begun a change of its own; what is done ``then``, at the moment, is done before its next step.

    :param held: machines of which no step is taken meanwhile, all if none is named
    """
    machines = list(lab.told["cut"])
    known = {machine: len(lab.changes(machine)) for machine in machines}
    process = lab.start(*arguments)

    def now() -> Any:
        return all(len(lab.changes(machine)) > known[machine] for machine in machines) and moment()

    with lab.moment(process, "the moment", now, *(held or machines)) as reached:
        assert reached, process.communicate()[0]
        then(process)
    return process


def kill_between_confirms(lab: Lab, value: str) -> str:
    """Machine 2 is kept from confirming until the controller is dead, with everything that it had started."""

    def kill(process: subprocess.Popen[str]) -> None:
        lab.wait("the first confirm", lambda: newest(lab, "lab-m1")["state"] == "confirmed")
        kill_tree(process)

    start_and(
        lab,
        ("set_knob.yml", "-e", f"knob={PAIR_KNOB}", "-e", f"value={value}", *QUICK),
        lambda: steps(lab, "lab-m2")[-1] == ("start", "lab-router"),
        kill,
        "lab-m2",
    )
    assert newest(lab, "lab-m2")["state"] == "open"
    return str(newest(lab, "lab-m1")["id"])


@pytest.mark.long
def test_a_kill_between_two_confirms_is_named_and_brought_forward(lab: Lab) -> None:
    old = scripts(lab)
    change_id = kill_between_confirms(lab, "paged")
    lab.expire("lab-m2")
    lab.wait("the guard of machine 2", lambda: newest(lab, "lab-m2")["state"] == "rolled-back")
    assert scripts(lab)["lab-decode"] == old["lab-decode"] and scripts(lab)["lab-prefill"] != old["lab-prefill"]

    seen = lab.play("recover.yml")
    assert seen.rc == 0, seen.text
    assert f"change {change_id} is SPLIT over its machines" in seen.words
    assert "lab-m1: confirmed, its scripts have the new content" in seen.words
    assert "lab-m2: rolled-back, its scripts have the old content" in seen.words
    forward = lab.play("recover.yml", "-e", "finish=forward", *QUICK)
    assert forward.rc == 0, forward.text
    assert all(f"export {PAIR_KNOB}=paged".encode() in scripts(lab)[name] for name in ("lab-prefill", "lab-decode"))
    assert lab.serves()
    assert "SPLIT" not in lab.play("recover.yml").words


@pytest.mark.long
def test_a_kill_between_two_confirms_goes_back_on_demand_on_both(lab: Lab) -> None:
    old = scripts(lab)
    kill_between_confirms(lab, "flat")
    back = lab.play("recover.yml", "-e", "finish=back", *QUICK)
    assert back.rc == 0, back.text
    assert scripts(lab) == old and lab.serves()
    again = lab.play("recover.yml", "-e", "finish=back", *QUICK)
    assert again.rc == 0 and again.recap["changed"] == 0, again.text


@pytest.mark.long
def test_a_machine_that_is_cut_off_at_its_confirm_is_no_success_and_the_split_is_named_with_what_heals_it(
    lab: Lab,
) -> None:
    text = ""

    def fall_silent(process: subprocess.Popen[str]) -> None:
        nonlocal text
        lab.wait("the first confirm", lambda: newest(lab, "lab-m1")["state"] == "confirmed")
        lab.lab("cut", "lab-m2")
        text, _ = process.communicate()

    process = start_and(
        lab,
        ("set_knob.yml", "-e", f"knob={PAIR_KNOB}", "-e", "value=tiled", *QUICK),
        lambda: steps(lab, "lab-m2")[-1] == ("start", "lab-router"),
        fall_silent,
        "lab-m2",
    )
    lab.lab("cut", "--mend")
    words = " ".join(text.split())
    assert process.returncode == 2, text
    assert "lab-m2 became unreachable" in words
    assert "lab-m1 (lab-prefill): it was confirmed here before, so the new state stays" in words
    change_id = newest(lab, "lab-m1")["id"]
    said = f"The change {change_id} is SPLIT over its machines: when lab-m2 answers again, bring the old state everywhere with "
    assert f"{said}ansible-playbook recover.yml -e finish=back, or the new one" in words
    assert "Traceback" not in text
    forward = lab.play("recover.yml", "-e", "finish=forward", *QUICK)
    assert forward.rc == 0, forward.text
    assert all(f"export {PAIR_KNOB}=tiled".encode() in scripts(lab)[name] for name in ("lab-prefill", "lab-decode"))
    assert lab.serves() and "SPLIT" not in lab.play("recover.yml").words


@pytest.mark.long
def test_rollback_means_the_change_before_one_that_went_back_where_its_script_is_and_was_confirmed_elsewhere(
    lab: Lab,
) -> None:
    old = scripts(lab)
    knob = ("set_knob.yml", "-e", f"knob={KNOB}", "-e", "role=decode", *QUICK)
    assert lab.play(*knob, "-e", "value=640").rc == 0
    new = scripts(lab)

    def fall_silent(process: subprocess.Popen[str]) -> None:
        lab.wait("the first confirm", lambda: newest(lab, "lab-m1")["state"] == "confirmed")
        lab.lab("cut", "lab-m2")
        process.communicate()

    process = start_and(
        lab,
        (*knob, "-e", "value=768"),
        lambda: steps(lab, "lab-m2")[-1] == ("start", "lab-router"),
        fall_silent,
        "lab-m2",
    )
    assert process.returncode == 2
    lab.expire("lab-m2")
    lab.wait("the guard of machine 2", lambda: newest(lab, "lab-m2")["state"] == "rolled-back")
    lab.lab("cut", "--mend")
    assert scripts(lab) == new != old
    back = lab.play("rollback.yml", *QUICK)
    assert back.rc == 0, back.text
    assert scripts(lab) == old and lab.serves()


@pytest.mark.long
def test_a_controller_that_dies_before_every_machine_had_begun_leaves_nothing_to_carry_forward(lab: Lab) -> None:
    old, pids = scripts(lab), lab.pids()
    known = len(lab.changes("lab-m1"))
    verb = ("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode", *QUICK)
    with open(lab.dir / "state" / "lab-m2" / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = lab.start(*verb)
        lab.wait("the first begin", lambda: len(lab.changes("lab-m1")) > known)
        kill_tree(process)
    change_id = newest(lab, "lab-m1")["id"]
    forward = lab.play("recover.yml", "-e", "finish=forward", *QUICK)
    assert forward.rc == 2, forward.text
    assert f"change {change_id} had not begun on lab-m2" in forward.words

    # The same verb takes it over; where that cannot begin either, both are over.
    with open(lab.dir / "state" / "lab-m2" / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        again = lab.play(*verb)
    assert again.rc == 2 and "holds the lock" in again.words, again.text
    assert f"lab-m1 had begun and is free again, and so is what change {change_id} had done there;" in again.words
    assert scripts(lab) == old and lab.pids() == pids
    assert newest(lab, "lab-m1")["state"] == "rolled-back"


def test_a_begin_that_one_machine_refuses_frees_the_others(lab: Lab) -> None:
    old, pids = scripts(lab), lab.pids()
    agent = lab.dir / "state" / "lab-m2" / "agent"
    kept = agent.with_name("agent-kept")
    if agent.exists():  # on a new lab nothing has begun yet that would have brought it
        agent.rename(kept)
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_text("in the way of the guard's program, which no plan looks at")
    refused = lab.play("restart.yml", *QUICK)
    agent.unlink()
    if kept.exists():
        kept.rename(agent)
    assert refused.rc == 2
    assert "lab-m1 had begun and is free again" in refused.words
    assert lab.pids() == pids and scripts(lab) == old
    assert newest(lab, "lab-m1")["state"] == "rolled-back" and newest(lab, "lab-m1")["touched"] == []
    on_2 = [change["id"] for change in lab.changes("lab-m2")]
    assert newest(lab, "lab-m1")["id"] not in on_2, "machine 2 has no record of it"


@pytest.mark.long
@pytest.mark.parametrize("fault", ["no_way_to_prefill", "die_at_first_request"])
def test_a_pair_that_does_not_serve_goes_back_on_all_machines_and_the_prefill_restarts_too(
    lab: Lab, fault: str
) -> None:
    old, pids = scripts(lab), lab.pids()
    prefill = 0

    def fall_ill(_process: subprocess.Popen[str]) -> None:
        nonlocal prefill
        prefill = lab.pid("lab-prefill")
        lab.fault(fault)

    process = start_and(
        lab,
        ("set_knob.yml", "-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode", *QUICK),
        lambda: steps(lab, "lab-m2")[-1] == ("start", "lab-decode"),
        fall_ill,
    )
    lab.wait("the way back", lambda: newest(lab, "lab-m1")["state"] != "open")
    lab.fault(clear=True)
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 2, text
    assert scripts(lab) == old and lab.serves()
    assert lab.pid("lab-prefill") not in (prefill, pids["lab-prefill"]), "machine 1 went back with machine 2"
    words = " ".join(text.split())
    assert "lab-m1 (lab-prefill): the old state is back, lab-prefill serve again" in words
    assert "lab-m2 (lab-decode, lab-router): the old state is back, lab-decode, lab-router serve again" in words


def test_a_deploy_that_does_not_reach_a_machine_says_so_and_changes_nothing(lab: Lab) -> None:
    lab.lab("cut", "lab-m2")
    ran = lab.play("deploy.yml", "--check")
    past = lab.play("history.yml")
    lab.lab("cut", "--mend")
    assert ran.rc == 2
    assert (
        "lab-m2 is unreachable (Task failed: machine lab-m2 is cut off (python -m lab cut)); nothing was changed."
        in ran.words
    )
    assert "NO MORE HOSTS LEFT" not in ran.words
    assert past.rc == 2 and "lab-prefill (prefill): " in past.words
    assert (
        "lab-m2 is unreachable (Task failed: machine lab-m2 is cut off (python -m lab cut)), so the versions of "
        "lab-decode, lab-router are not known; what is shown above holds for the others." in past.words
    )

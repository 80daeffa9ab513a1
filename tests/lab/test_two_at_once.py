# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Two operators who begin at the same moment on several machines: one proceeds at most, and nothing stays half begun."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import KNOB, Lab, Ran
from .test_machines import QUICK, UP, scripts

pytestmark = [pytest.mark.lab, pytest.mark.long]
MACHINES = ("lab-m1", "lab-m2")
#: Of the other operator, who calls the machines otherwise: where these come in another order, so does what is taken first.
NAMES = {"alike": {}, "the other way round": {"lab-m1": "z-m1", "lab-m2": "a-m2"}}


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    module_lab.lab("up", "--machines", "2", *UP)
    module_lab.inventory = module_lab.told["inventory"]
    return module_lab


def inventory_of_the_other(lab: Lab, names: dict[str, str]) -> str:
    assert lab.inventory
    told = json.loads(Path(lab.inventory).read_text())
    for role in told["all"]["children"]["instances"]["children"].values():
        for variables in role["hosts"].values():
            variables["pd_machine"] = names.get(variables["pd_machine"], variables["pd_machine"])
    path = lab.dir / "of-the-other.json"
    path.write_text(json.dumps(told))
    return str(path)


def waiting_for(lock: Path) -> set[int]:
    """Processes that have the lock open, which is what they do to wait for it."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if any(os.readlink(f"/proc/{name}/fd/{one}") == str(lock) for one in os.listdir(f"/proc/{name}/fd")):
                found.add(int(name))
    return found


def values(lab: Lab) -> tuple[str, str]:
    """What the one and the other set now; nothing that was there before, or one would have nothing to do."""
    number = 1000 + 2 * len(lab.changes("lab-m1"))
    return str(number), str(number + 1)


def both_at_once(lab: Lab, other: str, *first: str) -> tuple[Ran, Ran]:
    """Both have looked and found the deployment free, and wait for the stores' locks; these are let go at the same moment.

    :param first: of both, the machine that is taken first
    """
    locks = [lab.dir / "state" / machine / "lock" for machine in first]
    for _attempt in range(3):
        with contextlib.ExitStack() as stack:
            for lock in set(locks):
                lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context(lock.open("a+b")), fcntl.LOCK_EX)
            runs: list[subprocess.Popen[str]] = []
            for value, inventory in zip(values(lab), (lab.inventory, other)):
                lab.inventory, mine = inventory, lab.inventory
                knob = ("-e", f"knob={KNOB}", "-e", f"value={value}", "-e", "role=decode")
                runs.append(lab.start("set_knob.yml", *knob, *QUICK))
                lab.inventory = mine
            while all(run.poll() is None for run in runs):
                if len(set().union(*map(waiting_for, locks))) == 2 and all(map(waiting_for, locks)):
                    break
                time.sleep(0.02)
            met = all(run.poll() is None for run in runs)
        told = [Ran(run.returncode, text) for run in runs for text in run.communicate(timeout=600)[:1]]
        if met and not any("holds the lock" in ran.text for ran in told):
            return told[0], told[1]
    raise AssertionError(f"each time one of them had waited too long for the other one: {[ran.text for ran in told]}")


def held(ran: Ran) -> bool:
    """Who, since when, until when, and how to go on."""
    parts = ("lab is held by change ", " of ", "open since ", "its lease runs ", "take it over with -e take_over=")
    return ran.rc == 2 and all(part in ran.words for part in parts) and "Traceback" not in ran.text


def newest_states(lab: Lab) -> dict[str, set[str]]:
    """Of each machine, of the two changes that began last, or of the one where only one began."""
    return {machine: {change["state"] for change in lab.changes(machine)[-2:]} for machine in MACHINES}


@pytest.mark.parametrize("turn", range(3))
def test_of_two_that_take_the_machines_in_the_same_order_exactly_one_proceeds(lab: Lab, turn: int) -> None:
    pids, wanted = lab.pids(), values(lab)
    ran = both_at_once(lab, inventory_of_the_other(lab, NAMES["alike"]), "lab-m1", "lab-m1")
    won = [one for one in ran if one.rc == 0]
    lost = [one for one in ran if one.rc != 0]
    assert len(won) == 1 and held(lost[0]), [one.text for one in ran]
    assert "had begun and is free again" not in lost[0].words, "it was refused where both begin"
    assert newest_states(lab) == {machine: {"confirmed"} for machine in MACHINES}
    assert lab.running_knob() == wanted[ran.index(won[0])]
    assert all(lab.pids()[name] != pid for name, pid in pids.items()) and lab.serves()


def test_of_two_that_take_them_the_other_way_round_none_keeps_a_machine_and_both_say_so(lab: Lab) -> None:
    old, pids = scripts(lab), lab.pids()
    ran = both_at_once(lab, inventory_of_the_other(lab, NAMES["the other way round"]), *MACHINES)
    for one, freed in zip(ran, ("lab-m1", "a-m2")):
        assert held(one), one.text
        assert f"{freed} had begun and is free again. If that one began at the same moment" in one.words
    assert newest_states(lab)["lab-m1"] == newest_states(lab)["lab-m2"] == {"confirmed", "rolled-back"}
    assert scripts(lab) == old and lab.pids() == pids
    again = lab.play("set_knob.yml", "-e", f"knob={KNOB}", "-e", f"value={values(lab)[0]}", "-e", "role=decode", *QUICK)
    assert again.rc == 0, again.text

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The machine loses its power in the middle of a change: the script is the old or the new one, never torn, and it serves after the boot."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from ..field import KNOB, QUICK, Machine, setting

SCRIPT = "/root/serve_dsv4_decode.sh"
#: Read by every Python of the host; what it runs is below /run, which a power loss empties.
HOOK = "/usr/lib/python3/dist-packages/pdops_hold.pth"
HOLD = "/run/pdops-hold.py"
HELD = "/run/pdops-held"
HOLD_RENAME = f"""\
import os, time
rename = os.replace
def held(source, target, **more):
    if os.fspath(target) != {SCRIPT!r}:
        return rename(source, target, **more)
    if {{after}}:
        rename(source, target, **more)
    open({HELD!r}, "w").close()
    time.sleep(3600)
os.replace = held
"""


@pytest.fixture(scope="module", autouse=True)
def hook(gpu1: Machine) -> Iterator[None]:
    gpu1.write(HOOK, f"import os; os.path.exists({HOLD!r}) and exec(open({HOLD!r}).read(), {{}})\n")
    yield
    gpu1.sh(f"rm -f {HOOK} {HOLD}")


def content(gpu1: Machine) -> str:
    return gpu1.sh(f"cat {SCRIPT}")


def held_before_the_rename(gpu1: Machine) -> Callable[[], bool]:
    gpu1.write(HOLD, HOLD_RENAME.format(after=False))
    return lambda: gpu1.sh(f"ls {HELD}", check=False) != ""


def held_after_the_rename(gpu1: Machine) -> Callable[[], bool]:
    """Nothing but the rename has happened: the folder is not synced, the record does not know of it."""
    gpu1.write(HOLD, HOLD_RENAME.format(after=True))
    return lambda: gpu1.sh(f"ls {HELD}", check=False) != ""


def applied(gpu1: Machine) -> Callable[[], bool]:
    return lambda: gpu1.last_step() == ("apply", "")


def stopping(gpu1: Machine) -> Callable[[], bool]:
    return lambda: gpu1.last_step() == ("stop", "dsv4-decode")


def starting(gpu1: Machine) -> Callable[[], bool]:
    return lambda: gpu1.last_step() == ("start", "dsv4-decode")


@pytest.mark.parametrize(
    ("moment", "may_be"),
    [
        (held_before_the_rename, "old"),
        (held_after_the_rename, "new"),
        (applied, "new"),
        (stopping, "new"),
        (starting, "new"),
    ],
)
def test_old_or_new_and_serving_after_the_boot(
    gpu1: Machine, moment: Callable[[Machine], Callable[[], bool]], may_be: str
) -> None:
    old = content(gpu1)
    new = old.replace(f"{KNOB}=512", f"{KNOB}=256")
    assert new != old
    reached = moment(gpu1)
    change = gpu1.set_and_kill("256", reached)
    assert content(gpu1) == {"old": old, "new": new}[may_be]
    gpu1.lose_power()
    gpu1.power("start")
    gpu1.booted()
    assert content(gpu1) in (old, new)
    finished = gpu1.play("recover.yml", "-e", "finish=back", *QUICK)
    assert finished.rc == 0, finished.text
    assert change["id"] in finished.text
    assert gpu1.changes()[-1]["state"] == "rolled-back"
    assert content(gpu1) == old and gpu1.running_knob() == "512"
    gpu1.wait("a request", gpu1.serves)
    # Nothing is lost: both contents are stored versions.
    for item in change["files"]:
        gpu1.sh(f"ls /var/lib/pdops/objects/{item['sha256_before']} /var/lib/pdops/objects/{item['sha256_after']}")
    assert gpu1.sh("systemctl --failed --no-legend") == ""


def test_a_living_controller_that_sees_the_power_go(gpu1: Machine) -> None:
    """It comes to an end by itself, says so and fails; the machine's guard has done the rest."""
    old = content(gpu1)
    process = gpu1.start("ansible-playbook", "set_knob.yml", *setting("256"), *QUICK)
    try:
        gpu1.wait("the start of decode", lambda: gpu1.last_step() == ("start", "dsv4-decode"))
        gpu1.lose_power()
        gpu1.power("start")
        text, _ = process.communicate(timeout=900)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    gpu1.booted()
    assert process.returncode != 0, text
    gpu1.wait("the old state", lambda: gpu1.changes()[-1]["state"] == "rolled-back")
    assert content(gpu1) == old and gpu1.running_knob() == "512"
    gpu1.wait("a request", gpu1.serves)
    told = " ".join(text.split())
    assert "the old state is back" in told or "its guard puts the old state back by itself" in told, text
    proved = gpu1.play("verify.yml")
    assert proved.rc == 0, proved.text
    # What was half written when the power went is cleared away by the next change.
    assert gpu1.sh("ls -A /root | grep '^[.]pdops-' || :") == ""

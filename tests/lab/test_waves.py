# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Three deployments in one run, two at a time: one fails, the other of its wave finishes, the next wave never begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..reaper import bound_lab, lab_ended
from .conftest import KNOB, Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
NAMES = ("east", "north", "west")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Lab]]:
    made = {name: Lab(tmp_path_factory.mktemp(name)) for name in NAMES}
    try:
        for name, lab in made.items():
            bound_lab(lab.dir)
            lab.lab("up", "--name", name, "--light", "--load-time-s", "0.4", "--health-time-s", "0.2")
        yield made
    finally:
        for lab in made.values():
            lab.lab("down", check=False)
            lab_ended(lab.dir)


def value(lab: Lab, name: str) -> str:
    text = Path(lab.told["instances"][f"{name}-decode"]["serve_script"]).read_text()
    return text.partition(f"export {KNOB}=")[2].split()[0]


def test_a_failing_deployment_stops_the_next_wave_and_nothing_else(labs: dict[str, Lab]) -> None:
    lead = labs["east"]
    inventories = [word for lab in labs.values() for word in ("-i", lab.told["inventory"])]
    change = ("-e", f"knob={KNOB}", "-e", "value=384", "-e", "role=decode", "-e", "pd_load_timeout_s=60")
    labs["north"].lab("fault", "refuse_start_with", f"{KNOB}=384")
    ran = lead.play("set_knob.yml", *inventories, *change, "-e", "change_wave=2", timeout_s=600)
    assert ran.rc == 2, ran.text
    assert [value(labs[name], name) for name in NAMES] == ["384", "512", "512"]
    assert "west is not touched: north of an earlier wave did not come to a good end" in ran.words
    assert labs["east"].changes()[-1]["state"] == "confirmed"
    assert labs["north"].changes()[-1]["state"] == "rolled-back"
    assert labs["west"].changes() == []
    wide = lead.play("set_knob.yml", *inventories, *change, "--check", "-f", "2")
    assert wide.rc != 0 and "3 deployments would be changed at once, and Ansible has 2 forks" in wide.words

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Every command of the runbooks, typed in the order of their list, in one lab: each page leads to the next."""

from __future__ import annotations

import json
import re

import pytest

from tests.kernel_wheel import make_wheel

from .conftest import KNOB, ROOT, Lab
from .runbook import try_page

pytestmark = pytest.mark.lab
FOLDER = ROOT / "docs" / "runbooks"
#: What the decode runs with when a page has been typed.
AFTER = {
    "restore-a-knob.md": "512",
    "co-restart.md": "512",
    "decode-only-restart.md": "512",
    "revert.md": None,
    "rollback.md": "512",
    "deploy.md": "512",
    "deploy-kernels.md": "512",
}


@pytest.fixture(scope="module")
def lab(module_lab: Lab) -> Lab:
    """Started by the command of the list of runbooks, only quicker."""
    typed = re.search(r"^python -m lab (up .*)$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert typed, "the list of runbooks says how to start a lab"
    module_lab.lab(*typed[1].split(), "--light", "--load-time-s", "0.4", "--health-time-s", "0.2")
    inventory = module_lab.dir / "inventory.json"
    told = json.loads(inventory.read_text())
    told["all"]["vars"] = {"pd_kernel_wheel": str(make_wheel(module_lab.dir / "wheels"))}
    inventory.write_text(json.dumps(told))
    module_lab.environment["ANSIBLE_INVENTORY"] = str(inventory)
    return module_lab


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name == "deploy-kernels.md" else []) for name in AFTER]
)
def test_a_runbook_does_and_prints_what_it_says(lab: Lab, name: str) -> None:
    script = lab.dir / "serve" / "serve_dsv4_decode.sh"
    if name == "deploy.md":  # on a bare machine
        for path in script.parent.iterdir():
            path.unlink()
    if (
        name == "deploy-kernels.md" and lab.running_knob("dsv4-decode") != "512"
    ):  # chosen alone, without the pages before it
        assert lab.play("restore_knob.yml", "-e", f"knob={KNOB}").rc == 0
    try_page(FOLDER / name, ROOT, lab.environment)
    assert lab.running_knob("dsv4-decode") == AFTER[name]
    assert (f"export {KNOB}=512" in script.read_text(encoding="utf-8")) == (AFTER[name] == "512")
    assert lab.serves()

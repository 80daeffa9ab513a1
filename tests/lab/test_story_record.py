# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The story as the record tells it: a knob is adopted with its figures, suspected, reverted, exonerated and restored.

The figures are the operator's of the story; the engines that serve here are a simulation, and are called so.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .conftest import KNOB, QUICK, ROOT, Lab, Ran

pytestmark = pytest.mark.lab

CASES = ROOT / "tests" / "cases" / "docs"
RED = json.loads((CASES / "red.json").read_text())


def entries(lab: Lab) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((lab.dir / "evidence" / "lab").glob("*.json"))]


def ids(lab: Lab) -> dict[str, str]:
    """The newest id by kind, and of the two measurements."""
    found: dict[str, str] = {}
    for path in sorted((lab.dir / "evidence" / "lab").glob("*.json")):
        _utc, kind, name = path.stem.split("-")
        found["measure2" if kind == "measure" and "measure" in found else kind] = name
    return found


def docs(lab: Lab, stage: str) -> Path:
    folder = lab.dir / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CASES / stage, folder)
    for path in folder.glob("*.md"):
        text = path.read_text()
        for name, identity in ids(lab).items():
            text = text.replace(f"{{{name}}}", identity)
        path.write_text(text)
    return folder


def red(ran: Ran) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in ran.text.splitlines():
        name, _, rest = line.partition(".md:")
        number, colon, _said = rest.partition(":")
        if colon and number.isdigit() and line.startswith("  [lab] "):
            found.setdefault(f"{Path(name).name}.md", []).append(int(number))
    return found


def below(lines: dict[str, list[int]], shift: int) -> dict[str, list[int]]:
    """The same lines when a region above them has grown; only the plan has one."""
    return {name: [line + (shift if "PERF_PLAN" in name else 0) for line in found] for name, found in lines.items()}


def test_the_story_from_adoption_to_no_debt(story: Lab) -> None:
    lab, knob = story, ("-e", f"knob={KNOB}")

    # Adopted, with its figures. A document that says so is rendered and green.
    ran = lab.play("set_knob.yml", *knob, "-e", "value=512", "-e", "role=decode", *QUICK)
    assert ran.rc == 0, ran.text
    measure = ("record.yml", *knob, "-e", "kind=measure", "-e", "verdict=adopted", "-e")
    ran = lab.play(*measure, "load=C64", "-e", "effect=+12.8")
    assert ran.rc == 0, ran.text
    folder = docs(lab, "adopted")
    ran = lab.play(
        *measure, "load=C96", "-e", "effect=+5.7%", "-e", f"docs={folder}", "-e", "render=true", "-e", "show=fold"
    )
    assert ran.rc == 0 and red(ran) == RED["adopted"], ran.text
    assert f"{KNOB}: 512 on lab-decode; verdict adopted (=512)" in ran.text
    assert "+12.8 % at C64 (simulation): adopted" in ran.text
    made = entries(lab)
    assert [entry["kind"] for entry in made] == ["apply", "measure", "measure"]
    fingerprint = made[0]["fingerprint"]
    assert isinstance(fingerprint, dict) and fingerprint == made[1]["fingerprint"]
    assert (
        fingerprint["decode engine"] == "0.5.23-simulation"
        and "files as installed" in fingerprint["router sglang-router"]
    )
    assert KNOB not in json.dumps(fingerprint)

    # Suspected and reverted; a revert wants a reason, and one word is enough.
    before = lab.pids()
    ran = lab.play("revert_knob.yml", *knob)
    assert ran.rc == 2 and "revert_knob needs a reason: add -e reason=suspicion" in ran.words
    assert lab.pids() == before and len(entries(lab)) == 3
    ran = lab.play("record.yml", *knob, "-e", "kind=suspect", "-e", '{"why": "an agent hung, both engines idle"}')
    assert ran.rc == 0, ran.text
    ran = lab.play("revert_knob.yml", *knob, "-e", "reason=suspicion", "-e", f"docs={folder}", *QUICK)
    assert ran.rc == 0, ran.text
    assert "costs: forgoing +12.8 % at C64, +5.7 % at C96 (simulation); review by " in ran.text
    assert f"debt: {KNOB}=512 reverted on suspicion on " in ran.text and lab.running_knob() is None
    report = (lab.dir / "reports" / "lab" / "latest.html").read_text()
    assert "forgoing +12.8 % at C64, +5.7 % at C96 (simulation)" in report
    assert red(ran) == below(RED["adopted, after the revert"], 1), ran.text  # the debt is a line of the region

    # The documents as they stood, blaming the knob; then the proxy is found.
    folder = docs(lab, "as_they_stood")
    ran = lab.play(
        "record.yml", *knob, "-e", "kind=exonerate", "-e", "cause=proxy", "-e", f"docs={folder}", "-e", "show=fold"
    )
    assert ran.rc == 2 and red(ran) == RED["as they stood, after the revert"], ran.text
    assert "a generated region does not say what the record says" in ran.text
    ran = lab.play("restore_knob.yml", *knob, "-e", f"docs={folder}", *QUICK)
    assert ran.rc == 0 and lab.running_knob() == "512", ran.text
    assert "exonerated (proxy), yet not restored" in ran.text.split("Open the change")[0]
    assert red(ran) == below(RED["as they stood, after the restore"], 5)  # the region was empty before
    assert f"blames {KNOB}, and the record says adopted, exonerated (proxy)" in ran.words
    assert f"- `{KNOB}`: 512 on lab-decode\n" in (folder / "DSV4_DECODE_PERF_PLAN.md").read_text()

    # A person rewords them: green, and nothing is owed.
    folder = docs(lab, "reworded")
    ran = lab.play("record.yml", "-e", f"docs={folder}", "-e", "render=true", "-e", "show=check")
    assert ran.rc == 0 and "2 documents say what the record says" in ran.text, ran.text
    assert "the record holds: 7 entries" in ran.text and "debt:" not in ran.text
    assert "told nothing" not in ran.text
    # A record that was compared with no machine says so.
    silent = lab.play("record.yml", "-e", "show=check", "-e", f"pd_state_dir={lab.script}")
    assert "lab told nothing (" in silent.words and "so the record is not compared with what is there" in silent.words
    assert [entry["kind"] for entry in entries(lab)][3:] == ["suspect", "revert", "exonerate", "restore"]
    page = (lab.dir / "reports" / "lab" / "record.html").read_text()
    assert "No debt" in page and "those of a simulation" in page and "exonerate" in page

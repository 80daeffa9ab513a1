# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""deploy.yml where supervisord runs the programs: scripts, folders and keys from nothing, back to nothing, and an edit by hand.

Units, virtual environments and reboots are proved on real hosts (molecule scenario deploy).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.engine_wheels import make_wheels

from .conftest import KNOB, ROOT, Lab
from .deploy_site import KEY, ROTATED, Site

pytestmark = [pytest.mark.lab, pytest.mark.long]


def test_from_nothing_to_serving_and_back(story: Lab, tmp_path: Path) -> None:
    site = Site(story, tmp_path)

    adopted = site.deploy("--check")
    assert adopted.rc == 2 and "no confirmed change is on record" in adopted.words  # nobody's script is overwritten

    site.bare()
    checked = site.deploy("--check", "--diff")
    assert checked.rc == 0, checked.text
    assert checked.recap["changed"] > 0 and f"make folder {tmp_path}/root" in checked.text
    assert f"+export {KNOB}=512" in checked.text and "which is not there yet" in checked.text
    assert not site.scripts and not (tmp_path / "root").exists() and not (story.dir / "state").exists()

    clash = site.deploy("-e", '{"pd_gpus": [4, 5, 6, 7]}')
    assert clash.rc == 2 and "both have GPU 4, 5, 6, 7 in pd_gpus" in clash.words and not (tmp_path / "root").exists()

    failed = site.deploy("-e", "pd_engine_module=lab.nosuch")
    assert failed.rc == 2, failed.text
    assert "do not run, as before" in failed.words and "No module named lab.nosuch" in failed.text
    assert not site.scripts and site.states() <= {"STOPPED", "EXITED", "FATAL"}
    assert [change["state"] for change in story.changes()] == ["rolled-back"]

    site.deploy_and_kill()
    ran = site.deploy()  # the same command goes on from there
    assert ran.rc == 0, ran.text
    assert "finished: deployed lab" in ran.words
    assert [change["state"] for change in story.changes()][-2:] == ["superseded", "confirmed"]
    assert {item["sha256_before"] for item in story.changes()[-1]["files"]} == {"absent"}
    assert story.serves() and story.running_knob() == "512"
    assert json.loads((tmp_path / "intended" / "lab-decode.json").read_text())["knobs"] == {KNOB: "512"}
    made = story.journal("serve_machine")
    assert [row["step"] for row in made] == ["begin", "done"] and f"make folder {tmp_path}/root" in made[0]["tasks"]
    assert made[0]["actor"] == story.changes()[-1]["leader"]["user"] + " on " + story.changes()[-1]["leader"]["host"]
    key = tmp_path / "etc" / "keys.yaml"
    assert key.read_text() == KEY and key.stat().st_mode & 0o777 == 0o600
    assert "sk-of-nobody" not in ran.text + checked.text

    pids = story.pids()
    again = site.deploy()
    assert again.rc == 0 and again.recap["changed"] == 0 and story.pids() == pids

    # As a controller leaves it that dies right after the confirmation: neither values nor an entry are written.
    shutil.rmtree(tmp_path / "intended")
    shutil.rmtree(story.dir / "evidence")
    moved = site.deploy("--check", "-e", json.dumps({"pd_pair_knobs": {"UCX_TLS": "tcp"}}))
    assert moved.rc == 0 and "by hand" not in moved.words and not (tmp_path / "intended").exists(), moved.text
    document = tmp_path / "doc.md"
    document.write_text("<!-- pdops:begin knobs -->\n<!-- pdops:end -->\n")
    again = site.deploy("-e", f"docs={document}")
    assert again.rc == 0 and "nothing to deploy" in again.words and story.pids() == pids, again.text
    decode = json.loads((tmp_path / "intended" / "lab-decode.json").read_text())
    assert decode["knobs"] == {KNOB: "512"} and decode["change_id"] == story.changes()[-1]["id"]
    assert json.loads((tmp_path / "intended" / "lab.pair.json").read_text())["knobs"]["UCX_TLS"] == "rc_x,cuda_copy"
    kept = [json.loads(path.read_text()) for path in (story.dir / "evidence" / "lab").glob("*.json")]
    assert {entry["change_id"] for entry in kept} == {story.changes()[-1]["id"]} and KNOB in document.read_text()
    assert site.deploy().recap["changed"] == 0
    assert len(list((story.dir / "evidence" / "lab").glob("*.json"))) == len(kept)

    scripts = site.scripts
    by_hand = story.script.read_text().replace("UCX_TLS=rc_x,cuda_copy", "UCX_TLS=tcp")
    story.script.write_text(by_hand)
    (tmp_path / "keys").write_text(ROTATED)
    drifted = site.deploy()
    assert drifted.rc == 2 and "UCX_TLS is 'tcp' on the machine" in drifted.words and "take=host" in drifted.words
    assert story.script.read_text() == by_hand and story.pids() == pids and key.read_text() == KEY

    # Overwritten on demand; as the new state does not start, all are back as they were, and serve.
    # The new key, which somebody who died in between would have been started with, goes back with them.
    undone = site.deploy("-e", "take=vars", "-e", "pd_engine_module=lab.nosuch")
    assert undone.rc == 2 and "serve again" in undone.words, undone.text
    assert site.scripts == {**scripts, story.script.name: by_hand.encode()} and story.serves()
    assert f"edit lab-prefill: {key} (keys)" in undone.words and "changed (content not shown)" in undone.words
    assert key.read_text() == KEY and key.stat().st_mode & 0o777 == 0o600

    # Rotated: the processes that read it are new ones, and both contents are stored.
    story.script.write_bytes(scripts[story.script.name])
    pids = story.pids()
    rotated = site.deploy()
    assert rotated.rc == 0 and "its file of keys changes" in rotated.words, rotated.text
    assert key.read_text() == ROTATED and key.stat().st_mode & 0o777 == 0o600
    assert not set(pids.values()) & set(story.pids().values()) and story.serves()
    stored = {path: path.read_bytes() for path in (story.dir / "state" / "objects").iterdir()}
    assert {path.stat().st_mode & 0o777 for path in stored} == {0o600}
    assert {KEY.encode(), ROTATED.encode()} <= set(stored.values())
    assert "sk-of-nobody" not in "".join(ran.text for ran in (drifted, undone, rotated))


#: What makes this machine, without systemd, the one of the example; what a deploy wants is the example's own.
HERE = """\
all:
  children:
    instances:
      vars: {ansible_connection: local, ansible_host: 127.0.0.1, ansible_python_interpreter: "{{ ansible_playbook_python }}",
        pd_service_manager: supervisor, pd_supervisor_config: CONFIG, pd_state_dir: FOLDER/state, pd_serve_root: FOLDER/root,
        pd_base_python: "{{ ansible_playbook_python }}"}
    prefill: {hosts: {dsv4-prefill: {pd_serve_script: FOLDER/prefill.sh}}}
    decode: {hosts: {dsv4-decode: {pd_serve_script: FOLDER/decode.sh}}}
    router: {hosts: {dsv4-router: {pd_serve_script: FOLDER/router.sh}}}
"""


def test_the_example_that_can_be_deployed_is_planned_as_it_is(story: Lab, tmp_path: Path) -> None:
    inventories = tmp_path / "inventory"
    shutil.copytree(ROOT / "inventory" / "example-deploy", inventories / "mine")
    make_wheels(inventories / "wheels")
    (inventories / "keys").mkdir()
    for name in ("dsv4.key", "dsv4-engine.yaml"):
        (inventories / "keys" / name).write_text(KEY)
    here = HERE.replace("CONFIG", story.told["supervisor_config"]).replace("FOLDER", str(tmp_path))
    (inventories / "here.yml").write_text(here)
    before = sorted(tmp_path.rglob("*"))
    planned = story.play(
        "deploy.yml", "-i", str(inventories / "mine"), "-i", str(inventories / "here.yml"), "--check", "--diff"
    )
    assert planned.rc == 0, planned.text
    for told in (
        f"{tmp_path}/root/venv-",
        f"write dsv4-decode: {tmp_path}/decode.sh, which is not there yet",
        f"+export {KNOB}=512",
        "--config /etc/pdops/dsv4-engine.yaml",
        "stop dsv4-router -> dsv4-decode -> dsv4-prefill, then start dsv4-prefill -> dsv4-decode -> dsv4-router",
    ):
        assert told in planned.text, told
    assert KEY.split()[1] not in planned.text and sorted(tmp_path.rglob("*")) == before

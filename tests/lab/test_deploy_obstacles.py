# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# ruff: noqa: F811 (fixtures are imported, and named as arguments)
"""What may go wrong around a deploy: it ends with the old state serving or nothing half written, and one clear sentence."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable

import pytest

from .deploy_site import KEY, Site, bare, disk, nothing_written, site  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.lab, pytest.mark.long]


def test_all_obstacles_are_told_at_once_and_nothing_is_touched(bare: Site) -> None:
    (bare.folder / "keys").write_text("$ANSIBLE_VAULT;1.1;AES256\n3031\n")  # vaulted, and nobody gave the password
    (bare.folder / "file").write_text("")
    ran = bare.deploy("-e", f"pd_intended_dir={bare.folder}/file/intended")
    assert ran.rc == 2 and "obstacles on the controller, and nothing was touched" in ran.words, ran.text
    assert f"lab-prefill: {bare.folder}/keys (src of pd_key_files) cannot be read on the controller" in ran.words
    assert f"{bare.folder}/file is no folder" in ran.words
    assert nothing_written(bare) and not (bare.folder / "root").exists() and not (bare.lab.dir / "state").exists()

    (bare.folder / "keys").write_text(KEY)
    (bare.folder / "etc").mkdir()
    (bare.folder / "etc" / "keys.yaml").write_text("api-key: of somebody else\n")
    serve = bare.lab.dir / "serve"
    serve.mkdir()
    (serve / "serve_dsv4_decode.sh").write_text("#!/bin/bash\nexec by hand\n")
    ran = bare.deploy("-e", f"pd_serve_root={bare.folder}/file")
    assert ran.rc == 2 and f"{bare.folder}/file is to be a folder, and something else is there" in ran.words, ran.text
    assert "lab-prefill: " in ran.words and "(dest of pd_key_files) was not written by pdops" in ran.words
    assert "lab-decode: " in ran.words and "obstacles, and nothing was touched" in ran.words
    assert list(serve.iterdir()) == [serve / "serve_dsv4_decode.sh"] and not (bare.lab.dir / "state").exists()


@pytest.mark.parametrize(
    ("place", "room", "words"),
    [
        ("state", "size=100k", "could not be written: no space is left on its file system; free some, then run again"),
        ("serve", "size=8k", "could not be written: no space is left on its file system"),
        ("root", "nr_inodes=3", "could not be made as it is to be: no space is left"),
    ],
)
def test_a_disk_that_is_full_in_the_middle(bare: Site, place: str, room: str, words: str) -> None:
    with disk((bare.folder if place == "root" else bare.lab.dir) / place, room):
        ran = bare.deploy()
        assert ran.rc == 2 and words in ran.words, ran.text
        assert nothing_written(bare), ran.text
    ran = bare.deploy()
    assert ran.rc == 0 and bare.lab.serves(), ran.text


def steps(site: Site) -> list[tuple[str, str]]:
    return [(step["step"], step["instance"]) for step in site.lab.changes()[-1]["steps"]]


#: What has happened by then; on a busy machine the controller may have come further when it dies.
PHASES: dict[str, Callable[[Site], bool]] = {
    "folders made": lambda site: (site.folder / "root").exists(),
    "contents stored": lambda site: any((site.lab.dir / "state" / "objects").glob("*")),
    "change opened": lambda site: bool(site.lab.changes()),
    "router starts": lambda site: ("start", "lab-router") in steps(site),
    "confirmed": lambda site: site.lab.changes()[-1]["state"] == "confirmed",
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_controller_that_dies_in_any_phase_leaves_what_the_next_run_finishes(bare: Site, phase: str) -> None:
    process = bare.lab.start("deploy.yml", *bare.arguments)
    try:
        bare.lab.wait(phase, lambda: PHASES[phase](bare))
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the controller alone: what it had begun on the machine goes on
        process.communicate()
    ran = bare.deploy()
    assert ran.rc == 0, ran.text
    assert bare.lab.serves() and len(bare.scripts) == 3 and (bare.folder / "etc" / "keys.yaml").read_text() == KEY
    assert (bare.folder / "intended" / "lab-decode.json").exists()
    assert bare.deploy().recap["changed"] == 0


def test_of_two_operators_at_once_one_goes_on(bare: Site) -> None:
    both = [bare.lab.start("deploy.yml", *bare.arguments) for _ in range(2)]
    ended = [(process.communicate(timeout=600)[0], process.returncode) for process in both]
    assert sorted(rc for _, rc in ended) == [0, 2], "\n=====\n".join(text for text, _ in ended)
    refused = next(" ".join(text.split()) for text, rc in ended if rc == 2)
    # One came to the change first; or its scripts were there already when the other one was about to write.
    assert bare.lab.changes()[-1]["id"] in refused or "is not what the plan showed; nothing was" in refused, refused
    assert bare.lab.serves()


def test_a_store_that_is_deleted_between_plan_and_apply(bare: Site) -> None:
    for phase in ("contents stored", "change opened"):
        process = bare.lab.start("deploy.yml", *bare.arguments)
        with bare.lab.standing_at(process, phase, lambda phase=phase: PHASES[phase](bare)):
            shutil.rmtree(bare.lab.dir / "state")
        text, _ = process.communicate(timeout=600)
        assert process.returncode == 2, text
        assert nothing_written(bare), text


def test_an_engine_that_never_comes_back(bare: Site) -> None:
    first = bare.deploy()
    assert first.rc == 0, first.text
    scripts, known = bare.scripts, len(bare.lab.changes())
    bare.lab.fault("slow_load", "300")
    more = ("-e", "pd_load_timeout_s=20", "-e", '{"pd_pair_knobs": {"UCX_TLS": "tcp"}}')
    process = bare.lab.start("deploy.yml", *bare.arguments, *more)

    def back() -> bool:
        return len(bare.lab.changes()) > known and bare.lab.changes()[-1]["state"] != "open"

    with bare.lab.moment(process, "the way back", back) as reached:
        assert reached
        bare.lab.fault(clear=True)
    text, _ = process.communicate(timeout=600)
    words = " ".join(text.split())
    assert process.returncode == 2 and "lab-decode: gate " in words and "serve again" in words, text
    assert bare.scripts == scripts and bare.lab.serves()

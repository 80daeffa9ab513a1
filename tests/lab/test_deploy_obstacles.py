# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""What may go wrong around a deploy: it ends with the old state serving or nothing half written, and one clear sentence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import PATIENT, Lab
from .test_deploy import KEY, Site

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture(scope="module")
def site(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    module_lab.story()
    return Site(module_lab, tmp_path_factory.mktemp("site"))


@pytest.fixture
def bare(site: Site) -> Site:
    """Nothing is there, as before a first deploy."""
    site.bare()
    for name in ("root", "etc", "intended"):
        if (site.folder / name).exists():
            shutil.rmtree(site.folder / name)
    (site.folder / "keys").write_text(KEY)
    return site


def nothing_written(site: Site) -> bool:
    keys = site.folder / "etc" / "keys.yaml"
    return not site.scripts and not keys.exists() and site.states() <= {"STOPPED", "EXITED", "FATAL"}


@contextmanager
def disk(folder: Path, room: str) -> Iterator[None]:
    """A file system with little room in the place of a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"{room},mode=700", "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True).returncode != 0:
        pytest.skip("a small disk needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


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


def newest(site: Site) -> tuple[str, str, str]:
    """State, last step and its instance of the newest change."""
    change = (site.lab.changes() or [{"state": "", "steps": []}])[-1]
    step = (change["steps"] or [{"step": "", "instance": ""}])[-1]
    return change["state"], step["step"], step["instance"]


PHASES: dict[str, Callable[[Site], bool]] = {
    "folders made": lambda site: (site.folder / "root").exists(),
    "contents stored": lambda site: any((site.lab.dir / "state" / "objects").glob("*")),
    "change opened": lambda site: newest(site)[0] == "open",
    "router starts": lambda site: newest(site)[1:] == ("start", "lab-router"),
    "confirmed": lambda site: newest(site)[0] == "confirmed",
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_controller_that_dies_in_any_phase_leaves_what_the_next_run_finishes(bare: Site, phase: str) -> None:
    process = bare.lab.start("deploy.yml", *bare.arguments, *PATIENT)
    try:
        bare.lab.wait(phase, lambda: PHASES[phase](bare))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    ran = bare.deploy()
    assert ran.rc == 0, ran.text
    assert bare.lab.serves() and len(bare.scripts) == 3 and (bare.folder / "etc" / "keys.yaml").read_text() == KEY
    assert (bare.folder / "intended" / "lab-decode.json").exists()
    assert bare.deploy().recap["changed"] == 0


def test_of_two_operators_at_once_one_goes_on(bare: Site) -> None:
    both = [bare.lab.start("deploy.yml", *bare.arguments) for _ in range(2)]
    ended = [(process.communicate(timeout=240)[0], process.returncode) for process in both]
    assert sorted(rc for _, rc in ended) == [0, 2], "\n=====\n".join(text for text, _ in ended)
    refused = next(" ".join(text.split()) for text, rc in ended if rc == 2)
    # One came to the change first; or its scripts were there already when the other one was about to write.
    assert bare.lab.changes()[-1]["id"] in refused or "is not what the plan showed; nothing was" in refused, refused
    assert bare.lab.serves()


def test_a_store_that_is_deleted_between_plan_and_apply(bare: Site) -> None:
    for phase in ("contents stored", "change opened"):
        process = bare.lab.start("deploy.yml", *bare.arguments)
        bare.lab.wait(phase, lambda phase=phase: PHASES[phase](bare))
        shutil.rmtree(bare.lab.dir / "state")
        text, _ = process.communicate(timeout=240)
        assert process.returncode == 2, text
        print(phase, text[text.rindex("TASK [") :])
        assert nothing_written(bare), text


def test_an_engine_that_never_comes_back(bare: Site) -> None:
    first = bare.deploy()
    assert first.rc == 0, first.text
    scripts, known = bare.scripts, len(bare.lab.changes())
    bare.lab.lab("fault", "slow_load", "300")
    process = bare.lab.start("deploy.yml", *bare.arguments, "-e", '{"pd_pair_knobs": {"UCX_TLS": "tcp"}}')
    bare.lab.wait("the way back", lambda: len(bare.lab.changes()) > known and bare.lab.changes()[-1]["state"] != "open")
    bare.lab.lab("fault", "--clear")
    text, _ = process.communicate(timeout=240)
    words = " ".join(text.split())
    assert process.returncode == 2 and "lab-decode: gate " in words and "serve again" in words, text
    assert bare.scripts == scripts and bare.lab.serves()

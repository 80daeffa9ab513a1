# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The place of tests of deploy.yml: a lab, what an operator adds to its inventory, and disks that are too small."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.runner import rpc

from .conftest import KNOB, QUICK, Lab, Ran

EXTRA = """\
all:
  vars: {pd_intended_dir: FOLDER/intended}
  children:
    instances:
      vars:
        pd_python: "{{ lab.python }}"
        pd_serve_root: FOLDER/root
    prefill:
      vars:
        pd_engine_module: lab.engine
        pd_model_path: /models/DeepSeek-V4-Flash
        pd_pair_arguments: &arguments
          {disaggregation-transfer-backend: nixl, tp-size: 4, trust-remote-code: true, served-model-name: "{{ lab.model }}"}
        pd_pair_knobs: &knobs {SGLANG_EXPOSE_OWN_ENV_VARS: 1, UCX_TLS: "rc_x,cuda_copy"}
        pd_gpus: [0, 1, 2, 3]
        pd_key_files: [{src: FOLDER/keys, dest: FOLDER/etc/keys.yaml}]
    decode:
      vars:
        pd_engine_module: lab.engine
        pd_model_path: /models/DeepSeek-V4-Flash
        pd_pair_arguments: *arguments
        pd_pair_knobs: *knobs
        pd_gpus: [4, 5, 6, 7]
        pd_knobs: {KNOB: 512}
    router:
      vars:
        pd_arguments: {worker-startup-check-interval: 1, log-level: warn, cb-timeout-duration-secs: 5}
"""
KEY, ROTATED = "api-key: sk-of-nobody-1234567890\n", "api-key: sk-of-nobody-0987654321\n"


def away(path: Path) -> bool:
    """Whether it could be removed. What is written into it meanwhile is no failure: the caller tries again until it is gone."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


class Site:
    """A lab with what an operator adds to its inventory, and the ways to its state."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        (folder / "keys").write_text(KEY)
        (folder / "extra.yml").write_text(EXTRA.replace("FOLDER", str(folder)).replace("KNOB", KNOB))

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("-i", "inventory/lab", "-i", str(self.folder / "extra.yml"), *QUICK)

    def deploy(self, *arguments: str) -> Ran:
        return self.lab.play("deploy.yml", *self.arguments, *arguments)

    def deploy_and_kill(self) -> None:
        """A controller that dies when everything is written and decode is about to start."""
        process = self.lab.start("deploy.yml", *self.arguments)

        def starts() -> bool:
            change = self.lab.changes()[-1]
            steps = [(step["step"], step["instance"]) for step in change["steps"]]
            return change["state"] == "open" and ("start", "lab-decode") in steps

        reached, text = self.lab.kill_at(process, "the start of decode", starts)
        assert reached, text

    def bare(self) -> None:
        """Nothing runs, and nothing is there, as before a first deploy."""
        server: Any = rpc(self.lab.told).supervisor
        for unit in ("router", "decode", "prefill"):
            with contextlib.suppress(Exception):  # some do not run
                server.stopProcess(f"sglang-dsv4-{unit}")
        for path in (
            *(self.lab.dir / name for name in ("serve", "state")),
            *(self.folder / name for name in ("root", "etc", "intended")),
        ):
            # The guard of a controller that a test killed may be at work there, until it finds its change gone.
            self.lab.wait(f"that {path} is away", lambda path=path: away(path))
        (self.folder / "keys").write_text(KEY)

    @property
    def scripts(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.lab.dir / "serve").glob("*.sh")}

    def states(self) -> set[str]:
        server: Any = rpc(self.lab.told).supervisor
        return {str(item["statename"]) for item in server.getAllProcessInfo() if item["name"].startswith("sglang")}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Of the kind that the module names as ``SITE``, if it names one."""
    module_lab.story()
    made: Site = getattr(request.module, "SITE", Site)(module_lab, tmp_path_factory.mktemp("site"))
    return made


@pytest.fixture
def bare(site: Site) -> Site:
    site.bare()
    return site


def nothing_written(site: Site) -> bool:
    keys = site.folder / "etc" / "keys.yaml"
    return not site.scripts and not keys.exists() and site.states() <= {"STOPPED", "EXITED", "FATAL"}


@contextlib.contextmanager
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

# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The collection as others get it: built, installed offline, and used from a folder that holds nothing but an inventory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Installed:
    """An operator's folder, with the collection installed elsewhere and no settings but Ansible's own."""

    def __init__(self, folder: Path, inventory: Path, **environment: str) -> None:
        self.site = folder / "site"
        self.collections = folder / "collections"
        self.root = self.collections / "ansible_collections" / "pdops" / "sglang"
        for made in (self.site / "inventory", folder / "home"):
            made.mkdir(parents=True)
        shutil.copy(inventory, self.site / "inventory")
        known = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.environment = {
            **known,
            **environment,
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        staged = self.run(str(ROOT / "tools" / "stage"), str(folder / "staged")).split()[-1]
        self.run("ansible-galaxy", "collection", "build", staged, "--output-path", str(folder))
        (tarball,) = folder.glob("pdops-sglang-*.tar.gz")
        self.run("ansible-galaxy", "collection", "install", "--offline", str(tarball), "-p", str(self.collections))
        shutil.rmtree(folder / "staged")  # what is used below must not be found there

    def run(self, *command: str) -> str:
        """Standard output of a command that is typed in the folder and succeeds."""
        done = subprocess.run(
            command,
            cwd=self.site,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=900,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def play(self, *words: str) -> str:
        return self.run("ansible-playbook", "-i", "inventory", *words)

    def names(self, room: str) -> list[str]:
        """Of all modules, roles or playbooks, as they are typed."""
        found = (self.root / room).glob("[!_]*")
        return sorted(f"pdops.sglang.{path.stem}" for path in found if path.is_dir() or path.suffix in (".py", ".yml"))

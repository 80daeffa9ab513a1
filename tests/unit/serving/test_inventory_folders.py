# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Keys and wheels in the folder of an inventory, which Ansible reads as inventories, are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.pdops.sglang.plugins.module_utils.pdops_error import PdopsError
from ansible_collections.pdops.sglang.plugins.module_utils.serving.inventory_folders import (
    inventory_folders,
    refuse_inside,
)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name in ("mine/keys/k", "mine/group_vars/keys/k", "mine/.keys/k", "keys/k", "mine.keys/k", "hosts.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("sk0of0nobody\n")
    (tmp_path / "link").symlink_to("mine")
    return tmp_path


def test_only_what_lies_inside_is_refused_with_where_to_put_it(mine: Path) -> None:
    folders = inventory_folders([mine / "link", str(mine / "hosts.yml"), "gpu1,"])
    assert folders == (str(mine.resolve() / "mine"),)
    for inside in ("mine/keys/k", "mine/keys", "mine", "link/keys/k"):
        with pytest.raises(PdopsError, match=r"^x: pd_wheels is .*put it beside that folder, as in \.\./"):
            refuse_inside("x: pd_wheels", str(mine / inside), folders)
    for beside in ("keys/k", "mine.keys/k", "hosts.yml", "mine/group_vars/keys/k", "mine/.keys/k", "nosuch"):
        refuse_inside("x: pd_wheels", str(mine / beside), folders)
    refuse_inside("x: pd_wheels", str(mine / "mine/keys/k"), ())


def test_ansible_reads_what_is_refused_and_nothing_else(mine: Path) -> None:
    def hosts() -> list[str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        command = [Path(sys.executable).parent / "ansible-inventory", "-i", mine / "mine", "--list"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=mine, env={**known, "HOME": str(mine)})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["ungrouped"]["hosts"]

    assert hosts() == ["sk0of0nobody"]
    (mine / "mine" / "keys" / "k").unlink()
    (mine / "mine" / "hosts.yml").write_text("all: {hosts: {a: {}}}\n")
    assert hosts() == ["a"]

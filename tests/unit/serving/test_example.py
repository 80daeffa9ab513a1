# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""The example that can be deployed, made by the commands of docs/deploy.md, gives all that deploy.yml wants."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine_wheels import make_wheels

ROOT = Path(__file__).resolve().parents[3]


def typed() -> list[str]:
    """The commands of the page, without the one that needs a package index."""
    page = (ROOT / "docs" / "deploy.md").read_text()
    (block,) = re.findall(
        r"^```sh\n(.*?)^```$", page.partition("## A first deployment")[2].partition("\n## ")[0], re.S | re.M
    )
    lines = block.splitlines()
    assert [line for line in lines if "inventory/wheels" in line] == [line for line in lines if line.startswith("pip ")]
    return [line for line in lines if not line.startswith("pip ")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "inventory", tmp_path / "inventory")
    return tmp_path


def checked(checkout: Path) -> tuple[int, str]:
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
    }
    command = ["ansible", "dsv4", "-i", "inventory/mine", "-m", "pdops.sglang.serve_check", "-a", "deployment=dsv4"]
    command[0] = str(Path(sys.executable).parent / command[0])
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_with_wheels_and_keys_nothing_is_missing_and_without_each_is_told(checkout: Path) -> None:
    shutil.copytree(checkout / "inventory" / "example-deploy", checkout / "inventory" / "mine")
    rc, told = checked(checkout)
    assert rc == 2 and "inventory/wheels, which cannot be read on the controller" in told
    for name in ("dsv4.key", "dsv4-engine.yaml"):
        assert f"inventory/keys/{name}, and there is no such file on the controller" in told
    shutil.rmtree(checkout / "inventory" / "mine")

    for line in typed():
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(line, shell=True, cwd=checkout, check=True, env={**os.environ, "PATH": path})
    keys = checkout / "inventory" / "keys"
    key = (keys / "dsv4.key").read_text().strip()
    assert len(key) == 64 and (keys / "dsv4-engine.yaml").read_text() == f"api-key: {key}\n"
    assert {path.stat().st_mode & 0o777 for path in keys.iterdir()} == {0o600} and keys.stat().st_mode & 0o077 == 0
    make_wheels(checkout / "inventory" / "wheels")
    rc, told = checked(checkout)
    assert rc == 0 and "/etc/systemd/system/sglang-dsv4-decode.service" in told, told
    assert key not in told

    # In the inventory's own folder a key would be a host.
    keys.rename(checkout / "inventory" / "mine" / "keys")
    hosts = checkout / "inventory" / "mine" / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("src: ../keys/", "src: keys/").replace("../wheels", "wheels"))
    (checkout / "inventory" / "wheels").rename(checkout / "inventory" / "mine" / "wheels")
    rc, told = checked(checkout)
    assert rc == 2 and "3 mistakes" in told, told
    assert (
        told.count("where Ansible reads every file as an inventory") >= 3
        and "dsv4-prefill, dsv4-decode, dsv4-router: pd_wheels is " in told
    ), told
